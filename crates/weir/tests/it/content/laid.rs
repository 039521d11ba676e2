//! What is laid by hand is answered like a stored object, before the cache and the origin; a reset shows what
//! was there.

use std::time::Duration;

use weir_testkit::{
    Authority, Client, H2Client, Origin, Resource, TlsClient, Weir, byteranges, pattern, until,
};

use super::kit::{lay, list, put, reset};
use crate::server::{server, setup};

fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/cached", Resource::fresh("of the origin"));
    origin
}

fn raw(weir: &Weir, method: &str, path: &str, lines: &str) -> weir_testkit::Response {
    let mut client = weir.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n"));
    if method == "HEAD" { client.recv_head().unwrap() } else { client.recv().unwrap() }
}

#[test]
fn content_is_answered_like_a_stored_object() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    assert_eq!(weir.get("/new.css").status(), 404);
    lay(&weir, "localhost/new.css", "0123456789");
    let whole = weir.get("/new.css");
    assert_eq!((whole.status(), whole.text().as_str()), (200, "0123456789"));
    assert_eq!(whole.header("content-type").as_deref(), Some("text/css; charset=utf-8"));
    assert_eq!(whole.header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(whole.header("accept-ranges").as_deref(), Some("bytes"));
    assert_eq!(whole.cache_status(), "weir; detail=by-hand");
    let (tag, modified) = (whole.header("etag").unwrap(), whole.header("last-modified").unwrap());
    assert!(tag.starts_with('"') && whole.header("date").is_some(), "{:?}", whole.head);
    let head = raw(&weir, "HEAD", "/new.css", "");
    assert_eq!((head.status(), head.header("content-length").as_deref()), (200, Some("10")));
    let ask = |lines: &str| raw(&weir, "GET", "/new.css", lines);
    let unchanged = ask(&format!("If-None-Match: {tag}\r\n"));
    assert_eq!(
        (unchanged.status(), unchanged.header("etag"), unchanged.body.len()),
        (304, Some(tag.clone()), 0)
    );
    assert_eq!(ask(&format!("If-Modified-Since: {modified}\r\n")).status(), 304);
    assert_eq!(ask("If-None-Match: \"other\"\r\n").status(), 200);
    assert_eq!(ask("If-Match: \"other\"\r\n").status(), 412);
    let part = ask("Range: bytes=2-4\r\n");
    assert_eq!((part.status(), part.text().as_str()), (206, "234"));
    assert_eq!(part.header("content-range").as_deref(), Some("bytes 2-4/10"));
    assert_eq!(ask(&format!("Range: bytes=-3\r\nIf-Range: {tag}\r\n")).text(), "789");
    assert_eq!(ask("Range: bytes=-3\r\nIf-Range: \"other\"\r\n").text(), "0123456789");
    lay(&weir, "localhost/large.css", pattern(1, 300_000));
    let several = raw(&weir, "GET", "/large.css", "Range: bytes=0-4,200000-200009\r\n");
    let parts = byteranges(&several, &pattern(1, 300_000), Some("text/css; charset=utf-8"));
    assert_eq!(parts, [(0, 4), (200_000, 200_009)]);
    let none = ask("Range: bytes=10-\r\n");
    assert_eq!((none.status(), none.header("content-range").as_deref()), (416, Some("bytes */10")));
    // Other methods go on as usual.
    assert_eq!(raw(&weir, "POST", "/new.css", "Content-Length: 0\r\n").status(), 404);
    assert_eq!(origin.count("/new.css"), 2, "once before, once by POST");
    assert!(weir.metric("weir_requests_total{outcome=\"local\"}").is_some_and(|count| count >= 10.0));
    reset(&weir, "localhost/new.css");
    assert_eq!(weir.get("/new.css").status(), 404);
}

#[test]
fn content_over_a_url_of_the_origin_is_shown_until_it_is_reset() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    assert_eq!(weir.get("/cached").text(), "of the origin");
    until("it is cached", || weir.get("/cached").is_hit());
    lay(&weir, "http://localhost/cached", "by hand");
    assert_eq!(weir.get("/cached").text(), "by hand");
    // The query is a part of the URL.
    assert_eq!(weir.get("/cached?x=1").text(), "of the origin");
    let explained = weir.command(&["explain", "http://localhost/cached"]);
    assert!(
        explained.stdout.contains("by-hand") && explained.stdout.contains("content by hand"),
        "{explained:?}"
    );
    // No purge touches it, and each says so.
    for args in
        [&["purge", "--all"][..], &["purge", "localhost/cached"], &["purge", "--prefix", "localhost/ca"]]
    {
        let purged = weir.command(args);
        assert!(purged.stdout.contains("not touched: 1 piece laid by hand"), "{args:?}: {purged:?}");
    }
    let untouched = weir.command(&["purge", "localhost/other"]);
    assert!(!untouched.stdout.contains("by hand"), "{untouched:?}");
    assert_eq!(weir.get("/cached").text(), "by hand");
    let before = origin.count("/cached");
    reset(&weir, "localhost/cached");
    assert_eq!(weir.get("/cached").text(), "of the origin");
    assert_eq!(origin.count("/cached"), before + 1, "it was purged meanwhile");
    until("it is cached again", || weir.get("/cached").is_hit());
    lay(&weir, "localhost/cached", "again by hand");
    reset(&weir, "localhost/cached");
    assert!(weir.get("/cached").is_hit(), "the cache shows what it has");
    let again = weir.command(&["content", "reset", "localhost/cached"]);
    assert!(again.code == Some(1) && again.stderr.contains("nothing is laid over"), "{again:?}");
}

#[test]
fn a_route_that_reads_no_query_shows_it_with_any_and_a_reload_changes_that() {
    let origin = origin();
    let config = server(&[&origin]).site("key = { query = { drop = [\"utm_*\"] } }");
    let weir = config.start();
    lay(&weir, "localhost/page.html", "by hand");
    assert_eq!(weir.get("/page.html?utm_source=x").text(), "by hand");
    assert_eq!(weir.get("/page.html?id=1").status(), 404);
    weir.rewrite_config(&server(&[&origin]).text());
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(weir.get("/page.html").text(), "by hand");
    assert_eq!(weir.get("/page.html?utm_source=x").status(), 404);
}

#[test]
fn large_content_is_sent_whole_over_every_protocol() {
    let origin = origin();
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("own", &authority, &["localhost"]);
    let text = server(&[&origin]).text();
    let h2 =
        text.replace("address = \"{listen}\"", "address = \"{listen}\"\nprotocols = [\"h2\", \"http/1.1\"]");
    let weir = setup.run_config(&format!(
        "{h2}\n[[listen]]\naddress = \"{{tls}}\"\ntls = true\nprotocols = [\"http/1.1\"]\n\
         [[certificate]]\nchain = \"own.pem\"\nkey = \"own.key\"\n"
    ));
    let lengths = [0, 1, 100_000, 200_000, 6 << 20];
    for length in lengths {
        lay(&weir, &format!("localhost/{length}"), pattern(3, length));
    }
    let mut client = weir.client();
    let mut h2 = H2Client::connect(weir.addr());
    for _ in 0..3 {
        for length in lengths {
            let (path, expect) = (format!("/{length}"), pattern(3, length));
            let mut over_tls =
                Client::over(TlsClient::trusting(&authority).connect(weir.tls(), "localhost").unwrap());
            let answers = [
                client.get("localhost", &path, &[]),
                h2.get("localhost", &path, &[]),
                over_tls.get("localhost", &path, &[]),
            ];
            for answer in answers {
                assert_eq!((answer.status(), answer.body == expect), (200, true), "{length}");
            }
        }
    }
}

#[test]
fn what_has_a_time_ends_by_itself_and_clients_keep_it_no_longer() {
    let origin = origin();
    let weir = server(&[&origin]).site("browser_ttl = \"1h\"").start();
    assert_eq!(put(&weir, "localhost/soon", "a moment", &["--ttl", "3s"]).code, Some(0));
    assert_eq!(
        put(&weir, "localhost/later", "an hour", &["--ttl", "1h", "--type", "text/x-own"]).code,
        Some(0)
    );
    let later = weir.get("/later");
    let lifetime: u64 =
        later.header("cache-control").unwrap().strip_prefix("max-age=").unwrap().parse().unwrap();
    assert!((3000..=3600).contains(&lifetime), "{lifetime}");
    assert_eq!(later.header("content-type").as_deref(), Some("text/x-own"));
    until("it has ended", || weir.get("/soon").status() == 404);
    until("its file is gone", || list(&weir, &[])["content"].as_array().unwrap().len() == 1);
    let files = || std::fs::read_dir(weir.state().join("content")).unwrap().count();
    until("the folder has one file", || files() == 1);
    assert_eq!(weir.get("/later").text(), "an hour");
    for ttl in ["0s", "1500ms", "x"] {
        assert_ne!(put(&weir, "localhost/x", "", &["--ttl", ttl]).code, Some(0), "{ttl}");
    }
}

#[test]
fn a_slow_reader_of_what_is_replaced_gets_the_old_bytes() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    let old = pattern(1, 24 << 20);
    lay(&weir, "localhost/x", &old);
    let mut slow = weir.client().patience(Duration::from_secs(60));
    slow.send_get("localhost", "/x", &[]);
    let head = slow.recv_head_only().unwrap();
    lay(&weir, "localhost/x", "new");
    assert_eq!(weir.get("/x").text(), "new");
    reset(&weir, "localhost/x");
    assert_eq!(weir.get("/x").status(), 404);
    assert_eq!(head.header("content-length"), Some(old.len().to_string()));
    let mut read = Vec::new();
    while read.len() < old.len() {
        let some = slow.read_some();
        assert!(!some.is_empty(), "it broke off after {}", read.len());
        read.extend_from_slice(&some);
    }
    assert!(read == old);
}

#[test]
fn a_damaged_file_is_as_if_it_was_not_laid() {
    let origin = origin();
    let mut weir = server(&[&origin]).start();
    lay(&weir, "localhost/cached", pattern(5, 50_000));
    lay(&weir, "localhost/sound", "sound");
    let file = list(&weir, &["--prefix", "localhost/cached"])["content"][0]["etag"].clone();
    assert!(file.is_string());
    let folder = weir.state().join("content");
    let path = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| std::fs::metadata(path).unwrap().len() > 50_000)
        .unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20_000] ^= 1;
    weir.signal("TERM");
    weir.wait(Duration::from_secs(30)).unwrap();
    std::fs::write(&path, bytes).unwrap();
    weir.start_again();
    assert_eq!(weir.get("/cached").text(), "of the origin");
    assert_eq!(weir.get("/sound").text(), "sound");
    weir.await_stderr("its bytes are not those that were laid");
    let listed = weir.command(&["content", "list"]);
    assert!(listed.stdout.contains("damaged: lay it again"), "{listed:?}");
    lay(&weir, "localhost/cached", "mended");
    assert_eq!(weir.get("/cached").text(), "mended");
    // A file that somebody has removed while Weir runs.
    let folder = weir.state().join("content");
    lay(&weir, "localhost/gone", "for now");
    let newest = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).max().unwrap();
    std::fs::remove_file(newest).unwrap();
    until("its file is missed", || weir.get("/gone").text() != "for now");
    weir.await_stderr("its file is not there any more");
    let listed = weir.command(&["content", "list", "--prefix", "localhost/gone"]);
    assert_eq!(weir.metric("weir_content_objects"), Some(3.0));
    assert_eq!(weir.metric("weir_content_size_bytes"), Some(f64::from(1 << 30)));
    assert!(weir.metric("weir_content_used_bytes") > weir.metric("weir_content_bytes"));
    assert!(listed.stdout.contains("damaged: lay it again"), "{listed:?}");
    lay(&weir, "localhost/gone", "back");
    assert_eq!(weir.get("/gone").text(), "back");
}

/// Bytes that change while Weir runs are met whenever they are read, not only after a start.
#[test]
fn no_byte_leaves_that_was_not_laid() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    let old = pattern(6, 300_000);
    lay(&weir, "localhost/cached", &old);
    assert!(weir.get("/cached").body == old);
    let path = std::fs::read_dir(weir.state().join("content")).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[old[200_000] ^ 1], 200_000).unwrap();
    until("the change is met", || {
        let mut client = weir.client();
        client.send("GET /cached HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut read = Vec::new();
        loop {
            match client.read_some() {
                some if some.is_empty() => break,
                some => read.extend_from_slice(&some),
            }
        }
        let body = read.windows(4).position(|end| end == b"\r\n\r\n").map_or(read.len(), |end| end + 4);
        let is_of_origin = read.ends_with(b"of the origin");
        assert!(is_of_origin || old.starts_with(&read[body..]), "{} bytes", read.len());
        is_of_origin || read.len() - body <= 3 * (64 << 10)
    });
    assert_eq!(weir.get("/cached").text(), "of the origin", "it is as if it was not laid");
    weir.await_stderr("its bytes are not those that were laid");
    lay(&weir, "localhost/cached", &old);
    assert!(weir.get("/cached").body == old);
}

/// Of two URLs with one key the newer is shown, and the list says which it is.
#[test]
fn the_list_says_what_covers_a_piece() {
    let origin = origin();
    let route =
        "[[site]]\nhosts = [\"k.test\"]\nupstream = \"main\"\nkey = { query = { drop = [\"utm_*\"] } }\n";
    let weir = server(&[&origin]).more(route).start();
    lay(&weir, "k.test/x?utm_a=1", "older");
    lay(&weir, "k.test/x?utm_a=2", "newer");
    let listed = weir.command(&["content", "list"]).stdout;
    assert!(listed.contains("k.test/x?utm_a=1  not shown: k.test/x?utm_a=2 covers it"), "{listed}");
    let all = list(&weir, &[]);
    assert_eq!((&all["content"][0]["shown"], &all["content"][1]["shown"]), (&false.into(), &true.into()));
    assert_eq!(all["content"][0]["covered_by"], "k.test/x?utm_a=2");
    // What could not be reset hinders nothing.
    let reset = weir.command(&["content", "reset", "k.test/none", "k.test/x?utm_a=2"]);
    assert_eq!((reset.code, reset.stdout.as_str()), (Some(1), "reset: k.test/x?utm_a=2\n"), "{reset:?}");
    assert!(reset.stderr.contains("nothing is laid over k.test/none"), "{reset:?}");
    assert!(!weir.command(&["content", "list"]).stdout.contains("not shown"));
    // By its first host, or as a word of its own.
    let (one, other) = (weir.command(&["sites", "k.test"]), weir.command(&["sites", "--site", "k.test"]));
    assert!(one.code == Some(0) && one.stdout.contains("by hand"), "{one:?}");
    assert_eq!(one.stdout, other.stdout);
}

/// A folder is refused with what to do; a pipe is read to its end.
#[test]
fn content_comes_from_files_and_pipes() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    let folder = weir.folder().to_str().unwrap().to_owned();
    let refused = weir.command(&["content", "put", "localhost/x", &folder]);
    assert!(refused.code == Some(1) && refused.stderr.contains("is a folder: name a file"), "{refused:?}");
    let pipe = weir.folder().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let bytes = pattern(9, 300_000);
    let (path, sent) = (pipe.clone(), bytes.clone());
    let writer = std::thread::spawn(move || std::fs::write(path, sent).unwrap());
    let laid = weir.command(&["content", "put", "localhost/x", pipe.to_str().unwrap()]);
    assert_eq!(laid.code, Some(0), "{laid:?}");
    writer.join().unwrap();
    assert!(weir.get("/x").body == bytes);
}
