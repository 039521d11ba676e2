//! The address of an ACME directory. Must not ask for it.

use super::text_value;
use std::{fmt, str::FromStr};

/// The URL of the directory of a certificate authority (RFC 8555 §7.1.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DirectoryUrl(String);

text_value!(
    DirectoryUrl,
    "weir-directory",
    "the URL of an ACME directory: `https://acme-v02.api.letsencrypt.org/directory`"
);

impl DirectoryUrl {
    /// That of Let's Encrypt.
    pub fn lets_encrypt() -> DirectoryUrl {
        DirectoryUrl("https://acme-v02.api.letsencrypt.org/directory".into())
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DirectoryUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<DirectoryUrl, String> {
        let Some(rest) = text.strip_prefix("https://") else {
            return Err("a directory is an `https://` URL".into());
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.is_empty() || authority.contains('@') {
            return Err("the URL has no host".into());
        }
        match text.bytes().all(|c| c.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&c)) {
            true => Ok(DirectoryUrl(text.into())),
            false => Err("the URL has a character that no URL has, or a `#`".into()),
        }
    }
}

impl fmt::Display for DirectoryUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
