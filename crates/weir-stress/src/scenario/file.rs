//! The scenario's file as it is written: `stress.toml`. What the keys mean is in `docs/guide/stress.md`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Table;

use crate::plan::StressError;
use crate::scenario::catalogue::{Lifetime, Part, Wrong};
use crate::scenario::limits::Limit;
use crate::scenario::modules::Module;
use crate::scenario::sizes::{Bytes, Sizes};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The most of each list.
const SERVERS_MAX: usize = 32;
const MODULES_MAX: usize = 256;
/// The longest module, in seconds: a week.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

/// A scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    name: Option<String>,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default = "one")]
    rounds: u64,
    #[serde(default)]
    origin: Option<OriginSettings>,
    #[serde(default)]
    server: Vec<ServerSettings>,
    #[serde(default)]
    module: Vec<Table>,
}

/// A scenario, read and checked.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) rounds: u64,
    pub(crate) origin: OriginSettings,
    pub(crate) servers: Vec<ServerSettings>,
    pub(crate) modules: Vec<ModuleSettings>,
}

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
    path: String,
    size: Sizes,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    max_age: Option<u64>,
    #[serde(default)]
    no_store: bool,
    #[serde(default)]
    chunked: bool,
    /// Seconds.
    #[serde(default)]
    delay: Option<f64>,
    #[serde(default)]
    rate: Option<Bytes>,
    /// Seconds.
    #[serde(default)]
    changes_every: Option<f64>,
    #[serde(default)]
    wrong: Wrong,
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
    pub(crate) files: BTreeMap<String, String>,
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

/// What every module says of itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Shared {
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Runs at the same time as the module before it.
    #[serde(default)]
    pub(crate) beside: bool,
    #[serde(default)]
    pub(crate) limits: Vec<Limit>,
}

/// The keys of [`Shared`].
const SHARED: [&str; 4] = ["kind", "name", "beside", "limits"];

/// A module, ready to run.
#[derive(Debug)]
pub(crate) struct ModuleSettings {
    pub(crate) name: String,
    pub(crate) shared: Shared,
    pub(crate) module: Box<dyn Module>,
}

fn one() -> u64 {
    1
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

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`StressError::File`] with what is wrong and what to write instead.
    pub(crate) fn read(path: &Path) -> Result<Self, StressError> {
        let bad = |what: String| StressError::File { file: path.display().to_string(), what };
        let bytes = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(bad(format!("{bytes} bytes; a scenario has at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let stem = path.file_stem().map_or("scenario".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(&text, &stem).map_err(bad)
    }

    pub(crate) fn parse(text: &str, stem: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut modules: Vec<ModuleSettings> = Vec::new();
        for (at, table) in written.module.into_iter().enumerate() {
            let module = ModuleSettings::read(table).map_err(|what| format!("module {}: {what}", at + 1))?;
            if modules.iter().any(|known| known.name == module.name) {
                return Err(format!("two modules are called `{}`; give one another `name`", module.name));
            }
            modules.push(module);
        }
        let scenario = Self {
            name: written.name.unwrap_or_else(|| stem.to_owned()),
            seed: written.seed,
            rounds: written.rounds,
            origin: written.origin.unwrap_or_default(),
            servers: written.server,
            modules,
        };
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<(), String> {
        if self.modules.is_empty() || self.modules.len() > MODULES_MAX {
            return Err(format!("a scenario has 1 to {MODULES_MAX} [[module]]"));
        }
        if self.servers.len() > SERVERS_MAX {
            return Err(format!("a scenario has at most {SERVERS_MAX} [[server]]"));
        }
        if self.rounds == 0 || self.rounds > 1000 {
            return Err("`rounds` is 1 to 1000".to_owned());
        }
        for (at, server) in self.servers.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if server.name.is_empty() || !server.name.chars().all(plain) || server.name.starts_with('.') {
                return Err(format!(
                    "`{}` is no name of a server; write letters, digits, - _ .",
                    server.name
                ));
            }
            if self.servers[..at].iter().any(|other| other.name == server.name) {
                return Err(format!("two servers are called `{}`", server.name));
            }
            for (name, seconds) in
                [("ready_within", server.ready_within), ("stop_within", server.stop_within)]
            {
                if !seconds.is_finite() || !(0.0..=3600.0).contains(&seconds) {
                    return Err(format!(
                        "server `{}`: `{name}` is a number of seconds, up to 3600",
                        server.name
                    ));
                }
            }
            if server.files.keys().any(|name| name.is_empty() || name.contains('/') || name.starts_with('.'))
            {
                return Err(format!("server `{}`: `files` have plain names, without folders", server.name));
            }
        }
        for part in &self.origin.part {
            if !part.path.starts_with('/') {
                return Err(format!("the origin's part `{}`: a path begins with /", part.path));
            }
            let is_time = |time: Option<f64>| time.is_none_or(|time| (0.0..=3600.0).contains(&time));
            if !is_time(part.delay) || !is_time(part.changes_every) || part.changes_every == Some(0.0) {
                return Err(format!("the origin's part `{}`: times are seconds, up to 3600", part.path));
            }
            if part.rate == Some(Bytes(0)) {
                return Err(format!("the origin's part `{}`: a rate is above 0", part.path));
            }
        }
        Ok(())
    }
}

impl ServerSettings {
    /// A server that others run.
    pub(crate) fn elsewhere(url: &str, mine: bool) -> Self {
        let place = url.split("://").nth(1).unwrap_or(url);
        let host = place.split('/').next().unwrap_or(place);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        Self {
            name: host.chars().map(plain).collect(),
            url: url.to_owned(),
            command: None,
            prepare: None,
            files: BTreeMap::new(),
            ready: slash(),
            ready_within: ten(),
            stop_within: ten(),
            pid: None,
            pid_file: None,
            wrap: None,
            version: None,
            ca: None,
            insecure: false,
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
        part.changes_ms = self.changes_every.map(|seconds| milliseconds(seconds).max(1));
        part.set_wrong(self.wrong);
        part
    }

    fn sizes(&self) -> Sizes {
        self.size.clone()
    }
}

impl ModuleSettings {
    fn read(mut table: Table) -> Result<Self, String> {
        let mut shared = Table::new();
        for key in SHARED {
            if let Some(value) = table.remove(key) {
                shared.insert(key.to_owned(), value);
            }
        }
        let shared: Shared =
            shared.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
        let name = shared.name.clone().unwrap_or_else(|| shared.kind.clone());
        let module = crate::scenario::modules::read(&shared.kind, table)
            .map_err(|what| format!("`{name}`: {what}"))?;
        Ok(Self { name, shared, module })
    }
}

/// Whether a module may last so long.
pub(crate) fn is_time(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0 && seconds <= SECONDS_MAX
}
