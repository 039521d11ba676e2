//! Origins as the API lists and changes them, and the file of the changes that are kept. It must not know how
//! origins are reached.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::files::{content, replace};

/// The file in the state folder.
pub(crate) const ORIGINS: &str = "origins";
/// The version of the file.
const VERSION: u32 = 1;

/// What is to be done with an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OriginAct {
    /// It takes part from now on. One that was removed comes back.
    Add,
    /// It gets the requests of its sessions only.
    Drain,
    /// It takes its share again: ends `drain` and `maint`.
    Ready,
    /// It gets another weight.
    Weight,
    /// It gets no requests.
    Maint,
    /// It leaves. Requests under way finish.
    Remove,
    /// It is what the file says again. One that the file does not have leaves.
    Forget,
}

impl OriginAct {
    /// Whether the origin's adjustment ends with it.
    pub fn ends(self) -> bool {
        matches!(self, OriginAct::Remove | OriginAct::Forget)
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            OriginAct::Add => "add",
            OriginAct::Drain => "drain",
            OriginAct::Ready => "ready",
            OriginAct::Weight => "weight",
            OriginAct::Maint => "maint",
            OriginAct::Remove => "remove",
            OriginAct::Forget => "forget",
        }
    }
}

/// A change of an origin that is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OriginOrder {
    /// The upstream's name.
    pub upstream: String,
    /// The origin: its URL, the name of one address of it, `http://name@192.0.2.1:80`, or its name in
    /// session ids.
    pub origin: String,
    /// What is to be done.
    pub act: OriginAct,
    /// The weight, 1 to 1000: with `weight`, and with `add`, where it is 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// With `add`: it is used only when all others are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
    /// With `add`: its name in session ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The change outlasts restarts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

impl OriginOrder {
    /// Refuses what contradicts itself.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let word = self.act.word();
        match (self.act, self.weight) {
            (OriginAct::Weight, None) => return Err("name the new weight, 1 to 1000".to_owned()),
            (OriginAct::Add | OriginAct::Weight, _) | (_, None) => {}
            (_, Some(_)) => return Err(format!("`{word}` takes no weight")),
        }
        if self.backup && self.act != OriginAct::Add {
            return Err(format!("`{word}` makes no backup; that is for `add`"));
        }
        if self.id.is_some() && self.act != OriginAct::Add {
            return Err(format!("`{word}` gives no id; that is for `add`"));
        }
        Ok(())
    }
}

/// The origins of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginsOf {
    /// The upstream's name.
    pub upstream: String,
    /// Whether more origins are ejected than may be, so that all are used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub panic: bool,
    /// Those of the file in its order, those that were added, those that were removed.
    pub origins: Vec<OriginShown>,
}

/// An origin as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginShown {
    /// Its name: the URL, and of one address of a name `http://name@192.0.2.1:80`.
    pub origin: String,
    /// The name that it is one address of; absent where it is no such address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Its name in session ids; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `ready`, `ejected`, `down`, `draining`, `maintenance` or `removed`.
    pub state: String,
    /// Why; absent where it takes its share.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Its share of the requests as its weight says, 0 to 1.
    pub share: f64,
    /// Its weight.
    pub weight: u32,
    /// Whether it is used only when all others are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
    /// Requests under way.
    pub in_flight: u32,
    /// Tunnels and event streams under way.
    pub streams: usize,
    /// Whether nothing is under way.
    pub empty: bool,
    /// Requests sent.
    pub requests: u64,
    /// Requests that it failed.
    pub failures: u64,
    /// The error of its last failure, where it has not answered since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<String>,
    /// What its agent has said: `50%`, `maxconn 20`; absent without an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How long ago a session's request was sent there last; absent where none ever was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_session_ago_s: Option<u64>,
    /// The time to the first byte in milliseconds: its average, raised by each peak, which fades while
    /// nothing is asked; absent before the first response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f64>,
    /// What its checks say; absent without checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// How it differs from the file, a phrase each.
    pub differences: Vec<String>,
    /// Whether that outlasts restarts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// An origin that was changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OriginChanged {
    /// The upstream's name.
    pub upstream: String,
    /// As it is now; absent where it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginShown>,
    /// What the operator should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Why a change is refused. Nothing has changed then, but where the state folder fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginRefusal {
    /// There is no such upstream or origin.
    #[error("{message}")]
    Unknown {
        /// A sentence.
        message: String,
        /// What may have been meant.
        help: String,
    },
    /// It makes no sense.
    #[error("{0}")]
    Unfit(String),
    /// It contradicts what is.
    #[error("{0}")]
    Contradiction(String),
    /// It is in force and will not outlast a restart.
    #[error("changed until a restart only: {0}")]
    Unkept(String),
}

/// A change of an origin, as it is kept and handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OriginChange {
    /// The upstream's name.
    pub upstream: String,
    /// The origin's name.
    pub origin: String,
    /// The file did not have it: `primary` or `backup`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<String>,
    /// Its name in session ids, where it was added with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// It was removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Its weight in place of the file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// `drain` or `maint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Page {
    version: u32,
    changes: Vec<OriginChange>,
}

/// The file of the changes that outlast restarts.
#[derive(Debug)]
pub struct KeptOrigins {
    path: PathBuf,
    /// Why the file must not be replaced: what it holds is not known.
    unread: Mutex<Option<String>>,
}

impl KeptOrigins {
    /// Reads the file of a state folder. One that is none is set aside under another name, and logged.
    /// Blocks.
    pub fn open(state: &Path) -> (KeptOrigins, Vec<OriginChange>) {
        let path = state.join(ORIGINS);
        let (unread, changes) = match read(&path) {
            Ok(changes) => (None, changes),
            Err(Unread::File(error)) => {
                (Some(format!("cannot read {}: {error}", path.display())), Vec::new())
            }
            Err(Unread::Content(why)) => (aside(&path, &why), Vec::new()),
        };
        if let Some(why) = &unread {
            tracing::error!("{why}; what was kept of origins is not in force, and nothing is kept");
        }
        (KeptOrigins { path, unread: Mutex::new(unread) }, changes)
    }

    /// Replaces what is kept. Durable when this returns. Blocks.
    ///
    /// # Errors
    /// A sentence; the file is as before.
    pub fn replace(&self, changes: Vec<OriginChange>) -> Result<(), String> {
        if let Some(why) = &*self.unread.lock() {
            return Err(why.clone());
        }
        let page = Page { version: VERSION, changes };
        let text = serde_json::to_vec_pretty(&page).map_err(|error| error.to_string())?;
        let written = replace(&self.path, &text);
        written.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

enum Unread {
    File(io::Error),
    Content(String),
}

fn read(path: &Path) -> Result<Vec<OriginChange>, Unread> {
    let bytes = match content(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Unread::File(error)),
    };
    let page: Page = serde_json::from_slice(&bytes).map_err(|error| Unread::Content(error.to_string()))?;
    if page.version != VERSION {
        let why = format!("it is of version {}, and this program knows version {VERSION}", page.version);
        return Err(Unread::Content(why));
    }
    Ok(page.changes)
}

/// Sets a file aside that is none; says why where that fails.
fn aside(path: &Path, why: &str) -> Option<String> {
    match set_aside(path) {
        Ok(aside) => {
            let (path, aside) = (path.display(), aside.display());
            tracing::error!(why, "{path} is not what this Weir writes; it is {aside} now and not in force");
            None
        }
        Err(error) => Some(format!("{} is not what this Weir writes ({why}): {error}", path.display())),
    }
}

/// Gives a file a name that no file has; returns it.
fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let aside = path.with_file_name(format!("{ORIGINS}-unread-{number}"));
        // A link is made only where there is no file of that name.
        match std::fs::hard_link(path, &aside) {
            Ok(()) => {
                std::fs::remove_file(path)?;
                return Ok(aside);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weir-origins-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn change() -> OriginChange {
        OriginChange {
            upstream: "main".to_owned(),
            origin: "http://a:80".to_owned(),
            weight: Some(5),
            ..OriginChange::default()
        }
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let state = folder("kept");
        let (kept, changes) = KeptOrigins::open(&state);
        assert_eq!(changes, []);
        kept.replace(vec![change()]).unwrap();
        assert_eq!(KeptOrigins::open(&state).1, [change()]);
        std::fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_set_aside_and_never_lost() {
        let state = folder("aside");
        for (number, text) in ["{", r#"{"version":2,"changes":[]}"#, "\u{0}"].iter().enumerate() {
            std::fs::write(state.join(ORIGINS), text).unwrap();
            let (kept, changes) = KeptOrigins::open(&state);
            assert_eq!(changes, []);
            kept.replace(vec![change()]).unwrap();
            let aside = state.join(format!("{ORIGINS}-unread-{}", number + 1));
            assert_eq!(std::fs::read_to_string(aside).unwrap(), *text);
        }
        // What is no file stays where it is, and nothing is kept.
        std::fs::remove_file(state.join(ORIGINS)).unwrap();
        std::fs::create_dir(state.join(ORIGINS)).unwrap();
        let (kept, _) = KeptOrigins::open(&state);
        assert!(kept.replace(Vec::new()).unwrap_err().contains("cannot read"));
        std::fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn orders_that_contradict_themselves_are_refused() {
        let order = |act, weight, backup| OriginOrder {
            upstream: "main".to_owned(),
            origin: "http://a".to_owned(),
            act,
            weight,
            backup,
            id: None,
            keep: false,
        };
        assert!(order(OriginAct::Weight, None, false).check().is_err());
        assert!(order(OriginAct::Drain, Some(1), false).check().is_err());
        assert!(order(OriginAct::Ready, None, true).check().is_err());
        let named = |act| OriginOrder { id: Some("node3".to_owned()), ..order(act, None, false) };
        assert!(named(OriginAct::Drain).check().is_err() && named(OriginAct::Add).check().is_ok());
        assert!(order(OriginAct::Add, Some(1), true).check().is_ok());
        assert!(
            serde_json::from_str::<OriginOrder>(r#"{"upstream":"a","origin":"b","act":"drain","wait":true}"#)
                .is_err()
        );
    }
}
