//! A set of files of the history: lines are appended, durably, and long files rotated.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// The length in bytes at which a file is rotated.
pub const AUDIT_BYTES_MAX: u64 = 8 << 20;
/// How many files of a set there are at most.
pub const AUDIT_FILES_MAX: usize = 4;

/// The newest file of a set and where it is.
pub(super) struct AuditFile {
    path: PathBuf,
    open: Option<File>,
    /// The last write ended within a line.
    is_torn: bool,
}

impl AuditFile {
    pub(super) fn at(path: PathBuf) -> AuditFile {
        AuditFile { path, open: None, is_torn: false }
    }

    /// Writes lines behind those that are there, durably. Returns how many bytes of whole lines are written.
    pub(super) fn append(&mut self, lines: &[u8], may_rotate: bool) -> (usize, io::Result<()>) {
        let opened = self.opened(may_rotate);
        let file = match opened {
            Ok(file) => file,
            Err(error) => return (0, Err(error)),
        };
        let mut sent = 0;
        while sent < lines.len() {
            match file.write(&lines[sent..]) {
                Ok(bytes) if bytes > 0 => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    let whole = lines[..sent].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                    self.is_torn = sent > whole;
                    return (whole, Err(failed.err().unwrap_or(io::ErrorKind::WriteZero.into())));
                }
            }
        }
        let synced = file.sync_data();
        (sent, synced)
    }

    /// The file, where the next line begins.
    fn opened(&mut self, may_rotate: bool) -> io::Result<&mut File> {
        self.follow();
        if may_rotate && self.length().is_some_and(|length| length >= AUDIT_BYTES_MAX) {
            self.rotate()?;
        }
        let file = match &mut self.open {
            Some(file) => file,
            none => none.insert(OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?),
        };
        if std::mem::take(&mut self.is_torn) {
            file.write_all(b"\n").inspect_err(|_| self.is_torn = true)?;
        }
        Ok(file)
    }

    /// Closes a file that its path names no more.
    fn follow(&mut self) {
        let named = std::fs::metadata(&self.path).map(|named| (named.dev(), named.ino())).ok();
        let own = self.open.as_ref().and_then(|file| file.metadata().ok()).map(|own| (own.dev(), own.ino()));
        if own != named {
            self.open = None;
        }
    }

    fn length(&self) -> Option<u64> {
        self.open.as_ref()?.metadata().ok().map(|metadata| metadata.len())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let name = |number: usize| match number {
            0 => self.path.clone(),
            number => self.path.with_added_extension(number.to_string()),
        };
        for number in (0..AUDIT_FILES_MAX - 1).rev() {
            match std::fs::rename(name(number), name(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.open = None;
        Ok(())
    }
}
