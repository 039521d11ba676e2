//! The history as it is asked for and shown. The data plane's room of observation writes it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_observe::{AUDIT, AUDIT_BYTES_MAX, AUDIT_FILES_MAX};

/// What is asked for. Several conditions must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryOrder {
    /// The most entries: the newest.
    pub limit: usize,
    /// Only entries of this site.
    pub site: Option<String>,
    /// Only those of this actor: `token:cms`.
    pub actor: Option<String>,
    /// Only this act: `purge`.
    pub act: Option<String>,
    /// Only this result: `done`, `refused`, `failed`.
    pub result: Option<String>,
    /// Only from this time on, RFC 3339 in UTC or the beginning of one: `2026-11-23`, `2026-11-23T10`.
    pub since: Option<String>,
}

/// Some of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryShown {
    /// The entries, the newest last.
    pub entries: Vec<HistoryEntry>,
    /// Why the history cannot be written now; absent where it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Entries that were lost since the start because the disk failed for too long.
    #[serde(default)]
    pub lost: u64,
}

/// An entry of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryEntry {
    /// When, RFC 3339.
    pub time: String,
    /// Who: `user:NAME` by the control socket, `token:NAME`, `client:ADDRESS` on a data listener, `signal`,
    /// or `unknown`.
    pub actor: String,
    /// From where; absent where that is this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What: `purge`, `reload`, `upgrade`, `verify`, `token-add`, `token-remove`, or the method and the path
    /// of a refused attempt.
    pub act: String,
    /// What it concerned; absent where that is all.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub scope: Value,
    /// The sites that it concerned; absent: the whole Weir, or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<String>,
    /// `done`, `refused` or `failed`.
    pub result: String,
    /// Why, or what else there is to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The number of the mark in the ledger, for a purge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The id of the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request_id: String,
}

impl HistoryOrder {
    fn wants(&self, entry: &HistoryEntry, own: Option<&[String]>) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let is_own = own
            .is_none_or(|own| !entry.sites.is_empty() && entry.sites.iter().all(|site| own.contains(site)));
        is_own
            && is(&self.actor, &entry.actor)
            && is(&self.act, &entry.act)
            && is(&self.result, &entry.result)
            && self.site.as_ref().is_none_or(|site| entry.sites.contains(site))
            && self.since.as_ref().is_none_or(|since| entry.time >= *since)
    }
}

/// The newest entries of a state folder that are wanted; of `own` sites alone, where there are some. Blocks.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read(
    state: &Path,
    order: &HistoryOrder,
    own: Option<&[String]>,
) -> io::Result<Vec<HistoryEntry>> {
    let mut found = VecDeque::new();
    for number in 0..AUDIT_FILES_MAX {
        let name = if number == 0 { AUDIT.to_owned() } else { format!("{AUDIT}.{number}") };
        let Some(bytes) = content(&state.join(name))? else { continue };
        // A line that a full disk has torn is none.
        let lines = bytes.split(|byte| *byte == b'\n').rev();
        for entry in lines.filter_map(|line| serde_json::from_slice::<HistoryEntry>(line).ok()) {
            if found.len() >= order.limit {
                return Ok(found.into());
            }
            if order.wants(&entry, own) {
                found.push_front(entry);
            }
        }
    }
    Ok(found.into())
}

/// What a file holds; `None` where it is missing, or something else has its name.
fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    // The last write may have gone beyond the length at which files are rotated.
    File::open(path)?.take(2 * AUDIT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_are_wanted() {
        let folder = std::env::temp_dir().join(format!("weir-history-read-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let line = |minute: u32, site: &str, act: &str| {
            format!(
                "{{\"time\":\"2026-11-23T10:{minute:02}:00Z\",\"act\":\"{act}\",\"sites\":[\"{site}\"]}}\n"
            )
        };
        let old = line(1, "a", "purge") + &line(2, "b", "purge") + "{\"time\":\"torn";
        std::fs::write(folder.join("audit.1"), old).unwrap();
        let new = line(3, "a", "purge") + "{\"time\":\"2026-11-23T10:04:00Z\",\"act\":\"reload\"}\n\n";
        std::fs::write(folder.join("audit"), new).unwrap();
        let read = |order: &HistoryOrder, own: Option<&[String]>| -> Vec<String> {
            let all = read(&folder, order, own).unwrap();
            all.into_iter().map(|entry| entry.time[14..16].to_owned()).collect()
        };
        let order = HistoryOrder { limit: 3, ..HistoryOrder::default() };
        assert_eq!(read(&order, None), ["02", "03", "04"]);
        assert_eq!(read(&order, Some(&["a".to_owned()])), ["01", "03"], "not what concerns the whole Weir");
        let of_b = HistoryOrder { site: Some("b".to_owned()), ..order.clone() };
        assert_eq!(read(&of_b, None), ["02"]);
        let late = HistoryOrder { since: Some("2026-11-23T10:03".to_owned()), ..order.clone() };
        assert_eq!(read(&late, None), ["03", "04"]);
        let reloads = HistoryOrder { act: Some("reload".to_owned()), ..order };
        assert_eq!(read(&reloads, None), ["04"]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
