//! What the keeper does to files, as a trait so that tests can make the n-th act fail and cut the power, and its doing in
//! a folder.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The files of the accounts: one is open for appending at a time. All of it blocks.
pub trait AccountFiles: Debug + Send {
    /// The names of all files; none where the folder is not there.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The whole of a file; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

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

    /// Gives a file, which may have been made as `from` just now, another name, in place of any that has it, and returns when the folder's names are on disk.
    ///
    /// # Errors
    /// As the system says.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
}

/// Files (mode 0600) in a folder (mode 0700), which is made when the first is written.
#[derive(Debug)]
pub struct AccountsFolder {
    path: PathBuf,
    open: Option<Open>,
}

/// A file that is open for appending.
#[derive(Debug)]
struct Open {
    file: File,
    /// What it was made as, and the name that it has.
    name: String,
    path: PathBuf,
}

/// How many names are tried for a file that is not finished.
const NAMES_MAX: u32 = 4;

impl AccountsFolder {
    /// The files in that folder.
    pub fn new(path: PathBuf) -> AccountsFolder {
        AccountsFolder { path, open: None }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let open = self.open.as_mut().map(|open| &mut open.file);
        open.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

/// What is missing is none.
fn unless_missing<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name like this one that nothing has any more: one left behind may have another's mode. A folder stays where it is.
fn freed(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let other = |number| folder.join(format!("{number}-{name}"));
    let mut names = std::iter::once(folder.join(name)).chain((2..=NAMES_MAX).map(other));
    let mut result = Err(io::Error::from(io::ErrorKind::AlreadyExists));
    let found = names.find(|path| {
        result = unless_missing(fs::remove_file(path)).map(drop);
        result.is_ok()
    });
    result?;
    found.ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))
}

impl AccountFiles for AccountsFolder {
    fn names(&self) -> io::Result<Vec<String>> {
        let Some(entries) = unless_missing(fs::read_dir(&self.path))? else { return Ok(Vec::new()) };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        let Some(found) = unless_missing(fs::metadata(&path))? else { return Ok(None) };
        if !found.is_file() {
            // To open a pipe would be to wait for who writes to it.
            return Err(io::Error::other("it is no file"));
        }
        unless_missing(fs::read(path))
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.open = None;
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let path = freed(&self.path, name)?;
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(bytes)?;
        self.open = Some(Open { file, name: name.to_owned(), path });
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_data()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let made = self.open.as_ref().filter(|open| open.name == from);
        let path = made.map_or_else(|| self.path.join(from), |open| open.path.clone());
        fs::rename(path, self.path.join(to))?;
        File::open(&self.path)?.sync_all()
    }
}
