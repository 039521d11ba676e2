//! The data plane on virtual time. One seed decides about clients, clocks and an origin with every fault.
//! Time advances only when nobody has anything to do, so hours pass in a second.
//!
//! Every byte of a body names its object, its version and its position. So a wrong byte, a mixture of
//! versions and another client's response are seen at once. Planted lies test the checks themselves.
//!
//! `WEIR_SEEDS=7` or `WEIR_SEEDS=100..200` runs other seeds than the usual ones. With one seed, a failure
//! prints its story.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

mod client;
mod clocks;
mod origin;
mod wire;
mod world;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};
use weir_edge::plan::Plan;
use weir_edge::simulated::Server;
use weir_observe::Observatory;

use crate::client::Client;
use crate::world::{Climate, IF_UNREACHABLE_S, Sabotage, World};

/// The seeds of every test run.
const SEEDS: std::ops::Range<u64> = 1..13;
/// Heads whose memory the index's map has not given back yet: at most a batch of them.
const REST_BYTES_MAX: u64 = 160 << 10;
/// Lines of the story that a failure prints.
const STORY_LINES: usize = 400;

/// A folder for sockets that is removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-simulation-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan(folder: &Path, climate: Climate, observatory: &Observatory) -> Plan {
    let text = format!(
        r#"
[[listen]]
address = "unix:{door}"
[cache]
memory = "{memory}KiB"
[upstream.main]
origins = ["unix:{origin}"]
first_byte = "10s"
between_bytes = "10s"
[[site]]
hosts = ["*"]
upstream = "main"
stale.if_unreachable = "{IF_UNREACHABLE_S}s"
range = {range}
"#,
        range = match (climate.is_roomy(), climate.clients % 2) {
            (true, 0) => r#"{ fill = "whole", chunk = "256KiB" }"#,
            (true, _) => "{}",
            (false, _) => r#"{ chunk = "64KiB", ahead = "192KiB", parallel = 2 }"#,
        },
        door = folder.join("door.sock").display(),
        memory = climate.memory_kib,
        origin = origin::place(folder).display(),
    );
    let path = folder.join("weir.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = weir_config::load(&path).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plan::compile(&loaded, &|name| observatory.site(name))
}

/// Advances time by a millisecond while somebody is active, and in longer steps while all wait. The paused
/// clock by itself would jump to the next timer each time that the runtime looks for I/O.
async fn pulse(world: Rc<World>) {
    let mut step_ms = 1;
    loop {
        tokio::select! {
            biased;
            () = world.stirred.notified() => step_ms = 1,
            () = tokio::time::sleep(Duration::from_millis(step_ms)) => step_ms = (step_ms * 2).min(256),
        }
    }
}

/// Moves the data plane's wall clock by hours.
async fn jumps(world: Rc<World>) {
    world.set_wall(0);
    let hours = world.climate.jump_hours;
    if hours == 0 {
        return;
    }
    loop {
        world.pause(5_000, 120_000).await;
        let ahead_s = world.below(2 * hours * 3600) as i64 - hours as i64 * 3600;
        world.set_wall(if world.is_one_of(3) { 0 } else { ahead_s });
    }
}

/// Changes objects at random times.
async fn changes(world: Rc<World>) {
    loop {
        world.pause(100, 3_000).await;
        world.change(&world.path());
    }
}

/// The outcome of a run.
type Counts = BTreeMap<String, u64>;

/// What was wrong, and what led to it.
struct Failure {
    what: String,
    story: Vec<String>,
}

fn simulate(seed: u64, climate: Climate) -> Result<Counts, Failure> {
    fastrand::seed(seed);
    let folder = Folder::new();
    on_virtual_time(run(seed, climate, &folder.0))
}

fn on_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, work)
}

/// A data plane and an origin in a world, without clients.
fn begin(seed: u64, climate: Climate, folder: &Path) -> (Rc<World>, Server) {
    let world = World::new(seed, climate);
    let observatory = Observatory::start(1, &[]).unwrap();
    let (server, worker) = Server::begin(plan(folder, climate, &observatory), observatory).unwrap();
    spawn_local(worker);
    spawn_local(pulse(world.clone()));
    spawn_local(origin::run(world.clone(), origin::place(folder)));
    (world, server)
}

async fn run(seed: u64, climate: Climate, folder: &Path) -> Result<Counts, Failure> {
    let (world, server) = begin(seed, climate, folder);
    spawn_local(jumps(world.clone()));
    spawn_local(changes(world.clone()));
    let lives: Vec<_> = (0..climate.clients)
        .map(|number| {
            let (world, door) = (world.clone(), folder.join("door.sock"));
            spawn_local(Client { number, world, door, wire: None, tags: HashMap::new() }.live())
        })
        .collect();
    for life in lives {
        if life.await.is_err() {
            world.wrong("a client panicked".to_owned());
        }
    }
    settle(&world, &server).await;
    let mut counts = world.counts.borrow().clone();
    counts.insert("virtual seconds".to_owned(), world.begun.elapsed().as_secs());
    match world.what_is_wrong() {
        None => Ok(counts),
        Some(what) => Err(Failure { what, story: world.story.borrow().clone() }),
    }
}

/// When all clients have left, nothing may still run, and every byte that is held can be given back.
async fn settle(world: &World, server: &Server) {
    if world.what_is_wrong().is_some() {
        return;
    }
    for _ in 0..300 {
        if server.fills() == 0 && server.connections() == 0 {
            break;
        }
        world.pause(1_000, 1_000).await;
    }
    let (fills, connections) = (server.fills(), server.connections());
    for _ in 0..50 {
        if world.climate.sabotage != Some(Sabotage::Holds) {
            server.clear();
        }
        world.pause(100, 100).await;
        if server.usage().used_bytes <= REST_BYTES_MAX {
            break;
        }
    }
    let (used_bytes, resident_bytes) = (server.usage().used_bytes, server.usage().resident_bytes);
    if fills > 0 || connections > 0 || used_bytes > REST_BYTES_MAX || resident_bytes > 0 {
        world.wrong(format!(
            "at the end {fills} fills run, {connections} connections stand and {used_bytes} bytes are in use"
        ));
    }
    let panics = server.snapshot().counts[weir_observe::Count::Panics];
    if panics > 0 {
        world.wrong(format!("{panics} panics"));
    }
}

fn check(seed: u64, climate: Climate) -> Counts {
    simulate(seed, climate).unwrap_or_else(|failure| {
        for line in &failure.story[failure.story.len().saturating_sub(STORY_LINES)..] {
            eprintln!("{line}");
        }
        panic!(
            "seed {seed}: {}\n(again: WEIR_SEEDS={seed} cargo test -p weir-edge --test simulation)",
            failure.what
        )
    })
}

fn seeds() -> Vec<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return SEEDS.collect() };
    match text.split_once("..") {
        Some((first, end)) => (first.parse().unwrap()..end.parse().unwrap()).collect(),
        None => vec![text.parse().unwrap()],
    }
}

#[test]
fn whatever_happens_every_client_gets_what_is_right() {
    let mut sum = Counts::new();
    for seed in seeds() {
        for (what, count) in check(seed, Climate::of(seed)) {
            *sum.entry(what).or_default() += count;
        }
    }
    for (what, count) in &sum {
        println!("{count:>8} {what}");
    }
}

/// A lie that the checks must find.
fn finds(sabotage: Sabotage, word: &str) {
    let calm = Climate { faults_percent: 0, jump_hours: 0, memory_kib: 64 << 10, ..Climate::of(4) };
    let climate = Climate { sabotage: Some(sabotage), ..calm };
    match simulate(4, climate) {
        Ok(counts) => panic!("{sabotage:?} was not found: {counts:?}"),
        Err(failure) => assert!(failure.what.contains(word), "{sabotage:?} was found as: {}", failure.what),
    }
}

#[test]
fn the_checks_find_wrong_bytes() {
    finds(Sabotage::OtherBytes, "");
    finds(Sabotage::MixedVersions, "other bytes at");
    finds(Sabotage::ShortEnd, "ended clean");
}

#[test]
fn the_checks_find_what_reaches_another_client() {
    finds(Sabotage::Public, "#");
}

#[test]
fn the_checks_find_what_is_asked_for_too_often_or_too_seldom() {
    finds(Sabotage::Impatient, "asked for again");
    finds(Sabotage::Immortal, "after it was replaced");
}

#[test]
fn the_checks_find_what_is_held_for_ever() {
    finds(Sabotage::Holds, "bytes are in use");
    finds(Sabotage::Stuck, "stuck for");
}
