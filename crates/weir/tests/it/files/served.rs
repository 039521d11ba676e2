//! What is answered from files: bodies of all lengths, fields, conditions, ranges, codings, folders, lists,
//! and what is not there.

use std::time::Duration;

use weir_testkit::{Origin, Resource, Weir, byteranges, pattern, until};

use super::kit::{Root, raw, replace, text, write, www};
use crate::server::server;

#[test]
fn files_of_all_lengths_are_sent_whole_on_one_connection() {
    let lengths = [0, 1, 1000, 16 << 10, 100_000, 200_000, 1 << 20, 5 << 20];
    let root = lengths
        .iter()
        .fold(Root::new(), |root, length| root.with(&format!("{length}.bin"), pattern(7, *length)));
    let weir = root.start("");
    let mut client = weir.client();
    // The first time they are read, then they are in memory, as far as they fit.
    for _ in 0..4 {
        for length in lengths {
            let answer = client.get("www.example.com", &format!("/{length}.bin"), &[]);
            assert_eq!((answer.status(), answer.body == pattern(7, length)), (200, true), "{length}");
            assert_eq!(answer.header("content-length"), Some(length.to_string()));
            assert_eq!(answer.cache_status(), "weir; detail=file");
            assert!(answer.header("date").is_some() && answer.header("age").is_none(), "{:?}", answer.head);
            assert_eq!(answer.header("accept-ranges").as_deref(), Some("bytes"));
            assert_eq!(answer.header("content-type").as_deref(), Some("application/octet-stream"));
        }
    }
    let head = raw(&weir, "HEAD", "/100000.bin", "");
    assert_eq!((head.header("content-length").as_deref(), head.body.len()), (Some("100000"), 0));
    assert_eq!(weir.metric("weir_client_body_bytes_total").map(|bytes| bytes > 24e6), Some(true));
}

#[test]
fn an_index_answers_for_its_folder_and_a_missing_slash_is_added() {
    let root = Root::new()
        .with("index.html", "top")
        .with("a b/index.html", "inner")
        .with("other/index.htm", "second")
        .with("plain/file.txt", "text");
    let weir = root.start("files = { index = [\"index.html\", \"index.htm\"] }");
    assert_eq!(weir.get("/").text(), "top");
    assert_eq!(weir.get("/").header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!(weir.get("/a%20b/").text(), "inner");
    assert_eq!(weir.get("/other/").text(), "second");
    assert_eq!(weir.get("/plain/file.txt").text(), "text");
    let answer = weir.get("/a%20b?q=1");
    let location = answer.header("location");
    assert_eq!((answer.status(), location.as_deref()), (301, Some("/a%20b/?q=1")));
    for path in ["/plain/", "/plain", "/none", "/none/", "/plain/file.txt/", "/index.html/x"] {
        assert_eq!(weir.get(path).status(), 404, "{path}");
    }
    // Two slashes would be another host.
    assert_eq!(raw(&weir, "GET", "//other", "").header("location").as_deref(), Some("/other/"));
}

#[test]
fn methods_preconditions_and_ranges_are_answered_as_for_what_is_stored() {
    let root = Root::new().with("a.txt", "0123456789").with("large.bin", pattern(1, 300_000));
    let weir = root.start("");
    // A tag is strong when no write can be going on any more.
    let mut tag = String::new();
    until("the tag is strong", || {
        tag = weir.get("/a.txt").header("etag").unwrap();
        tag.starts_with('"')
    });
    let modified = weir.get("/a.txt").header("last-modified").unwrap();
    let ask = |lines: &str| raw(&weir, "GET", "/a.txt", lines);
    let unchanged = ask(&format!("If-None-Match: {tag}\r\n"));
    assert_eq!(
        (unchanged.status(), unchanged.header("etag"), unchanged.body.len()),
        (304, Some(tag.clone()), 0)
    );
    assert!(unchanged.header("date").is_some() && unchanged.header("content-type").is_none());
    assert_eq!(ask(&format!("If-Modified-Since: {modified}\r\n")).status(), 304);
    assert_eq!(ask("If-None-Match: \"other\"\r\n").status(), 200);
    assert_eq!(ask("If-Match: \"other\"\r\n").status(), 412);
    assert_eq!(ask(&format!("If-Match: {tag}\r\n")).status(), 200);
    assert_eq!(ask("If-Unmodified-Since: Mon, 01 Jan 1990 00:00:00 GMT\r\n").status(), 412);
    let part = ask("Range: bytes=2-4\r\n");
    assert_eq!((part.status(), part.text().as_str()), (206, "234"));
    assert_eq!(part.header("content-range").as_deref(), Some("bytes 2-4/10"));
    assert_eq!(ask("Range: bytes=-3\r\n").text(), "789");
    assert_eq!(ask("Range: bytes=20-\r\n").status(), 416);
    assert_eq!(ask("Range: bytes=20-\r\n").header("content-range").as_deref(), Some("bytes */10"));
    assert_eq!(ask(&format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n")).status(), 206);
    assert_eq!(ask("Range: bytes=0-1\r\nIf-Range: \"other\"\r\n").status(), 200);
    for _ in 0..3 {
        let several = raw(&weir, "GET", "/large.bin", "Range: bytes=0-9,100000-100009,299990-\r\n");
        assert_eq!(several.status(), 206);
        let parts = byteranges(&several, &pattern(1, 300_000), Some("application/octet-stream"));
        assert_eq!(parts, [(0, 9), (100_000, 100_009), (299_990, 299_999)]);
        let one = raw(&weir, "GET", "/large.bin", "Range: bytes=150000-250000\r\n");
        assert_eq!(one.body, pattern(1, 300_000)[150_000..=250_000]);
    }
    let refused = raw(&weir, "POST", "/a.txt", "Content-Length: 3\r\n\r\nabc");
    assert_eq!((refused.status(), refused.header("allow").as_deref()), (405, Some("GET, HEAD")));
    assert_eq!(raw(&weir, "DELETE", "/none", "").status(), 405);
    assert_eq!(raw(&weir, "HEAD", "/none", "").status(), 404);
}

#[test]
fn a_client_gets_the_sibling_in_the_coding_that_it_takes() {
    let root = Root::new()
        .with("app.js", "plain")
        .with("app.js.br", "in br")
        .with("app.js.zst", "in zstd")
        .with("app.js.gz", "in gzip")
        .with("alone.js", "alone");
    let weir = root.start("");
    let ask = |path: &str, codings: &str| raw(&weir, "GET", path, &format!("Accept-Encoding: {codings}\r\n"));
    for (codings, coding, body) in [
        ("gzip, deflate, br, zstd", Some("br"), "in br"),
        ("gzip, zstd", Some("zstd"), "in zstd"),
        ("gzip", Some("gzip"), "in gzip"),
        ("gzip;q=0", None, "plain"),
        ("deflate", None, "plain"),
    ] {
        let answer = ask("/app.js", codings);
        assert_eq!(answer.header("content-encoding").as_deref(), coding, "{codings}");
        assert_eq!((answer.status(), answer.text().as_str()), (200, body), "{codings}");
        assert_eq!(answer.header("vary").as_deref(), Some("accept-encoding"));
        assert_eq!(answer.header("content-type").as_deref(), Some("text/javascript; charset=utf-8"));
    }
    let tags: Vec<_> =
        ["br", "gzip", ""].iter().map(|coding| ask("/app.js", coding).header("etag")).collect();
    assert!(tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
    assert_eq!(ask("/alone.js", "gzip, br").header("vary"), None);
    // A newer file has no use for older siblings.
    std::thread::sleep(Duration::from_millis(30));
    replace(&www(&weir), "app.js", "newer");
    until("the old siblings are not sent", || ask("/app.js", "br").text() == "newer");
}

#[test]
fn names_that_begin_with_a_dot_are_not_there_unless_they_are_allowed() {
    let fill = |root: Root| {
        root.with(".env", "secret").with(".git/config", "secret").with(".well-known/security.txt", "public")
    };
    let weir = fill(Root::new()).start("");
    for path in ["/.env", "/.git/config", "/.git/", "/%2eenv", "/.git"] {
        assert_eq!(weir.get(path).status(), 404, "{path}");
    }
    assert_eq!(weir.get("/.well-known/security.txt").text(), "public");
    let weir = fill(Root::new()).start("files.hidden = true");
    assert_eq!(weir.get("/.git/config").text(), "secret");
}

#[test]
fn a_folder_is_listed_only_where_that_is_allowed() {
    let fill = |root: Root| {
        root.with("d/<b>&\"'.txt", "x")
            .with("d/sub/deep", "y")
            .with("d/.hidden", "z")
            .with("d/plain.txt", "abc")
    };
    let weir = fill(Root::new()).start("");
    assert_eq!(weir.get("/d/").status(), 404);
    let weir = fill(Root::new()).start("files = { listing = true }");
    assert_eq!(weir.get("/d").status(), 301);
    let html = weir.get("/d/");
    assert_eq!(html.header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    let page = html.text();
    assert!(page.contains("href=\"./sub/\"") && page.contains("&lt;b&gt;&amp;&quot;&#39;.txt"), "{page}");
    assert!(!page.contains("<b>") && !page.contains("hidden"), "{page}");
    let json = weir.get_with("/d/", &[("Accept", "application/json")]);
    assert_eq!(json.header("content-type").as_deref(), Some("application/json"));
    assert!(
        json.text().contains("{\"name\":\"plain.txt\",\"url\":\"./plain.txt\",\"type\":\"file\",\"size\":3")
    );
    assert_eq!(weir.get("/d/%3Cb%3E%26%22%27.txt").text(), "x");
}

#[test]
fn what_is_not_there_goes_to_the_upstream_and_is_cached_there() {
    let origin = Origin::start();
    origin.put("/app", Resource::fresh("from the app"));
    origin.put("/style.css", Resource::fresh("never"));
    let setup = crate::server::setup();
    write(setup.folder(), "www/style.css", "a file");
    write(setup.folder(), "www/wp/style.css", "a file");
    let weir = server(&[&origin]).site("root = \"www\"\nfallback = \"upstream\"").start_in(setup);
    assert_eq!(weir.get("/style.css").text(), "a file");
    assert_eq!(weir.get("/app").text(), "from the app");
    assert!(weir.get("/app").is_hit());
    assert_eq!((origin.count("/style.css"), origin.count("/app")), (0, 1));
    raw(&weir, "POST", "/style.css", "Content-Length: 1\r\n\r\nx");
    assert_eq!(origin.count("/style.css"), 1, "another method is the application's");
    weir.get("/wp/");
    assert_eq!(origin.count("/wp/"), 1, "a folder without an index is the application's");
    // A new file is seen within a second, a missing one at once.
    write(&www(&weir), "app", "now a file");
    assert_eq!(weir.get("/app").text(), "now a file");
    std::fs::remove_file(www(&weir).join("app")).unwrap();
    until("the file is gone", || weir.get("/app").text() == "from the app");
    assert!(weir.command(&["explain", "http://www.example.com/style.css"]).stdout.contains("www/style.css"));
    let explained = weir.command(&["explain", "http://localhost/app"]).stdout;
    assert!(explained.contains("hit"), "{explained}");
}

#[test]
fn rules_of_the_route_hold_for_files_too() {
    let site = "browser_ttl = \"1h\"\nerror_pages = { \"404\" = \"<h1>not here</h1>\" }\n\
                response_headers = { set = { X-From = \"files\", X-Path = \"{path}\" } }\n\
                [[site.route]]\nprefix = \"/private/\"\ndeny = [\"127.0.0.0/8\"]\n\
                [[site.route]]\nprefix = \"/pub/\"\n\
                rewrite = [{ from = \"/pub/**\", to = \"/files/{1}\" }]\n";
    let weir = Root::new().with("a.txt", "a").with("private/b", "b").with("files/c.txt", "c").start(site);
    let answer = weir.get("/a.txt");
    assert_eq!(answer.header("x-from").as_deref(), Some("files"));
    assert_eq!(answer.header("x-path").as_deref(), Some("/a.txt"));
    assert_eq!(answer.header("cache-control").as_deref(), Some("max-age=3600"));
    assert_eq!(weir.get("/none").text(), "<h1>not here</h1>");
    for path in ["/private/b", "//private/b", "/%70rivate/b", "/a/../private/b"] {
        assert_ne!(raw(&weir, "GET", path, "").text(), "b", "{path}");
    }
    assert_eq!(weir.get("/private/b").status(), 403);
    assert_eq!(weir.get("/pub/c.txt").text(), "c");
}

#[test]
fn a_reload_changes_the_root_and_a_root_that_is_missing_is_404() {
    let root = Root::new().with("a.txt", "first");
    write(root.setup.folder(), "other/a.txt", "second");
    let weir = root.start("");
    assert_eq!(weir.get("/a.txt").text(), "first");
    reload(&weir, &text("", "").replace("\"www\"", "\"other\""));
    assert_eq!(weir.get("/a.txt").text(), "second");
    let config = weir.rewrite_config(&text("", "").replace("\"www\"", "\"gone\""));
    let checked = weir.command(&["check", &config.display().to_string()]);
    let said = checked.stdout + &checked.stderr;
    assert!(said.contains("cannot be read"), "{said}");
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(weir.get("/a.txt").status(), 404);
    write(weir.folder(), "gone/a.txt", "third");
    until("a root that comes is served", || weir.get("/a.txt").text() == "third");
    until("the log says so", || {
        weir.get("/none");
        weir.stderr().contains("a root is there again")
    });
    assert_eq!(weir.stderr().matches("a root is not there").count(), 1);
}

fn reload(weir: &Weir, text: &str) {
    weir.rewrite_config(text);
    let told = weir.reload();
    assert_eq!(told.code, Some(0), "{told:?}");
}
