//! The thread that reads all sources, each at its times, until the configuration has other ones.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use weir_config::value::{Gmond, OriginUrl};
use weir_upstream::Upstream;

use crate::apply::apply;
use crate::clock;
use crate::ganglia::Host;
use crate::hosts::{Best, Target, Wanted};
use crate::read;
use crate::samples::Samples;
use crate::source::{Place, Source};
use crate::status::{MissingValue, News, Record, SourceStatus};

/// The most pages that are read at once.
const PAGES_AT_ONCE: usize = 32;
/// The thread gives way to those that serve requests.
const NICENESS: i32 = 10;

/// The thread that reads the sources. It ends with this.
#[derive(Debug)]
pub struct Collector {
    runtime: Handle,
    shared: Arc<Shared>,
    running: Mutex<Vec<Running>>,
    _end: mpsc::Sender<()>,
}

/// The upstreams whose origins get values.
#[derive(Debug, Default)]
struct Shared {
    upstreams: Mutex<Vec<Weak<Upstream>>>,
}

#[derive(Debug)]
struct Running {
    source: Arc<Source>,
    record: Arc<Mutex<Record>>,
    task: Option<AbortHandle>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.iter().for_each(AbortHandle::abort);
    }
}

impl Collector {
    /// Starts the thread; it reads nothing yet.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start() -> io::Result<Collector> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, mut ended) = mpsc::channel(1);
        std::thread::Builder::new().name("weir-metrics".to_owned()).spawn(move || {
            // Of this thread alone. Without it values come all the same.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            runtime.block_on(ended.recv());
        })?;
        let (shared, running) = (Arc::default(), Mutex::default());
        Ok(Collector { runtime: handle, shared, running, _end: end })
    }

    /// Reads these sources from now on, for these upstreams. A source that is as it was goes on.
    pub fn configure(&self, sources: Vec<Source>, upstreams: Vec<Arc<Upstream>>) {
        *self.shared.upstreams.lock() = upstreams.iter().map(Arc::downgrade).collect();
        let mut running = self.running.lock();
        let mut before = std::mem::take(&mut *running);
        for source in sources {
            let same = before.iter().position(|one| *one.source == source);
            running.push(match same {
                Some(at) => before.swap_remove(at),
                None => self.begin(source),
            });
        }
    }

    fn begin(&self, source: Source) -> Running {
        let (source, record) = (Arc::new(source), Arc::default());
        let task = match source.place {
            Place::Responses => None,
            _ => {
                let work = go_on(source.clone(), Arc::clone(&record), self.shared.clone());
                Some(self.runtime.spawn(work).abort_handle())
            }
        };
        Running { source, record, task }
    }

    /// How the sources are.
    pub fn status(&self) -> Vec<SourceStatus> {
        let now = clock::now();
        let of = |running: &Running| {
            let record = running.record.lock();
            SourceStatus {
                name: running.source.name.clone(),
                kind: running.source.kind(),
                succeeded: record.succeeded,
                failed: record.failed,
                ago: record.last.map(|last| now.saturating_duration_since(last)),
                error: record.error.clone(),
                missing: record.missing.clone(),
            }
        };
        self.running.lock().iter().map(of).collect()
    }
}

impl Shared {
    /// The origins of the upstreams that have a source.
    fn targets(&self, source: &Source) -> Vec<Target> {
        let upstreams: Vec<_> = self.upstreams.lock().iter().filter_map(Weak::upgrade).collect();
        let having = upstreams.iter().filter(|upstream| upstream.sources().contains(&source.name));
        let targets = having.flat_map(|upstream| {
            let of = |gauged| Target { upstream: upstream.name().to_owned(), gauged };
            upstream.gauges().into_iter().map(of)
        });
        targets.collect()
    }
}

/// What is remembered between two reads.
#[derive(Default)]
struct Memory {
    /// The gmond that has answered last.
    gmond: usize,
    /// What rates need, by host or page.
    before: HashMap<String, Samples>,
}

/// What came of the reads of a round.
#[derive(Default)]
struct Round {
    succeeded: u64,
    failed: u64,
    error: Option<String>,
    missing: HashMap<(String, Arc<str>), Vec<MissingValue>>,
    before: HashMap<String, Samples>,
}

impl Round {
    fn fail(&mut self, targets: &[&Target], why: &str) {
        self.failed += 1;
        self.error = Some(why.to_owned());
        targets.iter().for_each(|target| self.miss(target, format!("the source fails: {why}")));
    }

    fn miss(&mut self, target: &Target, why: String) {
        let key = (target.upstream.clone(), target.gauged.origin.clone());
        self.missing.insert(key, vec![MissingValue { name: None, why }]);
    }

    fn give(&mut self, source: &Source, target: &Target, samples: (&Samples, Option<&Samples>)) {
        let key = (target.upstream.clone(), target.gauged.origin.clone());
        self.missing.insert(key, apply(source, target, samples));
    }
}

/// Reads a source again and again.
async fn go_on(source: Arc<Source>, record: Arc<Mutex<Record>>, shared: Arc<Shared>) {
    let mut memory = Memory::default();
    let mut due = clock::now();
    loop {
        let targets = shared.targets(&source);
        if !targets.is_empty() {
            let round = match &source.place {
                Place::Ganglia { at, hosts } => {
                    let wanted = Wanted::new(&targets, hosts);
                    ganglia((&source, at), (&targets, &wanted), &mut memory).await
                }
                Place::Pages(_) => pages(&source, &targets, &memory).await,
                Place::Responses => return,
            };
            end(&source, &record, &mut memory, round);
        }
        due = next(due, source.every, clock::now());
        tokio::time::sleep_until(due.into()).await;
    }
}

/// The next time; those that have passed are left out.
fn next(due: Instant, every: Duration, now: Instant) -> Instant {
    let next = due + every;
    if next > now { next } else { now + every }
}

fn end(source: &Source, record: &Mutex<Record>, memory: &mut Memory, round: Round) {
    let Round { succeeded, failed, error, missing, before } = round;
    // What could not be read this time is as it was.
    memory.before.extend(before);
    let mut record = record.lock();
    record.missing = missing;
    let news = record.end((succeeded, failed), error, clock::now());
    drop(record);
    match news {
        Some(News::Fails(why)) => {
            tracing::warn!(source = %source.name, why, "metrics cannot be read; values grow stale");
        }
        Some(News::IsBack) => tracing::warn!(source = %source.name, "metrics are read again"),
        None => {}
    }
}

/// Reads the first gmond that can be read, beginning with the one that could last.
async fn ganglia(
    (source, at): (&Source, &[Gmond]),
    (targets, wanted): (&[Target], &Wanted),
    memory: &mut Memory,
) -> Round {
    let mut round = Round::default();
    let all: Vec<&Target> = targets.iter().collect();
    let mut whys = Vec::new();
    for turn in 0..at.len() {
        let number = (memory.gmond + turn) % at.len();
        match read::gmond(&at[number], wanted, source.timeout).await {
            Ok(hosts) => {
                memory.gmond = number;
                round.succeeded += 1;
                take(source, targets, &hosts, (memory, &mut round));
                let (_, rates) = source.needs();
                // Hosts that are gone are forgotten.
                memory.before.clear();
                let kept = hosts.all().into_iter().map(|host| (host.key(), host.samples.kept(&rates)));
                round.before = kept.collect();
                return round;
            }
            Err(why) => {
                round.failed += 1;
                whys.push(format!("{}: {why}", at[number]));
            }
        }
    }
    // All were counted above.
    round.failed = round.failed.saturating_sub(1);
    round.fail(&all, &whys.join("; "));
    round
}

/// Gives each origin the values of its host.
fn take(source: &Source, targets: &[Target], hosts: &Best<Host>, (memory, round): (&Memory, &mut Round)) {
    for (number, target) in targets.iter().enumerate() {
        match hosts.of(number) {
            Some(host) => round.give(source, target, (&host.samples, memory.before.get(&host.key()))),
            None => round.miss(target, "no host of the document is this origin".to_owned()),
        }
    }
}

/// A page and the origins that it is about.
struct Wants<'t> {
    url: (OriginUrl, String),
    targets: Vec<&'t Target>,
}

/// Reads the pages of all origins, each once.
async fn pages(source: &Source, targets: &[Target], memory: &Memory) -> Round {
    let Place::Pages(url) = &source.place else { return Round::default() };
    let mut round = Round::default();
    let mut wants: HashMap<String, Wants<'_>> = HashMap::new();
    for target in targets {
        match read::page_of(url, target) {
            Some(of) => {
                let new = Wants { url: of.clone(), targets: Vec::new() };
                wants.entry(format!("{}{}", of.0, of.1)).or_insert(new).targets.push(target);
            }
            None => round.miss(target, format!("the origin has no such page: {url}")),
        }
    }
    let (names, rates) = source.needs();
    let names = Arc::new(names);
    let mut waiting: Vec<String> = wants.keys().cloned().collect();
    let mut reading = JoinSet::new();
    loop {
        while reading.len() < PAGES_AT_ONCE
            && let Some(key) = waiting.pop()
        {
            let ((server, target), names) = (wants[&key].url.clone(), names.clone());
            let limit = source.timeout;
            reading.spawn(async move {
                let samples = read::page((&server, &target), &names, limit).await;
                (key, samples)
            });
        }
        let Some(read) = reading.join_next().await else { break };
        let Ok((key, samples)) = read else { continue };
        let Wants { targets, .. } = &wants[&key];
        match samples {
            Ok(samples) => {
                round.succeeded += 1;
                let before = memory.before.get(&key);
                targets.iter().for_each(|target| round.give(source, target, (&samples, before)));
                round.before.insert(key, samples.kept(&rates));
            }
            Err(why) => round.fail(targets, &format!("{key}: {why}")),
        }
    }
    round
}

#[cfg(test)]
mod tests;
