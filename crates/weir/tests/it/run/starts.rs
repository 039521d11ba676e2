//! Starts in bad circumstances: a volume that is damaged, a drive that cannot be written, a full state disk,
//! and foreign things in the state folder. Whatever is sound is used, and the rest is reported.

mod full;
mod obstacles;
mod read_only;
mod superblocks;

use std::time::Duration;

use weir_testkit::{Origin, Resource, Weir, until};

/// The objects of an origin, `/0` and so on.
fn origin_of(count: usize) -> Origin {
    let origin = Origin::start();
    for number in 0..count {
        let resource = Resource::fresh(body(number)).header("Cache-Control", "max-age=3600").etag("\"1\"");
        origin.put(&format!("/{number}"), resource);
    }
    origin
}

fn body(number: usize) -> Vec<u8> {
    weir_testkit::pattern(number as u64, 20_000)
}

/// Requests all objects. Returns how many were hits.
fn hits(weir: &Weir, count: usize) -> usize {
    let mut client = weir.client();
    let is_hit = |number: &usize| {
        let found = client.get("localhost", &format!("/{number}"), &[]);
        assert!(found.status() == 200 && found.body == body(*number), "{number}: {:?}", found.head);
        found.is_hit()
    };
    (0..count).filter(is_hit).count()
}

/// Stores all objects on the volumes.
fn store(weir: &Weir, count: usize) {
    until("all is on the volumes", || {
        hits(weir, count);
        weir.metric("weir_volume_objects") == Some(count as f64)
    });
}

fn end(weir: &mut Weir) {
    weir.signal("TERM");
    assert!(weir.wait(Duration::from_secs(30)).is_some_and(|status| status.success()));
}

/// The entry of `weir volumes` for the volume whose path ends with `name`.
fn told(weir: &Weir, name: &str) -> serde_json::Value {
    let output = weir.command(&["volumes", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap_or_default();
    let is_it = |one: &serde_json::Value| one["path"].as_str().is_some_and(|path| path.ends_with(name));
    all.into_iter().find(is_it).unwrap_or_default()
}
