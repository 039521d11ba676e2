//! Content by hand in `weir list`: beside what is cached, by the same conditions, orders, sums and pages.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_testkit::{Origin, Resource, Weir, until};

use crate::content::kit::{lay, put, reset};
use crate::server::{listed, server};

const SITES: &str = "[cache]\nmemory = \"32MiB\"\n\
                     [[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n\
                     [[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nupstream = \"main\"\n\
                     [[site]]\nhosts = [\"b.test\"]\nupstream = \"main\"\n";
const CACHED: usize = 12;
const BY_HAND: usize = 9;

/// Six images of each site are cached; four pages of each are laid, and one that ends in an hour.
fn filled(origin: &Origin) -> Weir {
    let weir = server(&[origin]).more(SITES).start();
    for number in 0..CACHED / 2 {
        let image = Resource::fresh(vec![7; 100 * number]).header("Content-Type", "image/png");
        let image = image.header("Cache-Control", "max-age=600").header("Cache-Tag", "t");
        origin.put(&format!("/c/{number}"), image);
        for host in ["a.test", "b.test"] {
            assert_eq!(weir.client().get(host, &format!("/c/{number}"), &[]).status(), 200);
        }
    }
    for number in 0..4 {
        lay(&weir, &format!("a.test/h/{number}.html"), vec![b'x'; 1000 + number]);
        lay(&weir, &format!("https://b.test/h/{number}.css"), vec![b'x'; 2000 + number]);
    }
    let laid = put(&weir, "www.a.test/end.txt", "soon", &["--ttl", "1h"]);
    assert_eq!(laid.code, Some(0), "{laid:?}");
    until("all is on the volume", || weir.metric("weir_volume_objects") == Some(CACHED as f64));
    weir
}

/// All pages: each is full unless it is the last one, and nothing is met twice.
fn pages(weir: &Weir, limit: usize, arguments: &[&str]) -> Vec<Value> {
    let (mut found, mut after, limit_text) = (Vec::new(), None::<String>, limit.to_string());
    loop {
        let mut all = [&["list", "--json", "--limit", &limit_text], arguments].concat();
        all.extend(after.iter().flat_map(|after| ["--after", after]));
        let output = weir.command(&all);
        assert_eq!(output.code, Some(0), "{output:?}");
        let (objects, end) = listed(&output.stdout);
        assert!(objects.len() == limit || end["next"].is_null(), "{arguments:?} {limit}: {end}");
        found.extend(objects);
        match end["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    let urls: BTreeSet<&str> = found.iter().map(|object| object["url"].as_str().unwrap()).collect();
    assert_eq!(urls.len(), found.len(), "{arguments:?} {limit}: {urls:?}");
    found
}

fn by_hand(objects: &[Value]) -> usize {
    objects.iter().filter(|object| object["by_hand"] == true).count()
}

#[test]
fn content_by_hand_is_listed_by_all_conditions_in_full_pages() {
    let origin = Origin::start();
    let weir = filled(&origin);
    for limit in [1, 4, BY_HAND, 10, CACHED, 20, CACHED + BY_HAND, 100] {
        let all = pages(&weir, limit, &[]);
        assert_eq!((all.len(), by_hand(&all)), (CACHED + BY_HAND, BY_HAND), "{limit}");
    }
    let volume = pages(&weir, 100, &["--not-by-hand"])[0]["volume_name"].as_str().unwrap().to_owned();
    for (arguments, expect) in [
        (&["--by-hand"][..], (0, 9)),
        (&["--not-by-hand"], (12, 0)),
        (&["--site", "a.test"], (6, 5)),
        (&["--site", "www.a.test", "--by-hand"], (0, 5)),
        (&["--prefix", "a.test/"], (6, 4)),
        (&["--prefix", "https://b.test/h/"], (0, 4)),
        (&["--prefix", "http://www.a.test/"], (0, 1)),
        (&["--prefix", "b.test/", "--site", "a.test"], (0, 0)),
        (&["--match", "*.html"], (0, 4)),
        (&["--match", "https://a.test/*"], (0, 4)),
        (&["--match", "~^http://b\\.test/./[0-2]"], (3, 3)),
        (&["--match", "a.test/*"], (0, 0)),
        (&["--type", "text/*"], (0, 9)),
        (&["--type", "image/png,text/css"], (12, 4)),
        (&["--size", "..500B"], (12, 1)),
        (&["--size", "500B..1001B"], (2, 2)),
        (&["--age", "..1h"], (12, 9)),
        (&["--age", "1h.."], (0, 0)),
        (&["--freshness", "fresh"], (12, 9)),
        (&["--freshness", "stale"], (0, 0)),
        (&["--freshness", "2h"], (12, 1)),
        (&["--freshness", "11m"], (12, 0)),
        (&["--status", "200"], (12, 9)),
        (&["--status", "3xx,404"], (0, 0)),
        (&["--whole"], (12, 9)),
        (&["--part"], (0, 0)),
        (&["--tag", "t"], (12, 0)),
        (&["--tag", "t", "--by-hand"], (0, 0)),
        (&["--place", "memory"], (12, 0)),
        (&["--place", &volume], (12, 0)),
        (&["--place", "memory", "--by-hand"], (0, 0)),
    ] {
        for limit in [3, 100] {
            let all = pages(&weir, limit, arguments);
            let laid = by_hand(&all);
            assert_eq!((all.len() - laid, laid), expect, "{arguments:?} {limit}: {all:?}");
        }
        let sum = listed(&weir.command(&[&["list", "--json", "--sum"], arguments].concat()).stdout).1;
        assert_eq!(sum["sum"]["objects"], expect.0 + expect.1, "{arguments:?}");
    }
    reset(&weir, "http://a.test/h/2.html");
    assert_eq!(pages(&weir, 5, &["--by-hand"]).len(), BY_HAND - 1);
}

#[test]
fn content_by_hand_has_its_place_in_orders_and_sums() {
    let origin = Origin::start();
    let weir = filled(&origin);
    let first = |arguments: &[&str]| -> Vec<String> {
        let output = weir.command(&[&["list", "--json"], arguments].concat());
        let (objects, end) = listed(&output.stdout);
        assert_eq!(end["sum"]["objects"], CACHED + BY_HAND, "{end}");
        let held = 2 * (100 + 200 + 300 + 400 + 500) + 4 * 3000 + 12 + 4;
        assert_eq!(end["sum"]["held_bytes"], held, "{end}");
        objects.iter().map(|object| object["url"].as_str().unwrap().to_owned()).collect()
    };
    assert!(first(&["--sum"]).is_empty());
    let largest = first(&["--sort", "size", "--limit", "6"]);
    assert_eq!(largest[..4], [3, 2, 1, 0].map(|number| format!("b.test/h/{number}.css")));
    assert_eq!(largest[4..], ["a.test/h/3.html", "a.test/h/2.html"]);
    let largest = first(&["--sort", "size", "--limit", "9"]);
    assert_eq!(largest[8], "http://a.test/c/5");
    assert_eq!(first(&["--sort", "url", "--limit", "1"]), ["a.test/h/0.html"]);
    let expiring = first(&["--sort", "expires", "--limit", "100"]);
    assert!(expiring[..CACHED].iter().all(|url| url.starts_with("http")), "{expiring:?}");
    assert_eq!(expiring[CACHED], "www.a.test/end.txt");
    let oldest = first(&["--sort", "age", "--limit", "100"]);
    assert_eq!(oldest[CACHED + BY_HAND - 1], "www.a.test/end.txt", "{oldest:?}");
}

#[test]
fn of_content_by_hand_the_list_says_what_it_is() {
    let origin = Origin::start();
    let weir = filled(&origin);
    let one = |prefix: &str| pages(&weir, 10, &["--prefix", prefix]).remove(0);
    let (ending, stays) = (one("www.a.test/end.txt"), one("a.test/h/3.html"));
    for (field, expect) in [
        ("url", Value::from("www.a.test/end.txt")),
        ("site", "a.test".into()),
        ("status", 200.into()),
        ("type", "text/plain".into()),
        ("body_bytes", 4.into()),
        ("held_bytes", 4.into()),
        ("part", false.into()),
        ("fresh", true.into()),
        ("memory", false.into()),
        ("volume", false.into()),
        ("by_hand", true.into()),
        ("shown", true.into()),
    ] {
        assert_eq!(ending[field], expect, "{field}: {ending}");
    }
    assert!(ending["stored"].as_str().unwrap().starts_with("20") && ending["age_s"].as_u64() < Some(600));
    // The time begins with the upload.
    assert!((3500..=3600).contains(&ending["lifetime_s"].as_u64().unwrap()), "{ending}");
    assert!(stays["lifetime_s"].is_null() && stays["by_hand"] == true, "{stays}");
    let cached = one("a.test/c/1");
    assert!(cached["by_hand"] == false && cached["shown"].is_null() && cached["lifetime_s"] == 600);
    let shown = weir.command(&["list", "--prefix", "a.test/h/3.html"]).stdout;
    assert!(shown.contains("\nby hand ") && shown.ends_with("-  a.test/h/3.html\n"), "{shown}");
    let csv = weir.command(&["list", "--csv", "--by-hand", "--columns", "url,place,expires,shown"]).stdout;
    assert!(csv.contains("a.test/h/3.html,by hand,,true\r\n"), "{csv}");
    // A token of one site sees its own pieces alone.
    let of_a = weir.token("view", &["a.test"]);
    let page = weir.admin_get_with("/v1/objects?by-hand=1", &of_a).text();
    assert!(page.matches("\"by_hand\":true").count() == 5 && !page.contains("b.test"), "{page}");
    let all = weir.admin_get_with("/v1/objects?sum=1", &of_a).text();
    assert!(all.contains("\"sum\":{\"objects\":11,"), "{all}");
    for refused in ["/v1/objects?by-hand=1&site=b.test", "/v1/objects?by-hand=1&prefix=b.test/"] {
        assert_eq!(weir.admin_get_with(refused, &of_a).status(), 403, "{refused}");
    }
    assert_eq!(weir.command(&["list", "--by-hand", "--not-by-hand"]).code, Some(2));
    // Its host moves to another site: the piece stays with the site that it was laid for.
    let moved = SITES.replace(", \"www.a.test\"]", "]").replace("\"b.test\"]", "\"b.test\", \"www.a.test\"]");
    weir.rewrite_config(&server(&[&origin]).more(&moved).text());
    assert_eq!(weir.reload().code, Some(0));
    let shown = weir.command(&["list", "--by-hand", "--match", "*end.txt"]).stdout;
    assert!(shown.ends_with("www.a.test/end.txt  not shown: see `weir content list`\n"), "{shown}");
    assert_eq!(pages(&weir, 10, &["--by-hand", "--site", "b.test"]).len(), 4);
    assert_eq!(pages(&weir, 10, &["--by-hand", "--site", "a.test"]).len(), 5);
}
