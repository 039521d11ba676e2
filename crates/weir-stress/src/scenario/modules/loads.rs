//! The modules that are loads of many equal requests: `spread`, `files`, `miss`, `connect`. The load
//! generator's own engine drives them, over HTTP/1.1 or HTTP/2.

use serde::Deserialize;

use crate::args::{Pick, StressArgs};
use crate::plan::StressError;
use crate::scenario::catalogue::{Lifetime, Part};
use crate::scenario::module::{Module, check_own, check_time, check_users};
use crate::scenario::settings::ServerSettings;
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Stage};
use crate::tally::Tally;

/// What is asked for, how hard and for how long.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Load {
    users: usize,
    seconds: Option<f64>,
    requests: Option<u64>,
    rate: Option<f64>,
    http2: bool,
    streams: usize,
    timeout: f64,
    /// Objects of the file's own parts, or of foreign origins; else the module has some of its own.
    path: Option<String>,
    size: Sizes,
    objects: u64,
    pick: Pick,
    wonders: f64,
    /// Whether each object is asked for once before, uncounted.
    warm: Warm,
    /// Whether what the server keeps on drives is read from them, and not from the page cache.
    cold: bool,
    /// Whether bodies are thrown away unread, so that the client is not what is measured.
    discard: bool,
    /// Whether new connections go on with earlier TLS sessions.
    resume: bool,
    /// Fields of each request.
    headers: Vec<String>,
}

/// When objects are asked for before they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Warm {
    Never,
    /// Before each turn, and other objects in each.
    EachTurn,
    /// Before the first turn of a server, and the same objects in all.
    Once,
}

impl<'de> Deserialize<'de> for Warm {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bool(bool),
            Word(String),
        }
        match Written::deserialize(from)? {
            Written::Bool(true) => Ok(Self::EachTurn),
            Written::Bool(false) => Ok(Self::Never),
            Written::Word(word) if word == "once" => Ok(Self::Once),
            Written::Word(_) => Err(serde::de::Error::custom("`warm` is true, false or \"once\"")),
        }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self {
            users: 64,
            seconds: None,
            requests: None,
            rate: None,
            http2: false,
            streams: 1,
            timeout: 30.0,
            path: None,
            size: Sizes::One(1000),
            objects: 1000,
            pick: Pick::Uniform,
            wonders: 0.0,
            warm: Warm::EachTurn,
            cold: false,
            discard: false,
            resume: false,
            headers: Vec::new(),
        }
    }
}

impl Load {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        self.seconds.map_or(Ok(()), |seconds| check_time("seconds", seconds))?;
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return Err("`path` begins with /, and has `{}` for the object's number".to_owned());
        }
        let is_rate = self.rate.is_none_or(|rate| rate.is_finite() && rate > 0.0);
        match is_rate && self.requests != Some(0) && self.objects > 0 {
            true => Ok(()),
            false => Err("`rate`, `requests` and `objects` are above 0".to_owned()),
        }
    }

    fn check_server(&self, server: &ServerSettings) -> Result<(), String> {
        if self.cold { check_own(server) } else { Ok(()) }
    }

    /// The path with its `{}`. Without one of the file's, the objects are in a new part of the origin.
    fn path(&self, stage: &Stage, name: &str, lifetime: Lifetime) -> String {
        match &self.path {
            Some(path) => path.clone(),
            None => {
                let prefix = match self.warm {
                    Warm::Once => stage.kept(name),
                    Warm::EachTurn | Warm::Never => stage.cold(name),
                };
                let mut part = Part::new(&prefix, self.size.clone());
                part.lifetime = lifetime;
                stage.catalogue.add(part);
                format!("{prefix}{{}}")
            }
        }
    }

    fn args(&self, stage: &Stage, path: &str) -> StressArgs {
        let mut args = stage.load_args(path);
        args.users = self.users;
        args.seconds = self.seconds;
        args.requests = self.requests;
        args.rate = self.rate;
        args.http2 |= self.http2;
        args.streams = self.streams;
        args.timeout = self.timeout;
        args.objects = if path.contains("{}") { self.objects } else { 1 };
        args.pick = self.pick;
        args.wonders = self.wonders;
        args.discard = self.discard;
        args.headers.extend(self.headers.iter().cloned());
        args
    }

    /// Asks for each object once, if that is wanted. What is wrong with the responses is counted, they
    /// themselves are not. Drops what is held of the server's files, if that is wanted.
    fn prepare(&self, stage: &Stage, path: &str) -> Result<Tally, StressError> {
        let warmed = match self.warm {
            Warm::Never => Tally::new(),
            Warm::Once if stage.round > 0 => Tally::new(),
            Warm::Once | Warm::EachTurn => self.warm(stage, path)?,
        };
        if self.cold {
            stage.chill()?;
        }
        Ok(warmed)
    }

    fn warm(&self, stage: &Stage, path: &str) -> Result<Tally, StressError> {
        let mut args = self.args(stage, path);
        args.users = args.users.min(16);
        args.streams = 1;
        (args.seconds, args.rate, args.requests) = (None, None, Some(args.objects));
        (args.pick, args.wonders) = (Pick::Seq, 0.0);
        args.discard = false;
        stage.load_unseen(&args)
    }
}

/// Runs a load and asks how much of it the origin saw. What was wrong when it was prepared is added.
fn measured(stage: &Stage, args: &StressArgs, prepared: &Tally) -> Result<Measured, StressError> {
    let (asked_before, _) = stage.catalogue.totals();
    let mut measured = Measured::new(stage);
    stage.begin_span();
    measured.tally = stage.load(args)?;
    stage.end_span();
    measured.tally.add_faults(prepared);
    let path = args.url.strip_prefix(stage.base()).unwrap_or(&args.url);
    stage.note_uncompared(path, &mut measured);
    let (asked, _) = stage.catalogue.totals();
    let share = (asked - asked_before) as f64 / measured.tally.requests.max(1) as f64;
    measured.figure("origin_requests_per_request", share);
    Ok(measured)
}

/// `spread`: many objects, picked evenly, by Zipf, or once only.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Spread(Load);

impl Module for Spread {
    fn check(&self) -> Result<(), String> {
        self.0.check()
    }

    fn check_server(&self, server: &ServerSettings) -> Result<(), String> {
        self.0.check_server(server)
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let path = self.0.path(stage, "spread", Lifetime::Seconds(3600));
        let prepared = self.0.prepare(stage, &path)?;
        measured(stage, &self.0.args(stage, &path), &prepared)
    }
}

/// `connect`: a new connection for each request.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Connect(Load);

impl Module for Connect {
    fn check(&self) -> Result<(), String> {
        match self.0.streams {
            1 => self.0.check(),
            _ => Err("a connection for each request has no `streams`".to_owned()),
        }
    }

    fn check_server(&self, server: &ServerSettings) -> Result<(), String> {
        self.0.check_server(server)
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let path = self.0.path(stage, "connect", Lifetime::Seconds(3600));
        let prepared = self.0.prepare(stage, &path)?;
        let mut args = self.0.args(stage, &path);
        args.new_connections = true;
        args.resume = self.0.resume;
        measured(stage, &args, &prepared)
    }
}

/// More objects than a run asks for.
const ONCE: u64 = 1 << 40;

/// `miss`: what may not be stored.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Miss(Load);

impl Module for Miss {
    fn check(&self) -> Result<(), String> {
        self.0.check()
    }

    /// Each URL once, unless `objects = 1` asks for one URL for all.
    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let path = self.0.path(stage, "miss", Lifetime::NoStore);
        let mut args = self.0.args(stage, &path);
        if args.objects > 1 {
            // However long it runs, no URL comes again.
            (args.pick, args.objects) = (Pick::Seq, ONCE);
        }
        measured(stage, &args, &Tally::new())
    }
}

/// `files`: sizes, one after the other; each object first cold, then held.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Files {
    #[serde(default = "six_sizes")]
    sizes: Vec<Bytes>,
    /// How many objects of each size.
    #[serde(default = "ten")]
    count: u64,
    /// How often each is asked for once it is held.
    #[serde(default = "ten")]
    times: u64,
    #[serde(default = "four")]
    users: usize,
    #[serde(default = "sixty")]
    timeout: f64,
}

fn six_sizes() -> Vec<Bytes> {
    [500_000, 1_000_000, 5_000_000, 10_000_000, 25_000_000, 50_000_000].map(Bytes).to_vec()
}

fn ten() -> u64 {
    10
}

fn four() -> usize {
    4
}

fn sixty() -> f64 {
    60.0
}

impl Module for Files {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        match !self.sizes.is_empty() && self.count > 0 && self.times > 0 {
            true => Ok(()),
            false => Err("`sizes` has one or more, `count` and `times` are above 0".to_owned()),
        }
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let mut measured = Measured::new(stage);
        let total_before = stage.catalogue.totals().0;
        for size in &self.sizes {
            let prefix = stage.cold(&format!("files-{}", size.0));
            stage.catalogue.add(Part::new(&prefix, Sizes::One(size.0)));
            let mut args = stage.load_args(&format!("{prefix}{{}}"));
            args.objects = self.count;
            args.users = self.users;
            args.timeout = self.timeout;
            for (name, times) in [("cold", 1), ("held", self.times)] {
                args.requests = Some(self.count * times);
                let tally = stage.load(&args)?;
                let milliseconds = |quantile| tally.total_ns.value_at_quantile(quantile) as f64 / 1e6;
                let kilobytes = size.0 / 1000;
                measured.figure(format!("{name}_{kilobytes}KB_p50_ms"), milliseconds(0.5));
                measured.figure(format!("{name}_{kilobytes}KB_p99_ms"), milliseconds(0.99));
                measured.tally.add(&tally);
            }
        }
        let asked = stage.catalogue.totals().0 - total_before;
        measured.figure(
            "origin_requests_per_object",
            asked as f64 / (self.count * self.sizes.len() as u64) as f64,
        );
        Ok(measured)
    }
}
