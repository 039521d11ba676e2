//! What is not below a root, and what answers for it; what is there and is refused, and goes nowhere.

use std::os::unix::fs::symlink;

use weir_testkit::{Origin, Resource, Weir};

use super::kit::{Root, raw, write, www};
use crate::server::{server, setup};

/// Paths that are refused, whatever is there.
const REFUSED: &[&str] = &[
    "/.htaccess",
    "/.env",
    "/%2ehtaccess",
    "/docs/.git/config",
    "/docs%2fREADME",
    "/docs%2FREADME",
    "/docs/%2e%2e/index.html",
    "/docs/..;/index.html",
    "/docs%5cREADME",
    "/a%00.html",
    "/%zz",
    "/out",
    "/out-folder/secret",
    "/absolute",
    "/docs/out-index/",
    "/fifo",
];

fn fill(www: &std::path::Path) {
    write(www, "index.html", "the application");
    write(www, "a.txt", "a");
    write(www, "docs/README", "text");
    write(www, "docs/out-index/x", "x");
    write(www, ".htaccess", "secret");
    write(www.parent().unwrap(), "secret", "secret");
    symlink("../secret", www.join("out")).unwrap();
    symlink("..", www.join("out-folder")).unwrap();
    symlink("/etc/passwd", www.join("absolute")).unwrap();
    symlink("../../../secret", www.join("docs/out-index/index.html")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(www.join("fifo")).status().unwrap().success());
}

fn with_origin(site: &str) -> (Weir, Origin) {
    let origin = Origin::start();
    for path in ["/app", "/.htaccess", "/out", "/absolute", "/docs%2fREADME", "/.well-known/none"] {
        origin.put(path, Resource::fresh("from the app"));
    }
    let setup = setup();
    fill(&setup.folder().join("www"));
    let site = format!("root = \"www\"\nfallback = \"upstream\"\n{site}");
    (server(&[&origin]).site(&site).start_in(setup), origin)
}

#[test]
fn what_is_refused_never_reaches_the_upstream() {
    let (weir, origin) = with_origin("");
    for path in REFUSED {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = raw(&weir, method, path, "Content-Length: 0\r\n");
            assert_eq!(answer.status(), 404, "{method} {path}");
            assert!(answer.cache_status().contains("no-file"), "{method} {path}: {}", answer.cache_status());
        }
    }
    let deep = format!("/.env/{}", "a".repeat(6_000));
    assert_eq!(raw(&weir, "GET", &deep, "").status(), 404);
    let explained = weir.command(&["explain", "http://www.example.com/.htaccess"]).stdout;
    assert!(explained.contains("no-file"), "{explained}");
    assert_eq!(origin.total(), 0, "{:?}", origin.seen());
    // What is only not there is passed on.
    for (path, status) in [("/app", 200), ("/a.txt/x", 404), ("/docs/", 404), ("/.well-known/none", 200)] {
        assert_eq!(raw(&weir, "GET", path, "").status(), status, "{path}");
        assert_eq!(origin.count(path), 1, "{path}");
    }
    raw(&weir, "POST", "/a.txt", "Content-Length: 0\r\n");
    assert_eq!(origin.count("/a.txt"), 1);
}

#[test]
fn a_link_that_is_not_followed_never_reaches_the_upstream() {
    let (weir, origin) = with_origin("files = { symlinks = \"refuse\" }");
    symlink("a.txt", www(&weir).join("inside")).unwrap();
    symlink("docs", www(&weir).join("folder")).unwrap();
    for path in ["/inside", "/folder/README", "/folder/none", "/out"] {
        assert_eq!(raw(&weir, "GET", path, "").status(), 404, "{path}");
        assert_eq!(raw(&weir, "POST", path, "Content-Length: 0\r\n").status(), 404, "{path}");
        assert_eq!(origin.count(path), 0, "{path}");
    }
}

#[test]
fn one_file_may_answer_for_all_that_is_not_there() {
    let root = Root::new();
    fill(&root.path);
    let weir = root.start("fallback = \"/index.html\"");
    assert_eq!(weir.get("/a.txt").text(), "a");
    for path in ["/users/7", "/docs/", "/a.txt/x", "/"] {
        let answer = weir.get(path);
        assert_eq!((answer.status(), answer.text().as_str()), (200, "the application"), "{path}");
    }
    for path in REFUSED {
        let answer = raw(&weir, "GET", path, "");
        assert_eq!((answer.status(), answer.text().contains("application")), (404, false), "{path}");
    }
}

#[test]
fn a_page_that_stands_in_is_asked_for_each_time() {
    let site = "fallback = \"/index.html\"\nbrowser_ttl = \"365d\"\n";
    let root = Root::new();
    fill(&root.path);
    let weir = root.start(site);
    // The file is held in memory, and its head is kept as it was printed.
    for _ in 0..3 {
        for (path, expect) in [("/index.html", "max-age=31536000"), ("/assets/gone.js", "no-cache")] {
            let answer = weir.get(path);
            assert_eq!(answer.text(), "the application");
            assert_eq!(answer.header("cache-control").as_deref(), Some(expect), "{path}");
            let tag = format!("If-None-Match: {}\r\n", answer.header("etag").unwrap());
            let unchanged = raw(&weir, "GET", path, &tag);
            assert_eq!(unchanged.header("cache-control").as_deref(), Some(expect), "{path}");
            assert_eq!(raw(&weir, "HEAD", path, "").header("cache-control").as_deref(), Some(expect));
        }
    }
}
