//! The memory of several processes after upgrades: the old ones give back what no reader holds, and all
//! together stay within `cache.memory`.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Client, Origin, Resource, Weir, pattern, until};

use super::lasting::old_processes;
use super::upgraded;
use crate::server::server;

const MEMORY: u64 = 32 << 20;
/// What a reader holds in each old process.
const HELD: usize = 6 << 20;
const OBJECT: usize = 150_000;

fn cache(weir: &Weir) -> Value {
    let output = weir.command(&["status", "--json"]);
    serde_json::from_str::<Value>(&output.stdout).unwrap()["cache"].clone()
}

/// Resident memory of its own, in bytes.
fn anonymous(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() << 10
}

/// Asks for more than fits.
fn fill(weir: &Weir, origin: &Origin, name: &str) {
    let mut client = weir.client();
    for number in 0..280 {
        let path = format!("/{name}/{number}");
        origin.put(&path, Resource::fresh(pattern(number, OBJECT)));
        assert!(client.get("x", &path, &[]).body == pattern(number, OBJECT), "{path}");
    }
}

/// A client that takes nothing of what is held.
fn slow(weir: &Weir, origin: &Origin, path: &str) -> Client {
    origin.put(path, Resource::fresh(pattern(3, HELD)));
    assert!(weir.client().get("x", path, &[]).body == pattern(3, HELD));
    let mut client = Client::connect_narrow(weir.addr(), 4 << 10);
    client.send_get("x", path, &[]);
    until("it is under way", || weir.metric("weir_requests_running") == Some(1.0));
    client
}

#[test]
fn the_old_processes_give_back_what_no_reader_holds_and_the_new_one_has_the_rest() {
    let origin = Origin::start();
    let more = format!("[cache]\nmemory = \"{MEMORY}B\"\n[limits]\nsend_stall = \"10m\"");
    let mut weir = server(&[&origin]).more(&more).start();
    let first = weir.pid();
    let mut readers = Vec::new();
    let mut held = Vec::new();
    for round in 0_u64..2 {
        fill(&weir, &origin, &format!("before-{round}"));
        readers.push(slow(&weir, &origin, &format!("/held/{round}")));
        let full = anonymous(weir.main_pid());
        let old = weir.main_pid();
        assert!(cache(&weir)["memory_bytes"].as_u64() > Some(MEMORY / 2), "{}", cache(&weir));
        upgraded(&mut weir, &[]);
        until("what is at rest is given back", || {
            held = old_processes(&weir).iter().filter_map(|old| old["held_bytes"].as_u64()).collect();
            held.len() as u64 == round + 1 && held.iter().all(|held| *held < HELD as u64 + (3 << 20))
        });
        assert!(held.iter().all(|held| *held > HELD as u64), "{held:?}");
        until("the system has it", || anonymous(old) + (12 << 20) < full);
    }
    let elsewhere: u64 = held.iter().sum();
    fill(&weir, &origin, "after");
    let cache = cache(&weir);
    assert_eq!(cache["memory_bytes_max"].as_u64(), Some(MEMORY));
    let used = cache["memory_bytes"].as_u64().unwrap();
    assert!(used <= MEMORY && used > MEMORY / 2, "{cache}");
    let own = cache["objects"].as_u64().unwrap() * OBJECT as u64;
    assert!(own + elsewhere <= MEMORY, "{own} here and {elsewhere} in old processes");
    assert!(own > MEMORY / 4, "{own}: the rest is used");
    // One that is killed gives back all.
    weir.signal("KILL");
    weir.wait(Duration::from_secs(20)).unwrap();
    until("one is left", || old_processes(&weir).iter().all(|old| old["pid"] != first));
    readers.remove(0);
    for (number, mut reader) in readers.into_iter().enumerate() {
        let answer = reader.recv().unwrap();
        assert!(answer.body == pattern(3, HELD), "{number}: {} bytes", answer.body.len());
    }
    until("all have ended", || old_processes(&weir).is_empty());
    fill(&weir, &origin, "alone");
    let own = self::cache(&weir)["objects"].as_u64().unwrap() * OBJECT as u64;
    assert!(own > MEMORY / 4 * 3, "{own}: all of it is this process's again");
}
