//! Foreign things in the state folder.

use std::path::Path;
use std::process::Command;

use weir_testkit::{Origin, until};

use super::{body, end, hits, origin_of, store, told};
use crate::server::server;

fn text(origin: &Origin) -> String {
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"16MiB\"\n";
    server(&[origin]).more(&format!("[cache]\nmemory = \"2MiB\"\nadmission = \"always\"\n{volume}")).text()
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_folder_in_the_place_of_a_file_of_weirs_is_no_obstacle() {
    let origin = origin_of(10);
    let mut weir = crate::server::setup().run_config(&text(&origin));
    store(&weir, 10);
    end(&mut weir);
    for name in ["ledger.new", "volumes.new", "frequencies.new", "control.sock"] {
        std::fs::create_dir_all(weir.state().join(name).join("somebody's")).unwrap();
    }
    for _ in 0..2 {
        weir.start_again();
        assert_eq!(hits(&weir, 10), 10);
        let status = weir.command(&["status"]);
        assert!(status.code == Some(0) && !status.stdout.contains("cannot be written"), "{status:?}");
        let purged = weir.command(&["purge", "http://localhost/another"]);
        assert_eq!(purged.code, Some(0), "{purged:?}");
        let upgraded = weir.upgrade(&[]);
        assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
        assert_eq!(weir.command(&["status"]).code, Some(0), "the socket is where it was");
        until("the new process has the volume", || told(&weir, "volume")["state"] == "up");
        weir.restart();
        end(&mut weir);
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_an_error() {
    let origin = origin_of(3);
    let mut weir = crate::server::setup().run_config(&text(&origin));
    store(&weir, 3);
    end(&mut weir);
    let config = weir.folder().join("weir.toml").display().to_string();
    let accounts = std::fs::read_dir(weir.state().join("accounts")).unwrap();
    let month = accounts.map(|entry| entry.unwrap().file_name().into_string().unwrap()).next().unwrap();
    for name in ["ledger", "volumes", &format!("accounts/{month}"), "lock"] {
        let (path, kept) = (weir.state().join(name), weir.state().join("kept"));
        std::fs::rename(&path, &kept).unwrap();
        make_pipe(&path);
        let output = weir.command(&["run", "--config", &config]);
        assert!(output.code.is_some_and(|code| code != 0), "{name}: {output:?}");
        assert!(output.stderr.contains("no file"), "{name}: {}", output.stderr);
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&kept, &path).unwrap();
    }
    // Weir does without files whose loss harms nothing else.
    for entry in std::fs::read_dir(weir.state()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name == "frequencies" || name.starts_with("written-") {
            std::fs::remove_file(entry.path()).unwrap();
            make_pipe(&entry.path());
        }
    }
    weir.start_again();
    assert_eq!(weir.get("/0").body, body(0));
    assert_eq!(hits(&weir, 3), 3);
}
