//! What `weir list` shows of the cache: memory and the volume together, page by page.

use std::collections::BTreeSet;

use weir_testkit::{Origin, Resource, Weir, until};

use crate::durable::settle;
use crate::server::{listed, server};

/// Runs `weir list` with these arguments until there is no further page. Returns the URLs' paths.
fn list(weir: &Weir, arguments: &[&str]) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut all = [&["list", "--json"], arguments].concat();
        all.extend(after.iter().flat_map(|after| ["--after", after]));
        let output = weir.command(&all);
        assert_eq!(output.code, Some(0), "{output:?}");
        let (objects, end) = listed(&output.stdout);
        assert!(!objects.is_empty() || end["next"].is_null(), "{arguments:?}: {end}");
        for object in objects {
            assert!(object["memory"] == true || object["volume"] == true, "{object}");
            assert!(object["stored"].as_str().unwrap().starts_with("20"), "{object}");
            assert_eq!((&object["status"], &object["body_bytes"]), (&200.into(), &1000.into()), "{object}");
            let url = object["url"].as_str().unwrap();
            found.push(url.splitn(4, '/').last().unwrap().to_owned());
        }
        match end["next"].as_str() {
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
    settle(&weir);
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
            listed(&output.stdout).0.first().cloned().unwrap_or_default()
        };
        let of_whole = |object: &serde_json::Value| (object["held_bytes"].clone(), object["part"].clone());
        until("both are held", || object("/part")["part"] == true && !object("/whole").is_null());
        assert_eq!(of_whole(&object("/whole")), (1000.into(), false.into()));
        let part = object("/part");
        let held = part["held_bytes"].as_u64().unwrap();
        assert!(part["body_bytes"] == LENGTH && (100_001..LENGTH).contains(&held), "{part}");
        let shown = weir.command(&["list", "--prefix", "localhost/part"]).stdout;
        assert!(shown.contains("  http://localhost/part  (part of 8.0 MiB)\n"), "{shown}");
        let shown = weir.command(&["list", "--prefix", "localhost/whole"]).stdout;
        assert!(!shown.contains("part") && shown.contains("1000 B"), "{shown}");
    }
}

/// Each condition, order and sum by the command, in all its forms.
#[test]
fn what_is_cached_is_searched_sorted_and_summed_up() {
    let origin = Origin::start();
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n";
    let more = format!("[cache]\nmemory = \"32MiB\"\n{volume}");
    let weir = server(&[&origin]).more(&more).start();
    for number in 0..20usize {
        let kind = if number < 5 { "image/png" } else { "text/html; charset=utf-8" };
        let resource = Resource::fresh(vec![7; 100 * number]).header("Content-Type", kind);
        let max_age = if number.is_multiple_of(2) { "max-age=60" } else { "max-age=86400" };
        origin.put(&format!("/{number}.x"), resource.header("Cache-Control", max_age));
        weir.get(&format!("/{number}.x"));
    }
    until("all is on the volume", || weir.metric("weir_volume_objects") == Some(20.0));
    let numbers = |arguments: &[&str]| -> Vec<usize> {
        let output = weir.command(&[&["list", "--json"], arguments].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let number = |object: &serde_json::Value| {
            let url = object["url"].as_str().unwrap();
            url.rsplit('/').next().unwrap().strip_suffix(".x").unwrap().parse().unwrap()
        };
        listed(&output.stdout).0.iter().map(number).collect()
    };
    let sorted = |arguments: &[&str]| {
        let mut all = numbers(arguments);
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(&["--type", "image/*"]), [0, 1, 2, 3, 4]);
    assert_eq!(sorted(&["--match", "*/1?.x", "--size", "1700B.."]), [17, 18, 19]);
    assert_eq!(sorted(&["--match", "~/[0-3]\\.x$", "--whole"]), [0, 1, 2, 3]);
    assert_eq!(sorted(&["--freshness", "10m", "--size", "..400B"]), [0, 2, 4]);
    assert_eq!(sorted(&["--status", "200", "--age", "..1h", "--freshness", "fresh"]).len(), 20);
    assert!(sorted(&["--status", "4xx"]).is_empty() && sorted(&["--part"]).is_empty());
    assert!(sorted(&["--by-hand"]).is_empty());
    assert_eq!(numbers(&["--sort", "size", "--limit", "3"]), [19, 18, 17]);
    assert_eq!(sorted(&["--sort", "expires", "--limit", "10"]), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    let sum = weir.command(&["list", "--sum"]).stdout;
    assert_eq!(sum, "20 objects, 18.6 KiB held\n");
    let shown = weir.command(&["list", "--all", "--columns", "status,size,url"]).stdout;
    assert!(shown.starts_with("status   size          url\n") && shown.lines().count() == 21, "{shown}");
    let csv = weir.command(&["list", "--csv", "--limit", "5"]);
    assert!(csv.stdout.starts_with("url,key,site,status,type,size,"), "{csv:?}");
    assert!(csv.stdout.lines().count() == 6 && csv.stderr.contains("--after "), "{csv:?}");
    for (arguments, expect) in [
        (&["--size", "1MiB"][..], "1MiB.."),
        (&["--match", "~("], "no regular expression"),
        (&["--status", "1"], "status"),
        (&["--sort", "name"], "sort is url"),
        (&["--limit", "0"], "limit is between"),
    ] {
        let refused = weir.command(&[&["list"], arguments].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(expect), "{refused:?}");
    }
    let nowhere = weir.command(&["list", "--place", "nowhere"]);
    let expect = "no volume has the name nowhere: name memory or ";
    assert!(nowhere.code == Some(1) && nowhere.stderr.contains(expect), "{nowhere:?}");
    let of_one = weir.admin_get_with("/v1/objects?place=nowhere", &weir.token("view", &["*"])).text();
    assert!(of_one.contains("\"unfit\"") && !of_one.contains("name memory or"), "{of_one}");
    let shown = weir.command(&["list", "--limit", "1"]).stdout;
    assert!(shown.starts_with("place ") && shown.lines().count() >= 2, "{shown}");
    let one = weir.admin_get_with("/v1/objects?sum=1&type=image/png", &weir.token("view", &[])).text();
    assert!(one.contains("\"sum\":{\"objects\":5,\"held_bytes\":1000}"), "{one}");
    let of_site = weir.admin_get_with("/v1/objects?limit=1", &weir.token("view", &["*"])).text();
    assert!(!of_site.contains("volume_name") && of_site.contains("\"objects\":[{"), "{of_site}");
}
