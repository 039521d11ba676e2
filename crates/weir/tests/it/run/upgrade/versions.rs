//! Upgrades from another version of Weir, and back to it. `WEIR_BEFORE` names its program:
//!
//! ```text
//! WEIR_BEFORE=/usr/bin/weir cargo test -p weir --test it -- versions
//! ```
//!
//! Without it both are the program under test.

use std::time::Duration;

use weir_testkit::{Gate, Resource, Setup, pattern, until};

use super::{Load, binary, origin, program, upgraded};
use crate::server::server;

const LONG: usize = 3_000_000;

fn before() -> String {
    std::env::var("WEIR_BEFORE").unwrap_or_else(|_| binary())
}

#[test]
fn no_request_fails_from_the_version_before_and_back_to_it() {
    let origin = origin();
    let config = server(&[&origin]).text();
    let mut weir = Setup::new(before()).run_config(&config);
    let file = weir.folder().join("weir.toml").display().to_string();
    let gates: Vec<Gate> = (0..4).map(|_| Gate::new()).collect();
    let mut downloads = Vec::new();
    let load = Load::start(&weir, 8, 4);
    load.go_on(200);
    // Also between two of the same version, with one of each kind before it.
    for (round, next) in [binary(), before(), binary(), binary()].into_iter().enumerate() {
        let path = format!("/long/{round}");
        let resource = Resource::fresh(pattern(round as u64, LONG)).body_gate(LONG / 2, &gates[round]);
        origin.put(&path, resource);
        let mut client = weir.client();
        client.send_get("x", &path, &[]);
        origin.await_count(&path, 1);
        downloads.push(client);
        let program = program(&weir, "next", &format!("exec {next} run --config {file}"));
        upgraded(&mut weir, &["--program", &program]);
        load.go_on(200);
    }
    for (round, mut client) in downloads.into_iter().enumerate() {
        gates[round].open();
        let answer = client.recv().unwrap_or_else(|why| panic!("round {round}: {why}"));
        assert!(answer.body == pattern(round as u64, LONG), "round {round}");
        assert_eq!(client.get("x", "/hit?1", &[]).status(), 200, "round {round}: its connection moves on");
    }
    load.end();
    assert!(weir.wait(Duration::from_secs(40)).is_some_and(|status| status.success()), "the first one ends");
    until("one answers", || weir.get("/hit?2").status() == 200);
}
