//! A limit on the size of files, `ulimit -f` or systemd's `LimitFSIZE`: a write beyond it fails and ends
//! nothing.

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use weir_testkit::{Origin, Resource as Page, Setup, Weir, until};

use crate::server::{server, setup};

/// Sets the limit of the running process.
fn limit(weir: &Weir, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(weir.pid()).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

/// A Weir that starts with this limit, in the shell's units of 512 or 1024 bytes.
fn limited(units: u32) -> Setup {
    setup().first(&format!("ulimit -S -f {units}"))
}

#[test]
fn a_limit_of_file_size_ends_nothing() {
    let origin = Origin::start();
    let bodies: Vec<_> = (0..12_u8).map(|number| vec![b'a' + number; 300_000]).collect();
    for (number, body) in bodies.iter().enumerate() {
        origin.put(&format!("/{number}"), Page::fresh(body.clone()));
    }
    let text = server(&[&origin]).more(
        "[cache]\nmemory = \"32MiB\"\nadmission = \"always\"\n[[cache.volume]]\npath = \"{folder}/volume\"\n\
        size = \"64MiB\"",
    );
    // Longer than what a start writes, and shorter than a segment.
    let mut weir = limited(256).run_config(&text.text());
    let ask = |weir: &Weir, which: std::ops::Range<usize>| {
        for (number, body) in bodies.iter().enumerate().take(which.end).skip(which.start) {
            assert_eq!(weir.get(&format!("/{number}")).body, *body, "{number}");
        }
    };
    ask(&weir, 0..6);
    until("the volume has met the limit", || {
        let volumes = weir.command(&["volumes"]).stdout;
        assert!(weir.runs(), "it has ended: {}", weir.stderr());
        volumes.contains("full")
    });
    ask(&weir, 0..6);
    // Nothing can be written at all: purges are not acknowledged, but requests go on.
    limit(&weir, Some(1));
    let refused = weir.command(&["purge", "--all"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("purged until a restart only"), "{refused:?}");
    ask(&weir, 0..12);
    until("the accounts have met it", || weir.metric("weir_accounts_writable") == Some(0.0));
    assert!(weir.runs());
    limit(&weir, None);
    until("purges are acknowledged again", || weir.command(&["purge", "--all"]).code == Some(0));
    ask(&weir, 0..12);
    until("the volume stores again", || {
        weir.metric("weir_volume_objects").is_some_and(|count| count >= 12.0)
    });
    until("the accounts are well again", || weir.metric("weir_accounts_writable") == Some(1.0));
}
