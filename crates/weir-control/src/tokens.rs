//! The tokens that open the admin listener: made here, shown once, and kept as SHA-256 in the file `tokens`
//! of the state folder.
//!
//! Each request has the file's identity compared with what was read, so that a change counts at once, also
//! where another process made it in an upgrade. A file that cannot be read admits nobody. Where its file
//! system hangs, what was read last counts ([`looker`]).

mod looker;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::{constant_time, digest, rand};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use self::looker::Looker;
use crate::call::Role;
use crate::files::{content, replace};
use crate::status::rfc3339;

/// The file in the state folder.
pub(crate) const TOKENS: &str = "tokens";
/// What every token begins with, for programs that look for secrets that have leaked.
pub const PREFIX: &str = "weir_";
/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;
/// How many tokens there are at most.
pub(crate) const TOKENS_MAX: usize = 1000;
/// The longest name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A token that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenOrder {
    /// Its name: 1 to 64 of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sites that it sees and touches; empty: all.
    #[serde(default)]
    pub sites: Vec<String>,
    /// For how long it is good, in seconds; absent: until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u64>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenShown {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The sites that it sees and touches; absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// When it was made, RFC 3339.
    pub created: String,
    /// Until when it is good, RFC 3339; absent: until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Whether it is past that time.
    #[serde(default)]
    pub expired: bool,
}

/// A token that was made. Its secret is shown this once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenMade {
    /// The token itself.
    pub token: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub shown: TokenShown,
}

/// A token as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    shown: TokenShown,
    /// Of the whole token, in hexadecimal digits.
    sha256: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    tokens: Vec<Line>,
}

/// Why a token is not made or removed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name is none.
    #[error("a token's name has 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, `.`, `_` and `-`")]
    Name,
    /// There is one of that name.
    #[error("there is a token {0} already")]
    Taken(String),
    /// There is none of that name.
    #[error("there is no token {0}")]
    Unknown(String),
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens; remove one first")]
    TooMany,
    /// The time is too long.
    #[error("a token is good for at most 100 years")]
    TooLong,
    /// The file cannot be read or written.
    #[error("cannot use the file `{TOKENS}` of the state folder: {0}")]
    File(#[from] io::Error),
}

/// What a presented token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presented {
    /// With its SHA-256.
    Good(TokenShown, String),
    Expired(String),
    Unknown,
}

/// The tokens of a state folder.
#[derive(Debug)]
pub struct Tokens {
    kept: Arc<Kept>,
    looker: Arc<Looker>,
}

/// The file, and what was read of it.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// Held while the file is looked at, read or written, which may take long.
    file: Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    identity: Option<Identity>,
    page: Page,
    /// The file could not be read: nobody is admitted.
    is_unread: bool,
}

/// Inode, length, and the time of the last change: another file has another.
type Identity = (u64, u64, i64, i64);

impl Tokens {
    /// Those of a state folder.
    pub fn of(state: &Path) -> Tokens {
        let kept = Kept { path: state.join(TOKENS), file: Mutex::default(), known: Mutex::default() };
        Tokens { kept: Arc::new(kept), looker: Arc::default() }
    }

    /// Reads the file where it has changed, on a thread. Waits for that for a bounded time.
    ///
    /// # Cancel safety
    /// Safe: it is read all the same.
    pub(crate) async fn read_again(&self) {
        let kept = Arc::clone(&self.kept);
        Looker::look(&self.looker, move || kept.look()).await;
    }

    /// As [`Tokens::read_again`], without waiting.
    pub(crate) fn read_soon(&self) {
        let kept = Arc::clone(&self.kept);
        let _ = Looker::begin(&self.looker, move || kept.look());
    }

    /// Makes a token. Durable when this returns. Blocks.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub(crate) fn add(&self, order: TokenOrder, now: SystemTime) -> Result<TokenMade, TokenError> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let TokenOrder { name, role, sites, expires_s } = order;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_fine) {
            return Err(TokenError::Name);
        }
        let expires = expires_s.map(|seconds| end(now, seconds)).transpose()?;
        let (token, sha256) = fresh()?;
        let created = rfc3339(now);
        let shown = TokenShown { name, role, sites, created, expires, expired: false };
        self.kept.change(|page| {
            if page.tokens.iter().any(|kept| kept.shown.name == shown.name) {
                return Err(TokenError::Taken(shown.name.clone()));
            }
            if page.tokens.len() >= TOKENS_MAX {
                return Err(TokenError::TooMany);
            }
            page.tokens.push(Line { shown: shown.clone(), sha256 });
            Ok(())
        })?;
        Ok(TokenMade { token, shown })
    }

    /// Removes a token. Durable when this returns. Blocks.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub(crate) fn remove(&self, name: &str, now: SystemTime) -> Result<TokenShown, TokenError> {
        let mut removed = None;
        self.kept.change(|page| {
            let at = page.tokens.iter().position(|kept| kept.shown.name == name);
            let at = at.ok_or_else(|| TokenError::Unknown(name.to_owned()))?;
            removed = Some(page.tokens.remove(at).shown);
            Ok(())
        })?;
        removed.map(|shown| aged(shown, now)).ok_or_else(|| TokenError::Unknown(name.to_owned()))
    }

    /// All tokens, those that have expired included. Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn list(&self, now: SystemTime) -> Result<Vec<TokenShown>, TokenError> {
        let _file = self.kept.file.lock();
        self.kept.refresh()?;
        let known = self.kept.known.lock();
        Ok(known.page.tokens.iter().map(|kept| aged(kept.shown.clone(), now)).collect())
    }

    /// What a presented text is, by what was read last. Never waits for the file.
    pub(crate) fn look(&self, presented: &str, now: SystemTime) -> Presented {
        let hash = hash_of(presented);
        let known = self.kept.known.lock();
        let is_it = |kept: &&Line| {
            constant_time::verify_slices_are_equal(kept.sha256.as_bytes(), hash.as_bytes()).is_ok()
        };
        match known.page.tokens.iter().find(is_it).map(|kept| aged(kept.shown.clone(), now)) {
            None => Presented::Unknown,
            Some(shown) if shown.expired => Presented::Expired(shown.name),
            Some(shown) => Presented::Good(shown, hash),
        }
    }

    /// Whether the token with this SHA-256 is good still, by what was read last.
    pub(crate) fn is_good(&self, sha256: &str, now: SystemTime) -> bool {
        let known = self.kept.known.lock();
        let is_it = |kept: &&Line| kept.sha256 == sha256;
        known.page.tokens.iter().find(is_it).is_some_and(|kept| !aged(kept.shown.clone(), now).expired)
    }
}

impl Kept {
    /// Reads the file where it has changed. A file that cannot be read admits nobody.
    fn look(&self) {
        let _file = self.file.lock();
        if let Err(error) = self.refresh()
            && !std::mem::replace(&mut self.known.lock().is_unread, true)
        {
            tracing::error!("{error}; no token is good until it can be read");
        }
    }

    /// Reads the file if it is another than the one that was read. Call it with the file's lock.
    fn refresh(&self) -> io::Result<()> {
        let found = match std::fs::metadata(&self.path) {
            Ok(found) => Ok(Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        {
            let known = self.known.lock();
            if !known.is_unread
                && found.as_ref().is_ok_and(|identity| *identity == known.identity)
                && (known.identity.is_some() || known.page.tokens.is_empty())
            {
                return Ok(());
            }
        }
        let read = found.and_then(|identity| match identity {
            None => Ok(Known::default()),
            Some(_) => {
                let page = serde_json::from_slice(&content(&self.path)?)?;
                Ok(Known { identity, page, is_unread: false })
            }
        });
        let mut known = self.known.lock();
        let was_unread = known.is_unread;
        match read {
            Ok(read) => {
                *known = read;
                Ok(())
            }
            Err(error) => {
                *known = Known { is_unread: was_unread, ..Known::default() };
                Err(error)
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Page) -> Result<(), TokenError>) -> Result<(), TokenError> {
        let _file = self.file.lock();
        self.refresh()?;
        let mut page = self.known.lock().page.clone();
        change(&mut page)?;
        let text = serde_json::to_vec_pretty(&page).map_err(io::Error::from)?;
        replace(&self.path, &text)?;
        self.refresh()?;
        Ok(())
    }
}

/// A new token and its hash.
fn fresh() -> io::Result<(String, String)> {
    let mut random = [0; RANDOM_BYTES];
    rand::fill(&mut random).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    let token = format!("{PREFIX}{}", hex(&random));
    let hash = hash_of(&token);
    Ok((token, hash))
}

fn hash_of(token: &str) -> String {
    hex(digest::digest(&digest::SHA256, token.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn end(now: SystemTime, seconds: u64) -> Result<String, TokenError> {
    const SECONDS_MAX: u64 = 100 * 366 * 86_400;
    let seconds = Some(seconds).filter(|seconds| *seconds <= SECONDS_MAX).ok_or(TokenError::TooLong)?;
    now.checked_add(Duration::from_secs(seconds)).map(rfc3339).ok_or(TokenError::TooLong)
}

/// The same as it is at a time.
fn aged(mut shown: TokenShown, now: SystemTime) -> TokenShown {
    // A text that is no time has been written by somebody else: it is over.
    let is_over = |text: &String| text.parse::<Timestamp>().map_or(true, |end| SystemTime::from(end) <= now);
    shown.expired = shown.expires.as_ref().is_some_and(is_over);
    shown
}

#[cfg(test)]
mod tests;
