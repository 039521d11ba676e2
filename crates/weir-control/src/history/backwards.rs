//! Files of the history, read from the end: the newest entries are asked for.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use weir_observe::AUDIT_FILES_MAX;

use super::HistoryEntry;

/// Bytes that are read at a time.
const BLOCK_BYTES: u64 = 256 << 10;

/// A set of files, and its newest entry that was not taken yet.
pub(super) struct Set {
    pub(super) newest: Option<HistoryEntry>,
    /// The oldest first.
    files: Vec<Lines>,
}

impl Set {
    /// Opens all of its files: a rotation meanwhile changes nothing.
    pub(super) fn open(state: &Path, name: &str) -> io::Result<Set> {
        let mut files = Vec::new();
        for number in 0..AUDIT_FILES_MAX {
            let name = if number == 0 { name.to_owned() } else { format!("{name}.{number}") };
            files.extend(Lines::open(&state.join(name))?);
        }
        files.reverse();
        let mut set = Set { newest: None, files };
        set.take()?;
        Ok(set)
    }

    pub(super) fn time(&self) -> &str {
        self.newest.as_ref().map_or("", |entry| &entry.time)
    }

    /// The newest entry; the one before it is then the newest.
    pub(super) fn take(&mut self) -> io::Result<Option<HistoryEntry>> {
        let mut next = None;
        while let Some(file) = self.files.last_mut().filter(|_| next.is_none()) {
            match file.next()? {
                // A line that a full disk has torn is none.
                Some(line) => next = serde_json::from_slice(&line).ok(),
                None => drop(self.files.pop()),
            }
        }
        Ok(std::mem::replace(&mut self.newest, next))
    }
}

/// The lines of a file, the last first.
struct Lines {
    file: File,
    /// Bytes that are not read yet: the first ones of the file.
    unread: u64,
    /// What is read and not taken.
    read: Vec<u8>,
}

impl Lines {
    /// `None` where it is missing, or something else has its name.
    fn open(path: &Path) -> io::Result<Option<Lines>> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let file = match File::open(path) {
            // It was rotated just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let unread = file.metadata()?.len();
        Ok(Some(Lines { file, unread, read: Vec::new() }))
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.read.iter().rposition(|byte| *byte == b'\n') {
                let line = self.read.split_off(at);
                return Ok(Some(line[1..].to_vec()));
            }
            if self.unread == 0 {
                let first = std::mem::take(&mut self.read);
                return Ok(Some(first).filter(|line| !line.is_empty()));
            }
            let begin = self.unread.saturating_sub(BLOCK_BYTES);
            let mut block = vec![0; usize::try_from(self.unread - begin).unwrap_or_default()];
            self.file.read_exact_at(&mut block, begin)?;
            block.append(&mut self.read);
            (self.read, self.unread) = (block, begin);
        }
    }
}
