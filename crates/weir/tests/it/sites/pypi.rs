//! `examples/pypi.toml` before an origin that answers as an index does (PEP 503, 658, 691): pages in three
//! forms, files, their metadata, redirects to the normal name.

use std::path::Path;
use std::process::Command;

use weir_testkit::{Exchange, Origin, Resource, Response, Weir, pattern};

use super::site::{ask, outdate, said, site};
use crate::answer::lint::skipped;

const HOST: &str = "pypi.example.com";
const WHEEL: &str = "/packages/ab/cd/app-1.0-py3-none-any.whl";
const WHEEL_BYTES: usize = 3_000_000;
const JSON: &str = "application/vnd.pypi.simple.v1+json";
const HTML: &str = "application/vnd.pypi.simple.v1+html";
/// What pip and uv send.
const PIP: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01";
const UV: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01";

fn index() -> Origin {
    let origin = Origin::start();
    origin.put("/simple/App/", Resource::new("").status(301).header("Location", "/simple/app/"));
    origin.put(WHEEL, Resource::new(pattern(5, WHEEL_BYTES)).etag("\"77c1\"").ranges());
    origin.put(&format!("{WHEEL}.metadata"), Resource::new("Metadata-Version: 2.1\nName: app\n"));
    origin.on("/simple/app/", |exchange| page(exchange, "max-age=600, public"));
    origin.on("/simple/bare/", |exchange| page(exchange, ""));
    origin
}

/// The page says which form was asked for, and whose it is.
fn page(exchange: &mut Exchange<'_>, control: &str) {
    let accept = exchange.request.header("accept").unwrap_or_default();
    let own = exchange.request.header("authorization").unwrap_or_default();
    let form = accept.split([',', ';']).next().unwrap_or_default().to_owned();
    let text = format!("{form} of {} {own}", exchange.request.target);
    let mut page = Resource::new(text).etag(&format!("\"{form}-{own}\"")).header("Content-Type", &form);
    if !control.is_empty() {
        page = page.header("Cache-Control", control).header("Vary", "Accept-Encoding, Accept");
    }
    page.header("X-PyPI-Last-Serial", "24").answer(exchange);
}

fn start(origin: &Origin) -> Weir {
    site("pypi.toml", &[("http://127.0.0.1:3141", origin)])
}

fn get(weir: &Weir, target: &str, fields: &[(&str, &str)]) -> Response {
    ask(weir, HOST, &format!("GET {target}"), fields, b"")
}

#[test]
fn each_form_of_a_page_is_asked_for_once() {
    let origin = index();
    let weir = start(&origin);
    // With what the index says of its pages, and without.
    for target in ["/simple/app/", "/simple/bare/"] {
        for (accept, form, is_hit) in [
            (PIP, JSON, false),
            (UV, JSON, true),
            ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/html", false),
            ("*/*", "text/html", true),
            (&format!("{HTML}, text/html;q=0.1"), HTML, false),
            (&PIP.replace("q=0.1", "q=0.3"), JSON, true),
        ] {
            let answer = get(&weir, target, &[("Accept", accept), ("Cache-Control", "max-age=0")]);
            assert_eq!(answer.header("content-type").as_deref(), Some(form), "{accept}");
            assert_eq!(answer.text(), format!("{form} of {target} "));
            assert_eq!(answer.is_hit(), is_hit, "{accept}: {:?}", answer.head);
            assert_eq!(answer.header("x-pypi-last-serial").as_deref(), Some("24"));
        }
        assert_eq!(origin.count(target), 3);
    }
    assert_eq!(said(&origin, "/simple/app/", "accept").as_deref(), Some(HTML));
    assert_eq!(said(&origin, "/simple/app/", "host").as_deref(), Some(HOST));
    let (first, same) = (get(&weir, "/simple/App/", &[]), get(&weir, "/simple/App/", &[]));
    assert_eq!((first.status(), same.is_hit()), (301, true), "{:?}", same.head);
    assert_eq!(same.header("location").as_deref(), Some("/simple/app/"));
}

#[test]
fn a_page_of_ten_minutes_is_confirmed_by_its_entity_tag() {
    let origin = index();
    let weir = start(&origin);
    let fields = [("Accept", PIP)];
    get(&weir, "/simple/app/", &fields);
    outdate(&weir);
    // It may go out once more while it is confirmed.
    get(&weir, "/simple/app/", &fields);
    origin.await_count("/simple/app/", 2);
    let asked = said(&origin, "/simple/app/", "if-none-match");
    assert_eq!(asked, Some(format!("\"{JSON}-\"")));
    assert_eq!(said(&origin, "/simple/app/", "accept").as_deref(), Some(JSON));
    let tag = format!("\"{JSON}-\"");
    let same = get(&weir, "/simple/app/", &[("Accept", PIP), ("If-None-Match", &tag)]);
    assert_eq!(same.status(), 304);
}

#[test]
fn files_and_their_metadata_come_from_the_cache_and_parts_of_them_too() {
    let origin = index();
    let weir = start(&origin);
    // pip reads the end of a wheel first.
    for is_hit in [false, true] {
        let part = get(&weir, WHEEL, &[("Range", "bytes=2990000-2999999")]);
        assert_eq!((part.status(), part.is_hit()), (206, is_hit), "{:?}", part.head);
        assert!(part.body == pattern(5, WHEEL_BYTES)[2_990_000..]);
    }
    for is_hit in [false, true] {
        let metadata = get(&weir, &format!("{WHEEL}.metadata"), &[("Cookie", "session=1")]);
        assert_eq!((metadata.status(), metadata.is_hit()), (200, is_hit));
    }
    assert!(get(&weir, WHEEL, &[]).body == pattern(5, WHEEL_BYTES));
    let whole = get(&weir, &format!("{WHEEL}?x=1"), &[]);
    assert!(whole.is_hit() && whole.body == pattern(5, WHEEL_BYTES), "{:?}", whole.head);
    origin.put("/packages/gone.whl", Resource::new("gone").status(404));
    for is_hit in [false, true] {
        let answer = get(&weir, "/packages/gone.whl", &[]);
        assert_eq!((answer.status(), answer.is_hit()), (404, is_hit), "for a minute");
    }
}

#[test]
fn packages_behind_a_password_are_stored_for_nobody() {
    let origin = index();
    let weir = start(&origin);
    for user in ["Basic YW5uYTph", "Basic YmVydDpi", "Basic YW5uYTph"] {
        let answer = get(&weir, "/simple/app/", &[("Accept", PIP), ("Authorization", user)]);
        assert_eq!(answer.text(), format!("{JSON} of /simple/app/ {user}"), "though the index says public");
        assert_eq!(answer.fwd().as_deref(), Some("bypass"));
    }
    assert_eq!(get(&weir, "/simple/app/", &[("Accept", PIP)]).text(), format!("{JSON} of /simple/app/ "));
    origin.on("/legacy/", |exchange| {
        let bytes = exchange.body().len();
        exchange.reply(200, &[], format!("{bytes}"));
    });
    let fields = [("Authorization", "Basic YW5uYTph")];
    let upload = ask(&weir, HOST, "POST /legacy/", &fields, &pattern(2, 2_000_000));
    assert_eq!(upload.text(), "2000000");
}

#[test]
fn while_the_index_is_down_pages_and_files_go_out() {
    let origin = index();
    let weir = start(&origin);
    for target in ["/simple/app/", WHEEL] {
        get(&weir, target, &[("Accept", PIP)]);
    }
    outdate(&weir);
    drop(origin);
    for target in ["/simple/app/", WHEEL] {
        let answer = get(&weir, target, &[("Accept", UV)]);
        assert_eq!((answer.status(), answer.is_hit()), (200, true), "{target}: {:?}", answer.head);
    }
    assert_eq!(get(&weir, "/simple/other/", &[("Accept", PIP)]).status(), 502);
}

/// A wheel with nothing but its metadata, made by Python itself.
const WHEEL_MAKER: &str = "
import hashlib, sys, zipfile
name = sys.argv[1] + '/weir_sample-1.0-py3-none-any.whl'
files = {
    'weir_sample.py': 'WORD = 7\\n',
    'weir_sample-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: weir-sample\\nVersion: 1.0\\n',
    'weir_sample-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',
    'weir_sample-1.0.dist-info/RECORD': '',
}
with zipfile.ZipFile(name, 'w') as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
print(hashlib.sha256(open(name, 'rb').read()).hexdigest())
";

/// The real pip, if there is one.
#[test]
fn pip_downloads_a_wheel_twice_and_the_index_sends_it_once() {
    let origin = Origin::start();
    let weir = start(&origin);
    let folder = weir.folder().to_owned();
    let python = |args: &[&str]| Command::new("python3").args(args).current_dir(&folder).output();
    let has_pip = python(&["-m", "pip", "--version"]).is_ok_and(|said| said.status.success());
    if !has_pip {
        return skipped();
    }
    let made = python(&["-c", WHEEL_MAKER, "."]).unwrap();
    assert!(made.status.success(), "{made:?}");
    let sum = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let name = "weir_sample-1.0-py3-none-any.whl";
    let path = format!("/packages/{name}");
    origin.put(&path, Resource::new(std::fs::read(folder.join(name)).unwrap()).etag("\"1\"").ranges());
    let page = format!("<!doctype html><a href=\"../../packages/{name}#sha256={sum}\">{name}</a>");
    let page = Resource::new(page).header("Content-Type", "text/html");
    origin.put("/simple/weir-sample/", page);
    let index = format!("http://localhost:{}/simple/", weir.addr().port());
    for target in ["one", "two"] {
        let pip = ["-m", "pip", "download", "--isolated", "--no-cache-dir", "--disable-pip-version-check"];
        let what = ["--no-deps", "--retries", "0", "--index-url", &index, "--dest", target, "weir-sample"];
        let said = python(&[&pip[..], &what[..]].concat()).unwrap();
        assert!(said.status.success(), "{said:?}");
        assert!(Path::new(&folder).join(target).join(name).exists());
    }
    assert_eq!((origin.count(&path), origin.count("/simple/weir-sample/")), (1, 1));
}
