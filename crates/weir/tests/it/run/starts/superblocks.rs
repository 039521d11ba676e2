//! Superblocks that are damaged or gone.

use weir_testkit::{Origin, Weir, until};

use super::{end, hits, origin_of, store, told};
use crate::server::{server, setup};

const COPIES: [&str; 2] = ["superblock", "superblock-2"];

/// A config with two volumes, `one` and `other`, and next to no memory.
fn text(origin: &Origin) -> String {
    let volume = |name| format!("[[cache.volume]]\npath = \"{{folder}}/{name}\"\nsize = \"32MiB\"\n");
    let volumes = [volume("one"), volume("other")].concat();
    server(&[origin]).more(&format!("[cache]\nmemory = \"2MiB\"\nadmission = \"always\"\n{volumes}")).text()
}

fn start(origin: &Origin) -> Weir {
    setup().run_config(&text(origin))
}

#[test]
fn one_wrong_bit_in_a_superblock_costs_nothing() {
    let origin = origin_of(20);
    let mut weir = start(&origin);
    store(&weir, 20);
    for copy in COPIES {
        end(&mut weir);
        let path = weir.folder().join("one").join(copy);
        let whole = std::fs::read(&path).unwrap_or_default();
        if let Some(byte) = whole.get(20) {
            let mut wrong = whole.clone();
            wrong[20] = byte ^ 1;
            std::fs::write(&path, wrong).unwrap();
        }
        weir.start_again();
        assert_eq!(told(&weir, "one")["state"], "up", "{copy}");
        assert_eq!(hits(&weir, 20), 20, "{copy}");
        assert_eq!(std::fs::read(&path).unwrap(), whole, "{copy} is written again");
    }
}

#[test]
fn a_volume_without_a_sound_superblock_concerns_no_other() {
    let origin = origin_of(20);
    let mut weir = start(&origin);
    store(&weir, 20);
    let on_other = told(&weir, "other")["objects"].as_u64().unwrap() as usize;
    let folder = weir.folder().join("one");
    for is_removed in [false, true] {
        end(&mut weir);
        for copy in COPIES {
            match is_removed {
                false => std::fs::write(folder.join(copy), "").unwrap(),
                true => std::fs::remove_file(folder.join(copy)).unwrap(),
            }
        }
        weir.start_again();
        let one = told(&weir, "one");
        assert_eq!(one["state"], "ejected", "{one}");
        assert!(one["reason"].as_str().is_some_and(|why| why.contains("begin again")), "{one}");
        assert_eq!(told(&weir, "other")["state"], "up");
        assert!(hits(&weir, 20) >= on_other, "what the other volume has is served");
    }
    // Following the message's advice helps.
    std::fs::rename(&folder, weir.folder().join("away")).unwrap();
    until("a volume is made in its place", || told(&weir, "one")["state"] == "up");
}

#[test]
fn a_foreign_folder_is_refused() {
    let origin = origin_of(1);
    for (name, content) in [("superblock", "somebody else's"), ("segments/00000001.seg", "")] {
        let setup = setup();
        std::fs::create_dir_all(setup.folder().join("one/segments")).unwrap();
        setup.file(&format!("one/{name}"), content);
        let path = setup.write_config(&text(&origin)).display().to_string();
        let output = setup.command(&["run", "--config", &path]);
        assert!(output.code.is_some_and(|code| code != 0), "{output:?}");
        assert!(output.stderr.contains("cannot use the volume"), "{}", output.stderr);
    }
}
