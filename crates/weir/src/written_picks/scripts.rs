//! The files of scripts: read, compiled, run on samples, and looked at each second. It must not put in force
//! what has not passed its samples, nor forget what a script remembers when its file changes.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use weir_config::model::{Config, PickEntry, ScriptItem, ScriptValue, WrittenPick};
use weir_config::value::{OriginScheme, OriginUrl};
use weir_script::{MadeOrigin, Program, SCRIPT_BYTES_MAX, Script, Setting, Settings, Source, usual_origins};
use weir_upstream::Decider;

use crate::certificates::Stamp;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The scripts in force.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    held: Arc<Mutex<Held>>,
    /// The thread that looks at files runs since there was a first script.
    looking: OnceLock<()>,
}

type Held = HashMap<String, Kept>;

/// A script in force, and what it was made of.
#[derive(Debug)]
struct Kept {
    script: Arc<Script>,
    wanted: Wanted,
    /// The file when it was read last, whether or not it was taken.
    stamp: Option<Stamp>,
}

/// What a script is made of besides its text.
#[derive(Debug, Clone, PartialEq)]
struct Wanted {
    path: PathBuf,
    settings: Settings,
    /// The origins of its samples.
    origins: Vec<MadeOrigin>,
}

/// Scripts of a configuration, of which none is in force yet.
pub(super) struct Prepared<'s> {
    scripts: &'s Scripts,
    /// Name, what it is made of, its file, and a program where it is a new one.
    all: Vec<(String, Wanted, Option<Stamp>, Option<Program>)>,
}

impl Scripts {
    /// Reads the scripts of a configuration and runs their samples. Nothing changes by it.
    ///
    /// # Errors
    /// The first mistake.
    pub(super) fn prepare(&self, config: &Config) -> Result<Prepared<'_>, String> {
        let held = self.held.lock();
        let mut all = Vec::new();
        for (name, wanted) in wanted(config) {
            let stamp = Stamp::of(&wanted.path);
            let is_same = |kept: &&Kept| kept.wanted == wanted && kept.is_good_at(stamp);
            let program = match held.get(&name).filter(is_same) {
                Some(_) => None,
                None => Some(wanted.program().map_err(|why| format!("[pick.{name}]: {why}"))?),
            };
            all.push((name, wanted, stamp, program));
        }
        drop(held);
        Ok(Prepared { scripts: self, all })
    }

    fn look_from_now_on(&self) {
        self.looking.get_or_init(|| {
            let held = Arc::downgrade(&self.held);
            let look = move || {
                while let Some(held) = Weak::upgrade(&held) {
                    look(&mut held.lock());
                    drop(held);
                    thread::sleep(LOOK_EVERY);
                }
            };
            let thread = thread::Builder::new().name("weir-picks".to_owned()).spawn(look);
            if let Err(error) = thread {
                tracing::error!(%error, "files of scripts are read at reloads only");
            }
        });
    }
}

impl Prepared<'_> {
    /// Puts them in force.
    pub(super) fn commit(self) -> Vec<(String, Arc<dyn Decider>)> {
        let mut held = self.scripts.held.lock();
        let mut next = Held::new();
        for (name, wanted, stamp, program) in self.all {
            let script = match (held.remove(&name), program) {
                (Some(kept), Some(program)) => {
                    kept.script.swap(program);
                    kept.script
                }
                (Some(kept), None) => kept.script,
                (None, Some(program)) => Arc::new(Script::new(name.clone(), program)),
                // Another reload has removed it in between: there is one at a time.
                (None, None) => continue,
            };
            next.insert(name, Kept { script, wanted, stamp });
        }
        *held = next;
        let deciders =
            held.iter().map(|(name, kept)| (name.clone(), kept.script.clone() as Arc<dyn Decider>));
        let deciders: Vec<_> = deciders.collect();
        drop(held);
        if !deciders.is_empty() {
            self.scripts.look_from_now_on();
        }
        deciders
    }
}

impl Kept {
    /// Whether the program in force is what the file says.
    fn is_good_at(&self, stamp: Option<Stamp>) -> bool {
        self.stamp == stamp && stamp.is_some() && !self.script.is_refused()
    }
}

impl Wanted {
    fn source(&self) -> Result<Source, String> {
        read(&self.path)
    }

    fn program(&self) -> Result<Program, String> {
        let made = Program::compile(self.source()?, &self.settings);
        let sampled = made.and_then(|program| program.sample(&self.origins).map(|()| program));
        // The report begins with the word that goes before each mistake.
        sampled.map_err(|mistake| mistake.to_string().trim_start_matches("error: ").to_owned())
    }
}

/// Reads a script.
///
/// # Errors
/// A sentence that names the file.
pub(crate) fn read(path: &Path) -> Result<Source, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    // Without waiting: where a pipe stands, nobody may ever write to it.
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let file = fs::File::from(file.map_err(|errno| failed(errno.into()))?);
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(format!("{}: it is no regular file", path.display()));
    }
    file.take(SCRIPT_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    Ok(Source { file: path.display().to_string().into(), text: text.into() })
}

/// The values and the origins of the script in this file; `None` where the configuration does not name it.
pub(crate) fn settings(config: &Config, file: &Path) -> Option<(Settings, Vec<MadeOrigin>)> {
    let file = fs::canonicalize(file).ok();
    let of_file = |wanted: &Wanted| fs::canonicalize(&wanted.path).ok() == file;
    let found = wanted(config).into_iter().find(|(_, wanted)| of_file(wanted))?;
    Some((found.1.settings, found.1.origins))
}

/// Every mistake of the scripts of a configuration, a report each.
pub(super) fn check(config: &Config) -> Vec<String> {
    wanted(config)
        .into_iter()
        .filter_map(|(name, wanted)| Some(format!("[pick.{name}]: {}", wanted.program().err()?)))
        .collect()
}

/// Looks whether a file has changed, and takes what passes.
fn look(held: &mut Held) {
    for (name, kept) in held {
        let stamp = Stamp::of(&kept.wanted.path);
        if stamp == kept.stamp {
            continue;
        }
        kept.stamp = stamp;
        match kept.wanted.program() {
            Ok(program) if program.source() == kept.script.program().source() => kept.script.accept(),
            Ok(program) => {
                kept.script.swap(program);
                tracing::info!(pick = %name, file = %kept.wanted.path.display(), "script taken");
            }
            Err(why) => {
                tracing::error!(pick = %name, "script refused, the old one stays: {why}");
                kept.script.refuse(why);
            }
        }
    }
}

fn wanted(config: &Config) -> Vec<(String, Wanted)> {
    let of = |(name, pick): (&String, &WrittenPick)| {
        let path = pick.script.as_ref()?.0.clone();
        let settings = pick.values.iter().map(|(name, value)| (name.clone(), setting(value))).collect();
        Some((name.clone(), Wanted { path, settings, origins: origins(config, name) }))
    };
    config.pick.iter().filter_map(of).collect()
}

/// The origins that a script will see: those of the upstreams that name it, else those of all.
fn origins(config: &Config, name: &str) -> Vec<MadeOrigin> {
    let names_it = |entry: &PickEntry| entry.written() == Some(name);
    let of = |is_asked: &dyn Fn(&weir_config::model::Upstream) -> bool| {
        let upstreams = config.upstream.values().filter(|upstream| is_asked(upstream));
        let origins = upstreams.flat_map(|upstream| &upstream.origins).map(|entry| MadeOrigin {
            id: entry.id().map(str::to_owned),
            weight: entry.weight().into(),
            is_backup: entry.is_backup(),
            ..MadeOrigin::new(name_of(entry.url()))
        });
        origins.collect::<Vec<_>>()
    };
    let mut origins = of(&|upstream| upstream.pick.list().iter().any(names_it));
    if origins.is_empty() {
        origins = of(&|_| true);
    }
    if origins.is_empty() { usual_origins() } else { origins }
}

/// An origin's name, as the upstream calls it: with its port in any case.
fn name_of(url: &OriginUrl) -> String {
    let scheme = match url.scheme {
        OriginScheme::Unix => return url.to_string(),
        OriginScheme::Http => "http",
        OriginScheme::Https => "https",
    };
    match url.host.contains(':') {
        true => format!("{scheme}://[{}]:{}", url.host, url.port),
        false => format!("{scheme}://{}:{}", url.host, url.port),
    }
}

fn setting(value: &ScriptValue) -> Setting {
    match value {
        ScriptValue::Flag(flag) => Setting::Flag(*flag),
        ScriptValue::Integer(number) => Setting::Integer(*number),
        ScriptValue::Number(number) => Setting::Number(*number),
        ScriptValue::Text(text) => Setting::Text(text.clone()),
        ScriptValue::List(list) => Setting::List(list.iter().map(item).collect()),
    }
}

fn item(item: &ScriptItem) -> Setting {
    match item {
        ScriptItem::Flag(flag) => Setting::Flag(*flag),
        ScriptItem::Integer(number) => Setting::Integer(*number),
        ScriptItem::Number(number) => Setting::Number(*number),
        ScriptItem::Text(text) => Setting::Text(text.clone()),
    }
}
