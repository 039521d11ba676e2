//! What a warming is to do, as it is ordered and as it is kept: JSON with a version. It must not read a file.

use std::path::PathBuf;

use serde_json::{Value, json};

/// The form of the file.
const VERSION: u64 = 1;

/// What is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Who has ordered it, as in the history.
    pub actor: String,
    /// The caller whose job it is.
    pub owner: String,
    /// The sites whose URLs it may ask for; `None`: all.
    pub sites: Option<Vec<String>>,
    /// The entry of the configuration that it comes from, if it does.
    pub entry: Option<String>,
    /// Sitemaps, which add their URLs to the list.
    pub sitemaps: Vec<String>,
    /// A folder, whose files add their URLs to the list.
    pub folder: Option<Folder>,
    /// Fields of each request.
    pub headers: Vec<(String, String)>,
    /// URLs a second at most.
    pub rate: Option<u32>,
    /// URLs at a time at most.
    pub parallel: u16,
    /// Whether what is fresh is fetched as well.
    pub refresh: bool,
}

/// Files that are put in as if an origin had answered with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where they are.
    pub path: PathBuf,
    /// The URL of the folder, with a `/` at its end.
    pub url: String,
}

/// How far the list of a warming is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// More URLs are to come from the caller.
    Receiving,
    /// All of these have come: so many bytes, and so many URLs. Sitemaps and the folder are not read yet.
    Received {
        /// Bytes of the list.
        bytes: u64,
        /// URLs.
        urls: u64,
    },
    /// The list is whole.
    Listed {
        /// Bytes of the list.
        bytes: u64,
        /// URLs.
        urls: u64,
    },
}

impl Order {
    /// The order and the stage of its list as bytes.
    pub(crate) fn to_bytes(&self, stage: Stage) -> Vec<u8> {
        let stage = match stage {
            Stage::Receiving => json!({ "is": "receiving" }),
            Stage::Received { bytes, urls } => json!({ "is": "received", "bytes": bytes, "urls": urls }),
            Stage::Listed { bytes, urls } => json!({ "is": "listed", "bytes": bytes, "urls": urls }),
        };
        let folder = self
            .folder
            .as_ref()
            .map(|folder| json!({ "path": folder.path.to_string_lossy(), "url": folder.url }));
        let all = json!({
            "version": VERSION,
            "actor": self.actor,
            "owner": self.owner,
            "sites": self.sites,
            "entry": self.entry,
            "sitemaps": self.sitemaps,
            "folder": folder,
            "headers": self.headers,
            "rate": self.rate,
            "parallel": self.parallel,
            "refresh": self.refresh,
            "stage": stage,
        });
        all.to_string().into_bytes()
    }

    /// What bytes say; `None` where they are of another version, or not whole.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<(Order, Stage)> {
        let all: Value = serde_json::from_slice(bytes).ok()?;
        if all["version"].as_u64()? != VERSION {
            return None;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| value.as_array()?.iter().map(text).collect::<Option<Vec<_>>>();
        let pair = |value: &Value| Some((text(&value[0])?, text(&value[1])?));
        let folder = match &all["folder"] {
            Value::Null => None,
            folder => Some(Folder { path: text(&folder["path"])?.into(), url: text(&folder["url"])? }),
        };
        let count = |name: &str| all["stage"][name].as_u64();
        let stage = match all["stage"]["is"].as_str()? {
            "receiving" => Stage::Receiving,
            "received" => Stage::Received { bytes: count("bytes")?, urls: count("urls")? },
            "listed" => Stage::Listed { bytes: count("bytes")?, urls: count("urls")? },
            _ => return None,
        };
        let order = Order {
            actor: text(&all["actor"])?,
            owner: text(&all["owner"])?,
            sites: if all["sites"].is_null() { None } else { Some(texts(&all["sites"])?) },
            entry: text(&all["entry"]),
            sitemaps: texts(&all["sitemaps"])?,
            folder,
            headers: all["headers"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            rate: all["rate"].as_u64().and_then(|rate| u32::try_from(rate).ok()),
            parallel: u16::try_from(all["parallel"].as_u64()?).ok()?,
            refresh: all["refresh"].as_bool()?,
        };
        Some((order, stage))
    }

    /// Whether URLs come from elsewhere than the caller.
    pub(crate) fn has_sources(&self) -> bool {
        !self.sitemaps.is_empty() || self.folder.is_some()
    }
}

#[cfg(test)]
mod tests;
