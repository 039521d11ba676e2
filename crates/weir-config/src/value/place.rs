//! Paths of files and folders. The loader makes them absolute: in a file they are relative to the file that
//! names them.

use super::text_value;
use std::{fmt, path::PathBuf, str::FromStr};

/// A file that must exist and be readable when the configuration is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilePath(pub PathBuf);

text_value!(FilePath, "weir-file", "a file that is there; relative to the file that names it");

impl FromStr for FilePath {
    type Err = String;

    fn from_str(text: &str) -> Result<FilePath, String> {
        check_path(text).map(FilePath)
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.display())
    }
}

/// A file, or those that match: `*` is any text within one name. Whether it is there shows when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileGlob(pub PathBuf);

text_value!(
    FileGlob,
    "weir-file-glob",
    "a file, or several by a glob: `*` is any text within one name; relative to the file that names it"
);

impl FileGlob {
    /// The number of `*` in it.
    pub fn stars(&self) -> usize {
        self.0.as_os_str().as_encoded_bytes().iter().filter(|byte| **byte == b'*').count()
    }
}

impl FromStr for FileGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<FileGlob, String> {
        check_path(text).map(FileGlob)
    }
}

impl fmt::Display for FileGlob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.display())
    }
}

/// A file or folder that Weir makes if it is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PathText(pub PathBuf);

text_value!(PathText, "weir-path", "a path; relative to the file that names it");

impl FromStr for PathText {
    type Err = String;

    fn from_str(text: &str) -> Result<PathText, String> {
        check_path(text).map(PathText)
    }
}

impl fmt::Display for PathText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.display())
    }
}

/// Where a log goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum LogTarget {
    /// The standard output.
    #[default]
    Stdout,
    /// A file. Weir appends to it, and opens it again on SIGUSR1.
    File(PathBuf),
}

text_value!(
    LogTarget,
    "weir-log-target",
    "`stdout`, or the path of a file, relative to the file that names it"
);

impl FromStr for LogTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<LogTarget, String> {
        match text {
            "stdout" => Ok(LogTarget::Stdout),
            _ => check_path(text).map(LogTarget::File),
        }
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::Stdout => out.write_str("stdout"),
            LogTarget::File(path) => write!(out, "{}", path.display()),
        }
    }
}

fn check_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path is empty".into());
    }
    if text.contains('\0') {
        return Err("a path has no NUL".into());
    }
    Ok(PathBuf::from(text))
}
