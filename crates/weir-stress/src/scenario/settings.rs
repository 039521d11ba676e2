//! What a scenario's file says of its origin and its servers. `docs/guide/stress.md` says what the keys mean.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::scenario::catalogue::{Lifetime, Part, Wrong};
use crate::scenario::sizes::{Bytes, Sizes};

/// The longest module, in seconds: a week.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

/// The scenario's own origin.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OriginSettings {
    #[serde(default)]
    pub(crate) listen: Option<SocketAddr>,
    #[serde(default)]
    pub(crate) part: Vec<PartSettings>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartSettings {
    pub(crate) path: String,
    size: Sizes,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    max_age: Option<u64>,
    #[serde(default)]
    no_store: bool,
    #[serde(default)]
    chunked: bool,
    /// Whether responses have an `ETag`.
    #[serde(default = "always")]
    etag: bool,
    /// Whether ranges are answered by parts.
    #[serde(default = "always")]
    ranges: bool,
    /// Seconds.
    #[serde(default)]
    pub(crate) delay: Option<f64>,
    #[serde(default)]
    pub(crate) rate: Option<Bytes>,
    /// Seconds.
    #[serde(default)]
    pub(crate) changes_every: Option<f64>,
    #[serde(default)]
    wrong: Wrong,
    /// More fields of each response.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, String>,
}

/// A server under test.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    pub(crate) name: String,
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) command: Option<Words>,
    /// Run before the command, to its end.
    #[serde(default)]
    pub(crate) prepare: Option<Words>,
    /// Written into the scratch folder before the server starts.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, Text>,
    /// What stands for `{name}` in commands and files.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, String>,
    /// The path that must answer before the server counts as started.
    #[serde(default = "slash")]
    pub(crate) ready: String,
    #[serde(default = "thirty")]
    pub(crate) ready_within: f64,
    #[serde(default = "ten")]
    pub(crate) stop_within: f64,
    #[serde(default)]
    pub(crate) pid: Option<u32>,
    #[serde(default)]
    pub(crate) pid_file: Option<String>,
    #[serde(default)]
    pub(crate) wrap: Option<Words>,
    /// A command that says its version.
    #[serde(default)]
    pub(crate) version: Option<Words>,
    #[serde(default)]
    pub(crate) ca: Option<PathBuf>,
    #[serde(default)]
    pub(crate) insecure: bool,
    /// Whether clients speak HTTP/2.
    #[serde(default)]
    pub(crate) http2: bool,
    /// The host that is asked for, instead of the URL's.
    #[serde(default)]
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) says: Option<Says>,
    #[serde(default)]
    pub(crate) purge: Option<Purge>,
    /// This server is yours to load, though it is not this machine.
    #[serde(default)]
    pub(crate) mine: bool,
}

/// The text of a file: as it is written here, or where it is, beside the scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Here(String),
    From { from: PathBuf },
}

/// A command: its words, or a line for the shell.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Words {
    Line(String),
    List(Vec<String>),
}

/// Where a server says what it has done and holds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Says {
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) command: Option<Words>,
    #[serde(default)]
    pub(crate) file: Option<String>,
    pub(crate) format: Format,
    /// Added to each request for `url`, e.g. an `Authorization` line.
    #[serde(default)]
    pub(crate) headers: Vec<String>,
    /// Where each figure is found: a metric with labels, a JSON pointer, a field's number.
    pub(crate) figures: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    Prometheus,
    Json,
    /// Text with numbers, as nginx's stub_status: the n-th number.
    Numbers,
    /// A log: the count of lines, or the sum of the n-th column.
    Lines,
}

/// How something is purged.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Purge {
    #[serde(default)]
    pub(crate) method: Option<String>,
    /// Another host and port than the server's.
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) command: Option<Words>,
    #[serde(default)]
    pub(crate) headers: Vec<String>,
}

fn always() -> bool {
    true
}

fn ten() -> f64 {
    10.0
}

fn thirty() -> f64 {
    30.0
}

fn slash() -> String {
    "/".to_owned()
}

/// The host and the port of a URL.
pub(crate) fn place(url: &str) -> &str {
    let rest = url.split("://").nth(1).unwrap_or(url);
    rest.split('/').next().unwrap_or(rest)
}

impl ServerSettings {
    /// The host and the port of its URL.
    pub(crate) fn place(&self) -> &str {
        place(&self.url)
    }

    /// Reads the files that are elsewhere, from `folder` on.
    ///
    /// # Errors
    /// Which cannot be read, and why.
    pub(crate) fn read_files(&mut self, folder: &Path) -> Result<(), String> {
        for text in self.files.values_mut() {
            if let Text::From { from } = text {
                let path = folder.join(&*from);
                let read = std::fs::read_to_string(&path);
                let read = read.map_err(|error| {
                    format!("server `{}`: {} cannot be read: {error}", self.name, path.display())
                })?;
                *text = Text::Here(read);
            }
        }
        Ok(())
    }

    /// A server that others run.
    pub(crate) fn elsewhere(url: &str, mine: bool) -> Self {
        let host = place(url);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        Self {
            name: host.chars().map(plain).collect(),
            url: url.to_owned(),
            command: None,
            prepare: None,
            files: BTreeMap::new(),
            values: BTreeMap::new(),
            ready: slash(),
            ready_within: ten(),
            stop_within: ten(),
            pid: None,
            pid_file: None,
            wrap: None,
            version: None,
            ca: None,
            insecure: false,
            http2: false,
            host: None,
            says: None,
            purge: None,
            mine,
        }
    }
}

impl PartSettings {
    pub(crate) fn part(&self) -> Part {
        let milliseconds = |seconds: f64| (seconds * 1000.0).round() as u64;
        let mut part = Part::new(&self.path, self.sizes());
        part.kind = self.kind.clone().unwrap_or(part.kind);
        part.lifetime = match (self.no_store, self.max_age) {
            (true, _) => Lifetime::NoStore,
            (false, Some(seconds)) => Lifetime::Seconds(seconds),
            (false, None) => part.lifetime,
        };
        part.delay_ms = self.delay.map_or(0, milliseconds);
        part.rate = self.rate.map(|rate| rate.0);
        part.is_chunked = self.chunked;
        (part.has_tag, part.has_parts) = (self.etag, self.ranges);
        part.changes_ms = self.changes_every.map(|seconds| milliseconds(seconds).max(1));
        part.set_wrong(self.wrong);
        part.fields = self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        part
    }

    fn sizes(&self) -> Sizes {
        self.size.clone()
    }
}

/// Whether a module may last so long.
pub(crate) fn is_time(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0 && seconds <= SECONDS_MAX
}
