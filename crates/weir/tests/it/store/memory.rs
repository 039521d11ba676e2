//! How much memory Weir takes in small containers: never more than `[cache] memory` and what the guide says
//! of the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weir_testkit::{Client, MemoryGroup, Origin, Random, Weir};

use crate::server::{before, server, setup};

const MIB: u64 = 1 << 20;
/// What the process takes beside `[cache] memory`, and each volume, according to `docs/guide/operations.md`.
const PROCESS_BYTES: u64 = 32 * MIB;
const VOLUME_BYTES: u64 = 4 * MIB;
const BODY_BYTES: usize = 1 << 20;
const OBJECTS: u64 = 1500;
const CLIENTS: u64 = 8;

fn origin() -> Origin {
    let origin = Origin::start();
    let body = vec![b'w'; BODY_BYTES];
    origin.otherwise(move |exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], &body);
    });
    origin
}

/// This many volumes of 64 MiB each.
fn volumes(count: usize) -> String {
    let one = |number| format!("[[cache.volume]]\npath = \"{{folder}}/v{number}\"\nsize = \"64MiB\"\n");
    (0..count).map(one).collect()
}

/// A client that requests any of the objects one after another, hits and misses. A body that a volume drops
/// while it is sent is cut. Returns how many came whole.
fn fetch(weir: std::net::SocketAddr, seed: u64, left: &AtomicUsize) -> usize {
    let mut random = Random::new(seed);
    let mut client = Client::connect(weir);
    let mut whole = 0;
    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
        client.send_get("x", &format!("/{}", random.below(OBJECTS)), &[]);
        let mut bytes = 0;
        match client.recv_into(&mut |piece| bytes += piece.len()) {
            Ok(_) => {
                assert_eq!(bytes, BODY_BYTES);
                whole += 1;
            }
            Err(_) => match weir_testkit::Address::from(weir).connect() {
                Ok(socket) => client = Client::over(socket),
                Err(_) => return whole,
            },
        }
    }
    whole
}

/// Lets clients fetch many objects at a time. Returns the largest resident memory.
fn load(weir: &mut Weir, group: &MemoryGroup, requests: usize) -> u64 {
    let (left, is_done) = (Arc::new(AtomicUsize::new(requests)), AtomicBool::new(false));
    let (addr, peak) = (weir.addr(), AtomicU64::new(0));
    let whole = std::thread::scope(|scope| {
        let own = &*weir;
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                peak.fetch_max(own.anonymous(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let clients = Vec::from_iter((0..CLIENTS).map(|seed| {
            let left = Arc::clone(&left);
            scope.spawn(move || fetch(addr, seed, &left))
        }));
        let whole: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        is_done.store(true, Ordering::SeqCst);
        whole
    });
    assert_eq!(group.kills(), 0, "killed for want of memory after {} MiB", peak.load(Ordering::SeqCst) / MIB);
    assert!(weir.runs(), "it ended:\n{}", weir.stderr());
    assert!(whole * 10 >= requests * 9, "{whole} of {requests} came whole");
    peak.load(Ordering::SeqCst)
}

/// Loads a Weir in a group with this much memory, and compares its resident memory with the bound.
fn check(group_mib: u64, cache: &str, count: usize, memory_mib: u64, requests: usize) {
    let Some(group) = MemoryGroup::make(group_mib * MIB) else { return };
    let origin = origin();
    let text = format!("[cache]\n{cache}\n{}", volumes(count));
    let mut weir = server(&[&origin]).more(&text).start_in(setup().within(&group).arg("--workers").arg("2"));
    assert_eq!(weir.metric("weir_cache_memory_limit_bytes"), Some((memory_mib * MIB) as f64));
    let peak = load(&mut weir, &group, requests);
    let most = memory_mib * MIB + PROCESS_BYTES + count as u64 * VOLUME_BYTES;
    println!("{} MiB were resident, of at most {}", peak / MIB, most / MIB);
    assert!(peak <= most, "{} MiB are resident, of at most {}", peak / MIB, most / MIB);
    assert!(!weir.stderr().contains("may be killed"), "{}", weir.stderr());
}

#[test]
fn a_container_of_64_mib_is_enough_for_four_volumes() {
    check(64, "", 4, 8, 1500);
}

#[test]
fn twelve_volumes_need_no_more_memory_than_documented() {
    check(400, "memory = \"64MiB\"", 12, 64, 3000);
}

/// Whether the kernel may give a process huge pages.
fn has_huge_pages(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("THP_enabled:")).map(|value| value.trim().to_owned())
}

#[test]
fn huge_pages_are_refused_and_by_the_next_process_too() {
    let origin = origin();
    let mut weir = before(&origin);
    // On a machine without huge pages nothing can be tested.
    if has_huge_pages(std::process::id()).as_deref() != Some("1") {
        return;
    }
    assert_eq!(has_huge_pages(weir.pid()).as_deref(), Some("0"));
    assert_eq!(weir.upgrade(&[]).code, Some(0), "{}", weir.stderr());
    let pid = weir.main_pid();
    assert_ne!(pid, weir.pid());
    assert_eq!(has_huge_pages(pid).as_deref(), Some("0"));
}

#[test]
fn a_cache_that_does_not_fit_into_the_container_is_reported() {
    let Some(group) = MemoryGroup::make(100 * MIB) else { return };
    let origin = origin();
    let text = format!("[cache]\nmemory = \"64MiB\"\n{}", volumes(2));
    let weir = server(&[&origin]).more(&text).start_in(setup().within(&group));
    let said = "`[cache] memory` (64MiB) and what the process and its volumes need add up to \
                105MiB, but the process may use 100MiB";
    assert!(weir.stderr().contains(said), "{}", weir.stderr());
    let reloaded = weir.reload();
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert!(reloaded.stdout.contains(said), "{reloaded:?}");
    weir.rewrite_config(&server(&[&origin]).more(&text.replace("64MiB\"\n[[", "24MiB\"\n[[")).text());
    let reloaded = weir.reload();
    assert!(!reloaded.stdout.contains("may be killed"), "{reloaded:?}");
    assert!(reloaded.stdout.contains("[cache] memory has changed and needs a restart"), "{reloaded:?}");
}
