//! `examples/apt.toml` before an origin that answers as a Debian archive does, and before a flat archive:
//! with requests as apt 2.6 sends them, and with apt itself.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use weir_testkit::{Origin, Resource, Response, Weir, pattern};

use super::site::{ask, outdate, said, site};
use crate::answer::lint::skipped;

const HOST: &str = "apt.example.com";
const DEB: &str = "/debian/pool/main/a/app/app_1.0-1_amd64.deb";
const RELEASE: &str = "/debian/dists/bookworm/InRelease";
const PACKAGES: &str = "/debian/dists/bookworm/main/binary-amd64/Packages.xz";
const BY_HASH: &str = "/debian/dists/bookworm/main/binary-amd64/by-hash/SHA256/00ff";
const DAY: Duration = Duration::from_secs(86_400);
/// What apt sends with each request; with indexes it adds `max-age=0`.
const APT: (&str, &str) = ("User-Agent", "Debian APT-HTTP/1.3 (2.6.1)");
const INDEX: (&str, &str) = ("Cache-Control", "max-age=0");

/// A file of the archive, as its mirrors send it.
fn file(body: impl AsRef<[u8]>, tag: &str) -> Resource {
    let file = Resource::new(body).header("Cache-Control", "public, max-age=120").etag(tag);
    file.modified_ago(DAY).ranges()
}

fn archive() -> Origin {
    let origin = Origin::start();
    for path in [RELEASE, PACKAGES, BY_HASH] {
        origin.put(path, file(format!("1 {path}"), "\"1\""));
    }
    origin.put(DEB, file(pattern(6, 3_000_000), "\"2dc6c0-5f\""));
    origin
}

fn start(archive: &Origin, own: &Origin) -> Weir {
    site("apt.toml", &[("http://deb.debian.org", archive), ("http://127.0.0.1:8000", own)])
}

fn get(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> Response {
    ask(weir, HOST, &format!("GET {target}"), &[&[APT], fields].concat(), b"")
}

#[test]
fn an_index_is_asked_for_again_by_each_request_and_never_mixed_with_an_older_one() {
    let (origin, own) = (archive(), Origin::start());
    let weir = start(&origin, &own);
    for fields in [&[INDEX][..], &[], &[INDEX]] {
        for path in [RELEASE, PACKAGES] {
            assert_eq!(get(&weir, path, fields).text(), format!("1 {path}"));
        }
    }
    for path in [RELEASE, PACKAGES] {
        assert_eq!(origin.count(path), 3, "though the archive names two minutes");
        assert_eq!(said(&origin, path, "if-none-match").as_deref(), Some("\"1\""), "so that it costs a 304");
        assert_eq!(said(&origin, path, "host"), Some(origin.addr().to_string()), "its own name");
        origin.put(path, file(format!("2 {path}"), "\"2\""));
    }
    for path in [RELEASE, PACKAGES] {
        assert_eq!(get(&weir, path, &[]).text(), format!("2 {path}"));
    }
}

#[test]
fn apt_asks_whether_its_own_copy_is_current() {
    let (origin, own) = (archive(), Origin::start());
    let weir = start(&origin, &own);
    let date = get(&weir, RELEASE, &[INDEX]).header("last-modified").unwrap();
    let same = get(&weir, RELEASE, &[INDEX, ("If-Modified-Since", &date)]);
    assert_eq!((same.status(), same.body.len()), (304, 0), "{:?}", same.head);
    origin.put(RELEASE, Resource::new("new").etag("\"9\"").modified_ago(DAY / 2));
    let new = get(&weir, RELEASE, &[INDEX, ("If-Modified-Since", &date)]);
    assert_eq!((new.status(), new.text().as_str()), (200, "new"));
}

#[test]
fn packages_and_indexes_by_their_sum_are_fetched_once() {
    let (origin, own) = (archive(), Origin::start());
    let weir = start(&origin, &own);
    for path in [DEB, BY_HASH] {
        for is_hit in [false, true] {
            let fields: &[(&str, &str)] = if path == BY_HASH { &[INDEX] } else { &[] };
            let answer = get(&weir, path, fields);
            assert_eq!((answer.status(), answer.is_hit()), (200, is_hit), "{path}: {:?}", answer.head);
        }
        assert_eq!(origin.count(path), 1);
    }
    let coming = BY_HASH.replace("00ff", "00aa");
    for _ in 0..2 {
        assert_eq!(get(&weir, &coming, &[]).status(), 404);
    }
    origin.put(&coming, file("next", "\"3\""));
    assert_eq!(get(&weir, &coming, &[]).text(), "next", "a missing index may come at any time");
}

#[test]
fn a_download_that_was_cut_goes_on() {
    let (origin, own) = (archive(), Origin::start());
    let weir = start(&origin, &own);
    let date = said_date(&weir);
    for is_hit in [false, true] {
        let fields = [("Range", "bytes=2000000-"), ("If-Range", date.as_str())];
        let part = get(&weir, DEB, &fields);
        assert_eq!(part.status(), 206, "{:?}", part.head);
        assert!(part.body == pattern(6, 3_000_000)[2_000_000..]);
        assert_eq!(part.header("content-range").as_deref(), Some("bytes 2000000-2999999/3000000"));
        assert!(part.is_hit() || !is_hit, "{:?}", part.head);
    }
    // Another version has come meanwhile: all of it.
    let old = [("Range", "bytes=2000000-"), ("If-Range", "Mon, 02 Nov 2020 10:00:00 GMT")];
    let whole = get(&weir, DEB, &old);
    assert_eq!((whole.status(), whole.body.len()), (200, 3_000_000));
}

fn said_date(weir: &Weir) -> String {
    let head = ask(weir, HOST, &format!("HEAD {DEB}"), &[APT], b"");
    head.header("last-modified").unwrap()
}

#[test]
fn a_flat_archive_is_asked_for_its_own_paths() {
    let (origin, own) = (archive(), Origin::start());
    for path in ["/Packages", "/app_1.0_amd64.deb"] {
        own.put(path, file(path, "\"4\""));
    }
    let weir = start(&origin, &own);
    for _ in 0..2 {
        assert_eq!(get(&weir, "/own/./Packages", &[INDEX]).text(), "/Packages");
        assert_eq!(get(&weir, "/own/./app_1.0_amd64.deb", &[]).text(), "/app_1.0_amd64.deb");
    }
    assert_eq!((own.count("/Packages"), own.count("/app_1.0_amd64.deb"), origin.total()), (2, 1, 0));
    // The archive resolves the dots, so that its route is taken, and nothing is kept.
    let resolved = get(&weir, "/own/../debian/x", &[]);
    assert!(resolved.cache_status().contains("dot-segment"), "{:?}", resolved.head);
    assert_eq!((own.total(), origin.total()), (3, 1));
}

#[test]
fn while_the_archive_is_down_apt_gets_what_it_had() {
    let (origin, own) = (archive(), Origin::start());
    let weir = start(&origin, &own);
    for path in [RELEASE, PACKAGES, BY_HASH, DEB] {
        get(&weir, path, &[]);
    }
    outdate(&weir);
    drop(origin);
    for path in [RELEASE, PACKAGES, BY_HASH, DEB] {
        let answer = get(&weir, path, &[]);
        assert_eq!((answer.status(), answer.is_hit()), (200, true), "{path}: {:?}", answer.head);
    }
    assert_eq!(get(&weir, "/debian/dists/trixie/InRelease", &[]).status(), 502);
}

/// A package with nothing in it, and its flat archive. `None` where the tools are missing.
fn flat_archive(folder: &Path) -> Option<()> {
    let run = |program: &str, args: &[&str]| -> Option<Output> {
        let output = Command::new(program).args(args).current_dir(folder).output().ok()?;
        output.status.success().then_some(output)
    };
    std::fs::create_dir_all(folder.join("app/DEBIAN")).unwrap();
    let control = "Package: weir-sample\nVersion: 1.0\nArchitecture: all\nMaintainer: x <x@example.com>\n\
                   Description: nothing\n";
    std::fs::write(folder.join("app/DEBIAN/control"), control).unwrap();
    run("dpkg-deb", &["--build", "app", "weir-sample_1.0_all.deb"])?;
    let packages = run("dpkg-scanpackages", &["--multiversion", "."])?;
    std::fs::write(folder.join("Packages"), packages.stdout).unwrap();
    Some(())
}

/// The real apt-get, in a root of its own. Twice, as on two machines.
#[test]
fn apt_get_updates_and_downloads_from_a_flat_archive() {
    let (origin, own) = (archive(), Origin::start());
    let weir = start(&origin, &own);
    let folder = weir.folder().join("flat");
    std::fs::create_dir_all(&folder).unwrap();
    if flat_archive(&folder).is_none() || Command::new("apt-get").arg("--version").output().is_err() {
        return skipped();
    }
    let deb = "/weir-sample_1.0_all.deb";
    for path in ["/Packages", deb] {
        let bytes = std::fs::read(folder.join(&path[1..])).unwrap();
        own.put(path, Resource::new(bytes).etag("\"1\"").modified_ago(DAY).ranges());
    }
    for machine in ["one", "two"] {
        let root = weir.folder().join(machine);
        for part in ["etc/apt/apt.conf.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"] {
            std::fs::create_dir_all(root.join(part)).unwrap();
        }
        std::fs::create_dir_all(root.join("var/lib/dpkg")).unwrap();
        std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        let line = format!("deb [trusted=yes] http://localhost:{}/own ./\n", weir.addr().port());
        std::fs::write(root.join("etc/apt/sources.list"), line).unwrap();
        let apt = |args: &[&str]| {
            let own_root = format!("Dir={}", root.display());
            let status = format!("Dir::State::status={}/var/lib/dpkg/status", root.display());
            let common = [
                "-o",
                &own_root,
                "-o",
                &status,
                "-o",
                "APT::Sandbox::User=",
                "-o",
                "Acquire::http::Proxy=DIRECT",
            ];
            let output = Command::new("apt-get").args(common).args(args).current_dir(&root).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        apt(&["update"]);
        // Again, with what it has.
        apt(&["update"]);
        apt(&["download", "weir-sample"]);
        let got = std::fs::read(root.join("weir-sample_1.0_all.deb")).unwrap();
        assert!(got == std::fs::read(folder.join(&deb[1..])).unwrap());
    }
    assert_eq!(own.count(deb), 1, "{:?}", own.seen());
}
