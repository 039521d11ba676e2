//! The scenario's file as it is written: `stress.toml`. What the keys mean is in `docs/guide/stress.md`.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

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
    /// The servers that it runs on; all without any.
    #[serde(default)]
    pub(crate) servers: Vec<String>,
    /// Its own number of rounds.
    #[serde(default)]
    rounds: Option<u64>,
    #[serde(default)]
    pub(crate) limits: Vec<Limit>,
}

/// The keys of [`Shared`].
const SHARED: [&str; 6] = ["kind", "name", "beside", "servers", "rounds", "limits"];
/// What a quick run divides: how long and how much, where it is more than `QUICK_LEAST`.
const QUICK_KEYS: [&str; 6] = ["seconds", "requests", "objects", "count", "times", "ranges"];
const QUICK_DIVIDES: i64 = 10;
const QUICK_LEAST: i64 = 4;
const QUICK_LEAST_S: f64 = 0.3;

/// How much of a scenario is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// About a tenth, in one round: does everything work?
    Quick,
}

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
    pub(crate) fn read(path: &Path, extent: Extent) -> Result<Self, StressError> {
        let bad = |what: String| StressError::File { file: path.display().to_string(), what };
        let bytes = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(bad(format!("{bytes} bytes; a scenario has at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let stem = path.file_stem().map_or("scenario".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::parse(&text, &stem, path.parent().unwrap_or(Path::new("")), extent).map_err(bad)
    }

    fn parse(text: &str, stem: &str, folder: &Path, extent: Extent) -> Result<Self, String> {
        let mut written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        if extent == Extent::Quick {
            written.rounds = 1;
            for module in &mut written.module {
                module.remove("rounds");
            }
            written.module.iter_mut().for_each(shorten);
        }
        for server in &mut written.server {
            server.read_files(folder)?;
        }
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

    /// How often a module runs on each server.
    pub(crate) fn rounds_of(&self, module: &ModuleSettings) -> u64 {
        module.shared.rounds.unwrap_or(self.rounds)
    }

    /// Refuses limits on servers that there are not: they would never be broken.
    ///
    /// # Errors
    /// Which limit, and which servers there are.
    pub(crate) fn check_limits(&self) -> Result<(), String> {
        let is_known = |name: &String| self.servers.iter().any(|server| server.name == *name);
        for module in &self.modules {
            let unknown = |limit: &&Limit| limit.server.as_ref().is_some_and(|name| !is_known(name));
            if let Some(limit) = module.shared.limits.iter().find(unknown) {
                let known: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
                let known = known.join(", ");
                let wrong = limit.server.as_deref().unwrap_or_default();
                return Err(format!(
                    "`{}`: the limit `{wrong}: {limit}` is of a server that there is not; there are {known}",
                    module.name
                ));
            }
        }
        Ok(())
    }

    fn check_servers(&self) -> Result<(), String> {
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
            let is_same =
                |other: &&ServerSettings| other.command.is_some() && other.place() == server.place();
            if let Some(other) = self.servers[..at].iter().find(is_same).filter(|_| server.command.is_some())
            {
                let (one, place) = (&other.name, server.place());
                return Err(format!("`{one}` and `{}` cannot both listen on {place}", server.name));
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
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.modules.is_empty() || self.modules.len() > MODULES_MAX {
            return Err(format!("a scenario has 1 to {MODULES_MAX} [[module]]"));
        }
        if self.servers.len() > SERVERS_MAX {
            return Err(format!("a scenario has at most {SERVERS_MAX} [[server]]"));
        }
        let is_rounds = |rounds: u64| (1..=1000).contains(&rounds);
        if !is_rounds(self.rounds) || !self.modules.iter().all(|one| is_rounds(self.rounds_of(one))) {
            return Err("`rounds` is 1 to 1000".to_owned());
        }
        for module in &self.modules {
            let unknown = |name: &&String| !self.servers.iter().any(|server| server.name == **name);
            if let Some(name) = module.shared.servers.iter().find(unknown) {
                return Err(format!("`{}`: no server is called `{name}`", module.name));
            }
        }
        self.check_servers()?;
        for part in &self.origin.part {
            if !part.path.starts_with('/') {
                return Err(format!("the origin's part `{}`: a path begins with /", part.path));
            }
            let is_time = |time: Option<f64>| time.is_none_or(|time| (0.0..=3600.0).contains(&time));
            if !is_time(part.delay) || !is_time(part.changes_every) || part.changes_every == Some(0.0) {
                return Err(format!("the origin's part `{}`: times are seconds, up to 3600", part.path));
            }
            let is_field = |(name, value): (&String, &String)| {
                !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                    && value.bytes().all(|b| (0x20..0x7f).contains(&b))
            };
            if !part.fields.iter().all(is_field) {
                return Err(format!(
                    "the origin's part `{}`: `fields` have names and plain values",
                    part.path
                ));
            }
            if part.rate == Some(Bytes(0)) {
                return Err(format!("the origin's part `{}`: a rate is above 0", part.path));
            }
        }
        Ok(())
    }
}

/// Makes a module about ten times shorter.
fn shorten(module: &mut Table) {
    for key in QUICK_KEYS {
        match module.get_mut(key) {
            Some(value) if key == "seconds" => {
                let said = value.as_float().or(value.as_integer().map(|seconds| seconds as f64));
                // What is no number stays, and is refused like in any run.
                if let Some(seconds) = said {
                    let fewer = (seconds / QUICK_DIVIDES as f64).max(QUICK_LEAST_S.min(seconds));
                    *value = Value::Float(fewer);
                }
            }
            Some(Value::Integer(count)) if *count > QUICK_LEAST => {
                *count = (*count / QUICK_DIVIDES).max(QUICK_LEAST);
            }
            _ => {}
        }
    }
}

impl ModuleSettings {
    /// Whether it runs on a server.
    pub(crate) fn is_for(&self, server: &str) -> bool {
        self.shared.servers.is_empty() || self.shared.servers.iter().any(|name| name == server)
    }

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
