//! Names of files below a root, and what answers for what is not there. Must not look at the file system.

use super::text_value;
use std::{fmt, str::FromStr};

/// The name of a file in any folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName(pub String);

text_value!(FileName, "weir-file-name", "the name of a file, without a slash: `index.html`");

impl FromStr for FileName {
    type Err = String;

    fn from_str(text: &str) -> Result<FileName, String> {
        if text.is_empty() || matches!(text, "." | "..") {
            return Err("that is no file's name".into());
        }
        match text.contains(['/', '\\']) || text.chars().any(char::is_control) {
            true => Err("a name has no slash and no control character".into()),
            false => Ok(FileName(text.into())),
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What answers for what is not below a root.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// The upstream.
    Upstream,
    /// The file at this path below the root.
    File(String),
}

text_value!(
    Fallback,
    "weir-fallback",
    "what answers for what is not below `root`: `upstream`, or the path of a file below it: `/index.html`"
);

impl FromStr for Fallback {
    type Err = String;

    fn from_str(text: &str) -> Result<Fallback, String> {
        if text == "upstream" {
            return Ok(Fallback::Upstream);
        }
        if !text.starts_with('/') {
            return Err(format!("`{text}` is neither `upstream` nor the path of a file: `/index.html`"));
        }
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#%\\".contains(&byte);
        let has_dots = text.split('/').any(|name| matches!(name, "." | ".."));
        match text.bytes().all(is_plain) && !has_dots && !text.ends_with('/') {
            true => Ok(Fallback::File(text.into())),
            false => Err("it is the path of a file, without dot segments, `?`, `#`, `%` and spaces".into()),
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fallback::Upstream => out.write_str("upstream"),
            Fallback::File(path) => out.write_str(path),
        }
    }
}
