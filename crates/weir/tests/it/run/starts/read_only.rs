//! A drive that is read-only when Weir starts.

use weir_testkit::{Drive, Origin, Resource, Weir, until};

use super::{body, end, hits, origin_of, store, told};
use crate::server::server;

fn weir_on(origin: &Origin, drive: &Drive) -> Weir {
    let volume = drive.path().join("volume").display().to_string();
    let more = format!(
        "[cache]\nmemory = \"2MiB\"\nadmission = \"always\"\n[[cache.volume]]\npath = \"{volume}\"\n\
        size = \"16MiB\"\n"
    );
    server(&[origin]).more(&more).start()
}

fn purge(weir: &Weir, path: &str) {
    let output = weir.command(&["purge", &format!("http://localhost{path}")]);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn a_drive_that_is_read_only_at_the_start_serves_what_it_has() {
    let Some(drive) = Drive::tmpfs(32 << 20) else { return };
    let origin = origin_of(21);
    let mut weir = weir_on(&origin, &drive);
    store(&weir, 20);
    end(&mut weir);
    drive.seal();
    for how in ["TERM", "KILL"] {
        weir.start_again();
        let volume = told(&weir, "volume");
        assert_eq!((&volume["state"], &volume["suspect"]), (&"read-only".into(), &false.into()), "{volume}");
        assert_eq!(volume["reason"], "nothing can be written");
        assert_eq!(hits(&weir, 20), 20);
        weir.signal(how);
        weir.wait(std::time::Duration::from_secs(30)).unwrap();
    }
    weir.start_again();
    // New content comes from the origin, whole, and memory keeps it.
    assert_eq!(weir.get("/20").body, body(20));
    // A purge concerns what the drive serves, then and at every later start.
    origin.put("/3", Resource::fresh("another").header("Cache-Control", "max-age=3600").etag("\"2\""));
    purge(&weir, "/3");
    assert_eq!(weir.get("/3").text(), "another");
    weir.signal("KILL");
    weir.wait(std::time::Duration::from_secs(30)).unwrap();
    for _ in 0..2 {
        weir.start_again();
        assert_eq!(weir.get("/3").text(), "another", "the old one is on the volume still");
        assert_eq!(weir.get("/4").body, body(4));
        end(&mut weir);
    }
    weir.start_again();
    assert_eq!(told(&weir, "volume")["state"], "read-only");
    // It stores again once the drive can be written, without a restart.
    drive.unseal();
    until("it is opened again", || told(&weir, "volume")["state"] == "up");
    assert_eq!(weir.get("/3").text(), "another");
    let before = weir.metric("weir_volume_written_body_bytes_total");
    origin.put("/new", Resource::fresh(body(99)).header("Cache-Control", "max-age=3600").etag("\"1\""));
    assert_eq!(weir.get("/new").body, body(99));
    until("it is stored there", || weir.metric("weir_volume_written_body_bytes_total") > before);
    end(&mut weir);
    weir.start_again();
    assert_eq!(weir.get("/3").text(), "another");
    assert!(weir.get("/new").is_hit());
}

#[test]
fn a_file_system_that_has_shut_itself_after_an_error_is_served_from() {
    let Some(drive) = Drive::ext4(32 << 20) else { return };
    let origin = origin_of(20);
    let mut weir = weir_on(&origin, &drive);
    store(&weir, 20);
    end(&mut weir);
    drive.turn_read_only();
    weir.start_again();
    assert_eq!(hits(&weir, 20), 20);
    // The file system does not report that it cannot be written. Weir does not try again all the time.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let volume = told(&weir, "volume");
    assert_eq!(volume["state"], "read-only", "{volume}");
    assert!(!weir.stderr().contains("is opened again"), "{}", weir.stderr());
    assert_eq!(hits(&weir, 20), 20);
}

#[test]
fn weir_runs_without_an_empty_read_only_drive() {
    let Some(drive) = Drive::tmpfs(32 << 20) else { return };
    std::fs::create_dir(drive.path().join("volume")).unwrap();
    drive.seal();
    let origin = origin_of(1);
    let weir = weir_on(&origin, &drive);
    assert_eq!(told(&weir, "volume")["state"], "ejected");
    assert_eq!(weir.get("/0").body, body(0));
    drive.unseal();
    until("a volume is made there", || told(&weir, "volume")["state"] == "up");
}
