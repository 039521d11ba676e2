//! What `weir list` shows of the cache: memory and the volume together, page by page.

use std::collections::BTreeSet;

use weir_testkit::{Origin, Resource, Weir, until};

use crate::server::server;

/// Runs `weir list` with these arguments until there is no further page. Returns the URLs' paths.
fn list(weir: &Weir, arguments: &[&str]) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut all = [&["list", "--json"], arguments].concat();
        all.extend(after.iter().flat_map(|after| ["--after", after]));
        let output = weir.command(&all);
        assert_eq!(output.code, Some(0), "{output:?}");
        let page: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let is_empty = page["objects"].as_array().unwrap().is_empty();
        assert!(!is_empty || page["next"].is_null(), "{arguments:?}: {page}");
        for object in page["objects"].as_array().unwrap() {
            assert!(object["memory"] == true || object["volume"] == true, "{object}");
            assert!(object["stored"].as_str().unwrap().starts_with("20"), "{object}");
            assert_eq!((&object["status"], &object["body_bytes"]), (&200.into(), &1000.into()), "{object}");
            let url = object["url"].as_str().unwrap();
            found.push(url.splitn(4, '/').last().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => return found,
        }
    }
}

fn put(origin: &Origin, path: &str, tag: &str) {
    let fresh = Resource::fresh(vec![7; 1000]).header("Cache-Control", "max-age=600");
    origin.put(path, fresh.header("Cache-Tag", tag));
}

#[test]
fn the_cache_is_listed_page_by_page() {
    let origin = Origin::start();
    let more =
        "[cache]\nmemory = \"32MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n";
    let mut weir = server(&[&origin]).more(more).start();
    assert_eq!(weir.command(&["list"]).stdout, "nothing like that is cached\n");
    for number in 0..25u32 {
        let path = format!("/{}/{number}", if number < 10 { "a" } else { "b" });
        put(&origin, &path, if number.is_multiple_of(5) { "five" } else { "other" });
        weir.get(&path);
    }
    until("all is on the volume", || weir.metric("weir_volume_objects") == Some(25.0));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    weir.signal("KILL");
    weir.start_again();
    // Some are loaded into memory.
    (0..5).for_each(|number| assert!(weir.get(&format!("/a/{number}")).is_hit()));
    let all = list(&weir, &["--limit", "7"]);
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (25, 25), "{all:?}");
    let of_prefix = list(&weir, &["--prefix", "localhost/a/"]);
    assert!(of_prefix.len() == 10 && of_prefix.iter().all(|path| path.starts_with("a/")), "{of_prefix:?}");
    assert_eq!(list(&weir, &["--tag", "five"]).len(), 5);
    assert_eq!(weir.command(&["purge", "--tag", "five"]).code, Some(0));
    assert_eq!(list(&weir, &["--limit", "3"]).len(), 20);
    assert!(list(&weir, &["--tag", "five"]).is_empty());
    let shown = weir.command(&["list", "--limit", "2"]);
    assert!(shown.stdout.contains("there may be more: --after "), "{shown:?}");
    let unknown = weir.command(&["list", "--site", "nowhere.test"]);
    assert!(unknown.code == Some(1) && unknown.stderr.contains("no site"), "{unknown:?}");
    assert_eq!(weir.command(&["list", "--after", "zz"]).code, Some(1));
}

/// Before, the first page was empty as soon as more was on the volume than the limit.
#[test]
fn each_page_but_the_last_has_an_object() {
    let origin = Origin::start();
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n";
    for more in ["", volume] {
        let weir = server(&[&origin]).more(&format!("[cache]\nmemory = \"32MiB\"\n{more}")).start();
        for number in 0..120u32 {
            let path = format!("/{number}");
            put(&origin, &path, "t");
            weir.get(&path);
        }
        if !more.is_empty() {
            until("all is on the volume", || weir.metric("weir_volume_objects") == Some(120.0));
        }
        for limit in [1, 10, 40, 100] {
            let limit = limit.to_string();
            let all = list(&weir, &["--limit", &limit]);
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 120, "{more} {limit}: {all:?}");
        }
        let shown = weir.command(&["list"]);
        assert!(shown.stdout.lines().count() > 100, "{more}: {shown:?}");
    }
}

/// Before, the list showed the whole length, as if the cache had it.
#[test]
fn a_part_is_listed_with_stored_and_whole_length() {
    const LENGTH: u64 = 8 << 20;
    let origin = Origin::start();
    origin.put("/part", Resource::fresh(vec![7; LENGTH as usize]).etag("\"1\"").ranges());
    origin.put("/whole", Resource::fresh(vec![7; 1000]));
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n";
    for more in ["", volume] {
        let weir = server(&[&origin]).more(&format!("[cache]\nmemory = \"32MiB\"\n{more}")).start();
        weir.get("/whole");
        weir.get_with("/part", &[("Range", "bytes=3000000-3100000")]);
        let object = |path: &str| -> serde_json::Value {
            let output = weir.command(&["list", "--json", "--prefix", &format!("localhost{path}")]);
            let page: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
            page["objects"][0].clone()
        };
        let of_whole = |object: &serde_json::Value| (object["held_bytes"].clone(), object["part"].clone());
        until("both are held", || object("/part")["part"] == true && !object("/whole").is_null());
        assert_eq!(of_whole(&object("/whole")), (1000.into(), false.into()));
        let part = object("/part");
        let held = part["held_bytes"].as_u64().unwrap();
        assert!(part["body_bytes"] == LENGTH && (100_001..LENGTH).contains(&held), "{part}");
        let shown = weir.command(&["list", "--prefix", "localhost/part"]).stdout;
        assert!(shown.contains("  part of 8.0 MiB  http://localhost/part\n"), "{shown}");
        let shown = weir.command(&["list", "--prefix", "localhost/whole"]).stdout;
        assert!(!shown.contains("part") && shown.contains("1000 B"), "{shown}");
    }
}
