//! The six things that the ledger does to files, as a trait so that tests can make the n-th fail and cut the power, and
//! their doing in a folder.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

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

    /// Gives a file another name, in place of any that has it.
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
    open: Option<File>,
}

impl LedgerFolder {
    /// The files in that folder, which must be there.
    pub fn new(path: PathBuf) -> LedgerFolder {
        LedgerFolder { path, open: None }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        self.open.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl LedgerFiles for LedgerFolder {
    fn read(&mut self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(Some(bytes))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.open = None;
        let path = self.path.join(name);
        // One left behind may have another's mode.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        self.open = Some(file);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_data()
    }

    fn is_named(&mut self, name: &str) -> io::Result<bool> {
        let own = self.file()?.metadata()?;
        match fs::symlink_metadata(self.path.join(name)) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn overwrite(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        let (file, is_new) = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (options.create_new(true).open(&path)?, true)
            }
            opened => (opened?, false),
        };
        file.write_all_at(bytes, 0)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            file.set_len(bytes.len() as u64)?;
        }
        file.sync_data()?;
        if is_new { self.sync_folder() } else { Ok(()) }
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}
