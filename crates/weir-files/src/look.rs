//! What a way leads to: a file with its siblings, a folder to be listed, a folder whose slash is missing, or
//! nothing. It opens and looks; it must not read.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::fs::{FileType, fstat};
use weir_policy::Coding;

use crate::kind;
use crate::root::{OpenError, Root, Siblings, Wait, of_errno};
use crate::stamp::Stamp;

/// What siblings may be coded in, and what their names end with. Of several that a client takes alike the
/// first is sent.
const SIBLINGS: [(Coding, &[u8]); 3] =
    [(Coding::Br, b".br"), (Coding::Zstd, b".zst"), (Coding::Gzip, b".gz")];

/// An open file and its version.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) stamp: Stamp,
}

/// What a way leads to.
#[derive(Debug)]
pub(crate) enum Looked {
    /// A file with these names below the root, and its siblings.
    File(Box<LookedFile>),
    /// A folder that has something to show; the path lacks the slash at its end.
    Slash,
    /// A folder to be listed.
    Folder(OwnedFd),
    /// Nothing.
    NotThere,
}

/// A file that was looked at.
#[derive(Debug)]
pub(crate) struct LookedFile {
    pub(crate) names: Vec<u8>,
    pub(crate) plain: Opened,
    pub(crate) siblings: Vec<(Coding, Opened)>,
}

/// What is behind one name.
enum Behind {
    File(Opened),
    Folder(OwnedFd),
    Nothing,
}

/// Looks where `names` lead; `is_folder` says that the path ends with a slash.
pub(crate) fn look(
    root: &Root,
    (names, is_folder): (&[u8], bool),
    wait: Wait,
    now: Instant,
) -> Result<Looked, OpenError> {
    let eyes = Eyes { root, wait, now };
    let index = || eyes.index(names);
    if is_folder {
        return match (index(), root.rules.lists) {
            (Ok(Some((names, file))), _) => eyes.with_siblings(names, file),
            (Ok(None) | Err(OpenError::Refused), true) => match eyes.behind(names)? {
                Behind::Folder(folder) => Ok(Looked::Folder(folder)),
                Behind::File(_) | Behind::Nothing => Ok(Looked::NotThere),
            },
            (Ok(None), false) => Ok(Looked::NotThere),
            (Err(error), _) => Err(error),
        };
    }
    match eyes.behind(names)? {
        Behind::File(file) => eyes.with_siblings(names.to_vec(), file),
        Behind::Folder(_) if root.rules.lists || index()?.is_some() => Ok(Looked::Slash),
        Behind::Folder(_) | Behind::Nothing => Ok(Looked::NotThere),
    }
}

#[derive(Clone, Copy)]
struct Eyes<'r> {
    root: &'r Root,
    wait: Wait,
    now: Instant,
}

impl Eyes<'_> {
    /// The first index file of a folder, with its names.
    fn index(&self, folder: &[u8]) -> Result<Option<(Vec<u8>, Opened)>, OpenError> {
        for index in &self.root.rules.index {
            let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
            let names = [folder, slash, index.as_bytes()].concat();
            if let Behind::File(file) = self.behind(&names)? {
                return Ok(Some((names, file)));
            }
        }
        Ok(None)
    }

    fn behind(&self, names: &[u8]) -> Result<Behind, OpenError> {
        let fd = match self.root.open(names, self.wait, self.now) {
            Ok(fd) => fd,
            Err(OpenError::NotThere) => return Ok(Behind::Nothing),
            Err(error) => return Err(error),
        };
        let stat = fstat(&fd).map_err(of_errno)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Behind::File(Opened { fd, stamp: Stamp::of(&stat) }),
            FileType::Directory => Behind::Folder(fd),
            _ => return Err(OpenError::Refused),
        })
    }

    /// A file with the siblings that are not older than it.
    fn with_siblings(&self, names: Vec<u8>, plain: Opened) -> Result<Looked, OpenError> {
        let mut siblings = Vec::new();
        if self.root.rules.siblings == Siblings::Used && kind::of(&names).is_compressible {
            for (coding, ending) in SIBLINGS {
                let sibling = [&names[..], ending].concat();
                match self.behind(&sibling) {
                    Ok(Behind::File(file)) if !file.stamp.is_older_than(&plain.stamp) => {
                        siblings.push((coding, file));
                    }
                    Ok(_) | Err(OpenError::Denied | OpenError::Refused) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Looked::File(Box::new(LookedFile { names, plain, siblings })))
    }
}
