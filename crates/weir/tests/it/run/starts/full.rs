//! A state folder on a full disk.

use std::time::Duration;

use weir_testkit::{Drive, Origin, Resource, Weir, until};

use super::{body, end, hits, origin_of, store, told};
use crate::server::{server, setup};

/// A Weir whose state folder lies on the drive, and whose volume does not.
fn weir_on(origin: &Origin, drive: &Drive) -> Weir {
    let setup = setup();
    let state = drive.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(state, setup.folder().join("state")).unwrap();
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"16MiB\"\n";
    server(&[origin])
        .more(&format!("[cache]\nmemory = \"2MiB\"\nadmission = \"always\"\n{volume}"))
        .start_in(setup)
}

fn purge(weir: &Weir, path: &str) -> bool {
    let output = weir.command(&["purge", &format!("http://localhost{path}")]);
    assert!(output.code == Some(0) || output.stderr.contains("cannot be written"), "{output:?}");
    output.code == Some(0)
}

fn put(origin: &Origin, path: &str, text: &str) {
    let tag = format!("\"{text}\"");
    origin.put(path, Resource::fresh(text).header("Cache-Control", "max-age=3600").etag(&tag));
}

fn kill(weir: &mut Weir) {
    weir.signal("KILL");
    weir.wait(Duration::from_secs(30)).unwrap();
}

#[test]
fn a_full_state_disk_does_not_keep_weir_from_starting() {
    let Some(drive) = Drive::tmpfs(4 << 20) else { return };
    let origin = origin_of(20);
    let mut weir = weir_on(&origin, &drive);
    store(&weir, 20);
    put(&origin, "/1", "another");
    assert!(purge(&weir, "/1"));
    end(&mut weir);
    drive.fill_up_to(0);
    weir.start_again();
    // What can be read is in force, and the volume's content is used.
    assert_eq!(told(&weir, "volume")["state"], "up");
    let is_hit = |number: &usize| weir.get(&format!("/{number}")).is_hit();
    assert_eq!((2..20).filter(is_hit).count(), 18);
    assert_eq!(weir.get("/1").text(), "another");
    // A purge is in force, but not acknowledged.
    put(&origin, "/2", "another");
    assert!(!purge(&weir, "/2"));
    assert_eq!(weir.get("/2").text(), "another");
    let status = weir.command(&["status"]);
    assert!(status.stdout.contains("cannot be written"), "{status:?}");
    // Killed in this state, it starts again, and what was known before is known.
    kill(&mut weir);
    weir.start_again();
    assert_eq!(weir.get("/1").text(), "another");
    assert_eq!(weir.get("/3").body, body(3));
    // Once there is room, purges are durable, without a restart.
    drive.empty();
    put(&origin, "/3", "another");
    until("a purge is acknowledged", || purge(&weir, "/3"));
    assert_eq!(weir.get("/3").text(), "another");
    until("the register is written", || weir.stderr().contains("the register of volumes is written again"));
    kill(&mut weir);
    weir.start_again();
    assert_eq!((weir.get("/1").text(), weir.get("/3").text()), ("another".to_owned(), "another".to_owned()));
    assert_eq!(told(&weir, "volume")["state"], "up");
}

#[test]
fn a_first_start_on_a_full_state_disk_serves() {
    let Some(drive) = Drive::tmpfs(1 << 20) else { return };
    let origin = origin_of(5);
    std::fs::create_dir(drive.path().join("filled")).unwrap();
    drive.fill_up_to(0);
    let weir = weir_on(&origin, &drive);
    hits(&weir, 5);
    assert!(!purge(&weir, "/1"));
    assert_eq!(hits(&weir, 5), 4, "a purge is in force");
    drive.empty();
    until("a purge is acknowledged", || purge(&weir, "/1"));
}
