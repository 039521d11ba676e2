//! The files of certificates: which there are, whether they have changed, and what they hold.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Larger files hold no chain and no key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The two files of a pair; the same where one has both. They are compared as texts: comparing the parts of
/// paths would be a third of the cost of looking at thousands.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

impl Files {
    fn texts(&self) -> (&OsStr, &OsStr) {
        (self.chain.as_os_str(), self.key.as_os_str())
    }
}

impl Ord for Files {
    fn cmp(&self, other: &Files) -> Ordering {
        self.texts().cmp(&other.texts())
    }
}

impl PartialOrd for Files {
    fn partial_cmp(&self, other: &Files) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Files {
    fn eq(&self, other: &Files) -> bool {
        self.texts() == other.texts()
    }
}

impl Eq for Files {}

/// Files, or globs for them, as a `[[certificate]]` names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) chain: PathBuf,
    pub(super) key: Option<PathBuf>,
    pub(super) is_default: bool,
}

impl Pattern {
    /// The pairs that match, in order. Without a glob the pair is there whether or not its files are.
    pub(super) fn pairs(&self) -> Vec<Files> {
        if !has_star(&self.chain) {
            let key = self.key.as_ref().unwrap_or(&self.chain);
            return vec![Files { chain: self.chain.clone(), key: key.clone() }];
        }
        let with_key = |(chain, stars): (PathBuf, Vec<String>)| {
            let key = self.key.as_ref().map_or_else(|| chain.clone(), |key| filled(key, &stars));
            Files { chain, key }
        };
        matching(&self.chain).into_iter().map(with_key).collect()
    }
}

fn has_star(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().contains(&b'*')
}

/// The files that match a glob, each with what its `*` stand for.
fn matching(pattern: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let mut found = vec![(PathBuf::new(), Vec::new())];
    for part in pattern.components() {
        let part = part.as_os_str();
        let Some(glob) = part.to_str().filter(|part| part.contains('*')) else {
            found.iter_mut().for_each(|(path, _)| path.push(part));
            continue;
        };
        let below = found.iter().flat_map(|(path, stars)| {
            let entered = names(path).into_iter().filter_map(|name| {
                let more = captures(glob, &name)?;
                let stars = stars.iter().cloned().chain(more.into_iter().map(str::to_owned)).collect();
                Some((path.join(&name), stars))
            });
            entered.collect::<Vec<_>>()
        });
        found = below.collect();
    }
    found.retain(|(path, _)| path.is_file());
    found
}

/// The names in a folder that are not hidden, in order; none where it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names
}

/// What each `*` of a pattern stands for in a name that matches it: as little as possible, the last the rest.
fn captures<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let (first, rest) = pattern.split_once('*')?;
    let mut name = name.strip_prefix(first)?;
    let mut captured = Vec::new();
    let (middle, last) = rest.rsplit_once('*').map_or((None, rest), |(middle, last)| (Some(middle), last));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        let at = name.find(part)?;
        captured.push(&name[..at]);
        name = &name[at + part.len()..];
    }
    captured.push(name.strip_suffix(last)?);
    Some(captured)
}

/// A pattern with its `*` replaced in order.
fn filled(pattern: &Path, stars: &[String]) -> PathBuf {
    let text = pattern.to_string_lossy();
    let mut parts = text.split('*');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for (at, part) in parts.enumerate() {
        filled.push_str(stars.get(at).map_or("*", String::as_str));
        filled.push_str(part);
    }
    PathBuf::from(filled)
}

/// What changes when a file is written, replaced or made readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of the file behind a path; `None` where there is none.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let of = |found: Metadata| Stamp {
            device: found.dev(),
            inode: found.ino(),
            bytes: found.size(),
            written: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        };
        fs::metadata(path).ok().map(of)
    }
}

impl Files {
    /// Of both files.
    pub(super) fn stamps(&self) -> [Option<Stamp>; 2] {
        let chain = Stamp::of(&self.chain);
        let key = if self.key == self.chain { chain } else { Stamp::of(&self.key) };
        [chain, key]
    }
}

/// The content of a file.
///
/// # Errors
/// A sentence that names the file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: &io::Error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        format!("{}: {why}", path.display())
    };
    let found = fs::metadata(path).map_err(|error| failed(&error))?;
    if found.len() > FILE_BYTES_MAX {
        return Err(format!("{}: it is larger than any certificate", path.display()));
    }
    weir_config::read_file(path, FILE_BYTES_MAX).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("*", "a", Some(vec!["a"])),
            ("*.pem", "a.pem", Some(vec!["a"])),
            ("*.pem", "a.key", None),
            ("a*b*c", "a1b2c", Some(vec!["1", "2"])),
            ("a*b*c", "abbc", Some(vec!["", "b"])),
            ("a*b*c", "ac", None),
            ("*-*-*", "a-b-c", Some(vec!["a", "b", "c"])),
            ("ab*ba", "aba", None),
        ] {
            assert_eq!(captures(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_key_is_found_by_what_its_chain_matched() {
        let folder = std::env::temp_dir().join(format!("weir-files-{}", std::process::id()));
        for name in
            ["live/a.example/full.pem", "live/b.example/full.pem", "live/README", "live/.hidden/full.pem"]
        {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::create_dir_all(folder.join("live/empty")).unwrap();
        let pattern = Pattern {
            chain: folder.join("live/*/full.pem"),
            key: Some(folder.join("keys/*.key")),
            is_default: false,
        };
        let pair = |name: &str| Files {
            chain: folder.join(format!("live/{name}/full.pem")),
            key: folder.join(format!("keys/{name}.key")),
        };
        assert_eq!(pattern.pairs(), [pair("a.example"), pair("b.example")]);
        let both = Pattern { key: None, ..pattern };
        assert!(both.pairs().iter().all(|files| files.chain == files.key));
        assert_eq!(
            read(&folder.join("no")).unwrap_err(),
            format!("{}/no: there is no such file", folder.display())
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
