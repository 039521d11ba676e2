//! The files of the state folder: one is written beside what it takes the place of, and what is read is a file.
//!
//! Whatever lies in its folder, a Weir neither hangs at it nor is kept from starting by what it does not need: a name that only
//! ever holds something unfinished is taken from what has it, and where that cannot be done (a folder, a mount) another is used.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// How many names are tried.
const NAMES_MAX: u32 = 4;

/// A file (mode 0600) that has not got its name yet.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The file.
    pub file: File,
}

impl Scratch {
    /// Makes a file with this content, under a name like this one.
    ///
    /// # Errors
    /// As the system says.
    pub fn create(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<Scratch> {
        let path = freed(folder, name)?;
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(bytes)?;
        Ok(Scratch { path, file })
    }

    /// Gives the file its name, in place of any that has it; what is open stays so.
    ///
    /// # Errors
    /// As the system says.
    pub fn rename(&mut self, to: PathBuf) -> io::Result<()> {
        fs::rename(&self.path, &to)?;
        self.path = to;
        Ok(())
    }
}

/// A name that nothing has any more: one left behind may have another's mode, and be no file.
fn freed(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let mut tried = 1;
    loop {
        let path = match tried {
            1 => folder.join(name),
            more => folder.join(format!("{name}-{more}")),
        };
        match fs::remove_file(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) if tried == NAMES_MAX => return Err(error),
            Err(_) => tried += 1,
        }
    }
}

/// Opens a file for reading; `None` where there is none. What is no file is not opened: that may wait for ever.
///
/// # Errors
/// As the system says; a sentence where it is no file.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    match check(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    // Should it be another thing by now, it is not waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).map(Some)
}

/// Whether what has a name is a file.
///
/// # Errors
/// As the system says; a sentence where it is none.
pub fn check(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?.file_type();
    let is = match () {
        () if found.is_file() => return Ok(()),
        () if found.is_dir() => "a folder",
        () if found.is_fifo() => "a named pipe",
        () if found.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::other(format!("{} is {is} and no file; move it away", path.display())))
}

#[cfg(test)]
mod tests;
