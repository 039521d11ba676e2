//! The scenario's file as it is written: `stress.toml`. What the keys mean is in `docs/guide/stress.md`.

use std::path::Path;

use serde::Deserialize;
use toml::Table;

use crate::plan::StressError;
use crate::scenario::limits::Limit;
use crate::scenario::module::Module;
use crate::scenario::settings::{OriginSettings, ServerSettings};
use crate::scenario::sizes::Bytes;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The most of each list.
const SERVERS_MAX: usize = 32;
const MODULES_MAX: usize = 256;

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
