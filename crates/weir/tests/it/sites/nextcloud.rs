//! `examples/nextcloud.toml` before an origin that answers as Nextcloud behind Apache does: its web pages,
//! WebDAV, the API, shares, previews, and the files that it brings.

use std::time::Duration;

use weir_testkit::{Exchange, Origin, Resource, Response, Weir, pattern};

use super::site::{ask, outdate, said, site};

const HOST: &str = "cloud.example.com";
const ANNA: &str = "oc4f2a=sessionanna; nc_username=anna; __Host-nc_sameSiteCookielax=true";
const BERT: &str = "oc4f2a=sessionbert; nc_username=bert; __Host-nc_sameSiteCookielax=true";

/// A file that comes with Nextcloud.
fn file(text: &str) -> Resource {
    Resource::new(text)
        .header("Cache-Control", "max-age=15778463, immutable")
        .etag("\"1a2b-60c\"")
        .modified_ago(Duration::from_secs(864_000))
}

fn nextcloud() -> Origin {
    let origin = Origin::start();
    for path in FILES {
        origin.put(path, file(path));
    }
    origin.otherwise(answer);
    origin
}

const FILES: [&str; 5] = [
    "/dist/core-main.js",
    "/core/img/logo/logo.svg",
    "/core/css/server.css",
    "/apps/files/js/main.js",
    "/apps/files_pdfviewer/js/pdfjs/web/viewer.mjs",
];

/// All that belongs to somebody says whose it is. The fields are those of Nextcloud, which are not always
/// enough to keep a cache from storing it.
fn answer(exchange: &mut Exchange<'_>) {
    let body = exchange.body().len();
    let request = exchange.request;
    let whose = request.header("authorization").or(request.header("cookie")).unwrap_or_default();
    let text = format!("{} {} [{whose}] {body}", request.method, request.target);
    let fields: &[(&str, &str)] = match request.path() {
        path if path.starts_with("/remote.php/dav/") || path.starts_with("/public.php/") => &[
            ("Content-Security-Policy", "default-src 'none';"),
            ("ETag", "\"5f3c\""),
            ("OC-ETag", "\"5f3c\""),
            ("OC-FileId", "00000042oc4f2a"),
            ("Last-Modified", "Mon, 02 Nov 2020 10:00:00 GMT"),
            ("Content-Disposition", "attachment; filename=\"a.txt\""),
        ],
        path if path.starts_with("/core/preview") || path.starts_with("/index.php/avatar/") => {
            &[("Cache-Control", "private, max-age=86400, must-revalidate"), ("ETag", "\"77\"")]
        }
        path if path.starts_with("/apps/theming/") || path.contains("publicpreview") => {
            &[("Cache-Control", "public, max-age=86400"), ("ETag", "\"78\"")]
        }
        path if path.starts_with("/ocs/") || path == "/status.php" => &[("Content-Type", "application/json")],
        _ => &[
            ("Cache-Control", "no-cache, no-store, must-revalidate"),
            ("Set-Cookie", "oc4f2a=new; path=/; secure; HttpOnly; SameSite=Lax"),
        ],
    };
    let status = if request.method == "PROPFIND" { 207 } else { 200 };
    exchange.reply(status, fields, text);
}

fn start(origin: &Origin) -> Weir {
    site("nextcloud.toml", &[("http://127.0.0.1:8000", origin)])
}

fn get(weir: &Weir, target: &str, cookie: &str) -> Response {
    ask(weir, HOST, &format!("GET {target}"), &[("Cookie", cookie)], b"")
}

#[test]
fn nothing_of_a_user_is_stored_and_each_gets_their_own() {
    let origin = nextcloud();
    let weir = start(&origin);
    let pages = [
        "/login",
        "/apps/files/",
        "/index.php/apps/files/",
        "/status.php",
        "/ocs/v2.php/cloud/user?format=json",
        "/remote.php/dav/files/anna/a.txt",
        "/remote.php/webdav/a.png",
        "/core/preview?fileId=42&x=64&y=64",
        "/core/preview.png?file=/a.png",
        "/index.php/avatar/anna/64",
        "/avatar/anna/64",
        "/s/Xy7wTOKEN",
        "/s/Xy7wTOKEN/download",
        "/index.php/s/Xy7wTOKEN/download?path=%2F&files=a.png",
        "/public.php/dav/files/Xy7wTOKEN/a.png",
        "/apps/files_sharing/publicpreview/Xy7wTOKEN?file=/a.png",
        "/apps/theming/theme/dark.css?plain=0&v=1",
        "/apps/theming/img/core/filetypes/folder.svg?v=1",
        "/apps/theming/background?v=3",
    ];
    for page in pages {
        for cookie in [ANNA, BERT, ANNA] {
            let answer = get(&weir, page, cookie);
            assert_eq!(answer.text(), format!("GET {page} [{cookie}] 0"));
            assert_eq!(answer.fwd().as_deref(), Some("bypass"), "{page}: {:?}", answer.head);
        }
        // A program that synchronises, with its own password and without a cookie.
        for password in ["Basic YW5uYTph", "Basic YmVydDpi"] {
            let answer = ask(&weir, HOST, &format!("GET {page}"), &[("Authorization", password)], b"");
            assert_eq!(answer.text(), format!("GET {page} [{password}] 0"));
        }
        assert_eq!(origin.count(page), 5, "{page}");
    }
}

#[test]
fn what_nextcloud_brings_is_stored_for_all_and_no_cookie_makes_it() {
    let origin = nextcloud();
    let weir = start(&origin);
    for path in FILES {
        let target = format!("{path}?v=9a8b-1");
        assert!(!get(&weir, &target, ANNA).is_hit());
        assert_eq!(said(&origin, &target, "cookie"), None);
        for cookie in [BERT, "", ANNA] {
            let answer = get(&weir, &target, cookie);
            assert_eq!((answer.text().as_str(), answer.is_hit()), (path, true), "{:?}", answer.head);
        }
        let fields = [("If-None-Match", "\"1a2b-60c\""), ("Cookie", BERT)];
        assert_eq!(ask(&weir, HOST, &format!("GET {target}"), &fields, b"").status(), 304);
        assert!(!get(&weir, &format!("{path}?v=9a8b-2"), "").is_hit(), "after an update");
        assert_eq!(origin.count(path), 2);
    }
    // A file that is missing is answered by PHP, which begins a session.
    for _ in 0..2 {
        assert!(!get(&weir, "/apps/gone/js/a.js", ANNA).is_hit());
    }
}

#[test]
fn webdav_arrives_as_it_was_sent() {
    let origin = nextcloud();
    let weir = start(&origin);
    let target = "/remote.php/dav/files/anna/D%C3%BCne/a%20b.txt";
    let fields = [
        ("Authorization", "Basic YW5uYTph"),
        ("Depth", "1"),
        ("Destination", "https://cloud.example.com/remote.php/dav/files/anna/c.txt"),
        ("Overwrite", "F"),
        ("If-Match", "\"5f3c\""),
        ("If", "(<opaquelocktoken:1>)"),
        ("OC-Total-Length", "5000000"),
        ("OC-Checksum", "SHA1:2fd4e1c6"),
        ("OC-Chunked", "1"),
        ("X-OC-Mtime", "1700000000"),
        ("OCS-APIRequest", "true"),
    ];
    let body = pattern(3, 5_000_000);
    for method in ["PUT", "PROPFIND", "REPORT", "MKCOL", "MOVE", "COPY", "LOCK", "SEARCH", "PROPPATCH"] {
        let body: &[u8] = if method == "PUT" { &body } else { b"<d:propfind/>" };
        let answer = ask(&weir, HOST, &format!("{method} {target}"), &fields, body);
        assert_eq!(answer.text(), format!("{method} {target} [Basic YW5uYTph] {}", body.len()));
        assert_eq!(answer.status(), if method == "PROPFIND" { 207 } else { 200 });
        assert_eq!(answer.header("oc-fileid").as_deref(), Some("00000042oc4f2a"));
        for (name, value) in fields {
            assert_eq!(said(&origin, target, name).as_deref(), Some(value), "{method}: {name}");
        }
    }
    let asked = [("If-None-Match", "\"5f3c\""), ("Range", "bytes=0-99"), ("Cookie", ANNA)];
    ask(&weir, HOST, &format!("GET {target}"), &asked, b"");
    for (name, value) in asked {
        assert_eq!(said(&origin, target, name).as_deref(), Some(value), "{name}");
    }
    for (name, value) in [("host", HOST), ("x-forwarded-host", HOST), ("x-forwarded-proto", "http")] {
        assert_eq!(said(&origin, target, name).as_deref(), Some(value));
    }
}

#[test]
fn calendars_and_contacts_are_found() {
    let weir = start(&nextcloud());
    for request in ["GET /.well-known/carddav", "PROPFIND /.well-known/caldav"] {
        let answer = ask(&weir, HOST, request, &[], b"");
        let location = answer.header("location");
        assert_eq!((answer.status(), location.as_deref()), (301, Some("/remote.php/dav/")), "{request}");
    }
}

#[test]
fn while_nextcloud_is_down_its_files_come_and_its_users_are_told() {
    let origin = nextcloud();
    let weir = start(&origin);
    get(&weir, "/dist/core-main.js?v=1", "");
    get(&weir, "/remote.php/dav/files/anna/a.txt", ANNA);
    outdate(&weir);
    drop(origin);
    let script = get(&weir, "/dist/core-main.js?v=1", BERT);
    assert_eq!((script.status(), script.is_hit()), (200, true), "{:?}", script.head);
    for page in ["/login", "/remote.php/dav/files/anna/a.txt"] {
        let answer = get(&weir, page, ANNA);
        assert_eq!(answer.status(), 502);
        assert!(answer.text().contains("Your files are safe"), "{}", answer.text());
    }
}
