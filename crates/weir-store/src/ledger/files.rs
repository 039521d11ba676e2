//! The six things that the ledger does to files, as a trait so that tests can make the n-th fail and cut the power, and
//! their doing in a folder.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use weir_disk::scratch::{self, Scratch};

/// The files of a ledger: one is open for appending at a time. All of it blocks.
pub trait LedgerFiles: Debug + Send {
    /// The whole of a file; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is longer than `bytes_max`.
    fn read(&mut self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>>;

    /// Makes a file with this content, in place of any of that name, and keeps it open.
    ///
    /// # Errors
    /// As the system says.
    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Writes at the end of the open file.
    ///
    /// # Errors
    /// As the system says; a part may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when what was written to the open file is on disk.
    ///
    /// # Errors
    /// What was written since the last sync may be lost, even if a later sync succeeds.
    fn sync(&mut self) -> io::Result<()>;

    /// Whether the open file is still the one of that name: it may have been taken away, or another put in its place.
    ///
    /// # Errors
    /// As the system says.
    fn is_named(&mut self, name: &str) -> io::Result<bool>;

    /// Makes these bytes the whole of a small file, which is made where there is none, in place: durable when it returns. The
    /// open file stays open.
    ///
    /// # Errors
    /// As the system says; the file has what it had, these bytes, or neither.
    fn overwrite(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file, which may have been made as `from` just now, another name, in place of any that has it.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Returns when the folder's names are on disk.
    ///
    /// # Errors
    /// As the system says.
    fn sync_folder(&mut self) -> io::Result<()>;
}

/// Files (mode 0600) in a folder.
#[derive(Debug)]
pub struct LedgerFolder {
    path: PathBuf,
    open: Option<Scratch>,
    /// What the open file was made as.
    made: String,
}

impl LedgerFolder {
    /// The files in that folder, which must be there.
    pub fn new(path: PathBuf) -> LedgerFolder {
        LedgerFolder { path, open: None, made: String::new() }
    }

    fn open(&mut self) -> io::Result<&mut Scratch> {
        self.open.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl LedgerFiles for LedgerFolder {
    fn read(&mut self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = scratch::open(&self.path.join(name))? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(Some(bytes))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.open = None;
        self.open = Some(Scratch::create(&self.path, name, bytes)?);
        name.clone_into(&mut self.made);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open()?.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.open()?.file.sync_data()
    }

    fn is_named(&mut self, name: &str) -> io::Result<bool> {
        let path = self.path.join(name);
        let own = self.open()?.file.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn overwrite(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let is_new = match scratch::check(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            checked => checked.map(|()| false)?,
        };
        let file = OpenOptions::new().write(true).create_new(is_new).mode(0o600).open(path)?;
        file.write_all_at(bytes, 0)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        file.sync_data()?;
        if is_new { self.sync_folder() } else { Ok(()) }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let to = self.path.join(to);
        match &mut self.open {
            Some(open) if self.made == from => open.rename(to),
            _ => std::fs::rename(self.path.join(from), to),
        }
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
