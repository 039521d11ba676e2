//! Judges responses of every kind with `httplint` (`tests/lint`). Its warnings must be those of
//! `accepted.txt`, where each line has its reason.
//!
//! The linter is installed into a virtual environment below the target folder. If that cannot be made, the
//! scenario prints `skipped` and ends.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_testkit::{Fault, Origin, Resource, Shape, Weir};

use crate::server::{server, setup};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lint")
}

/// The Python that has the linter and its libraries; `None` if they cannot be installed.
pub(crate) fn python() -> Option<PathBuf> {
    let requirements = folder().join("requirements.txt");
    let pinned = std::fs::read_to_string(&requirements).unwrap();
    let version = pinned.lines().find_map(|line| line.strip_prefix("httplint==")).unwrap();
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("httplint-{version}"));
    let python = venv.join("bin/python");
    let runs = |command: &mut Command| {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let imports = || runs(Command::new(&python).args(["-c", "import httplint"]));
    let installs = || {
        runs(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))
            && runs(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements))
    };
    (imports() || (installs() && imports())).then_some(python)
}

/// A kind of response: its name, and the request that causes it.
struct Page {
    name: &'static str,
    method: &'static str,
    target: &'static str,
    fields: String,
    status: u16,
}

fn page(name: &'static str, method: &'static str, target: &'static str, fields: &str) -> Page {
    Page { name, method, target, fields: format!("Host: localhost\r\n{fields}"), status: 200 }
}

impl Page {
    fn gives(self, status: u16) -> Page {
        Page { status, ..self }
    }
}

/// The pages in the order in which they are fetched: a miss comes before its hit.
fn pages() -> Vec<Page> {
    let get = |name, target, fields: &str| page(name, "GET", target, fields);
    let misdirected = get("misdirected", "/x", "");
    vec![
        get("miss", "/x", ""),
        get("hit", "/x", ""),
        page("head of a hit", "HEAD", "/x", ""),
        get("not modified", "/x", "If-None-Match: \"1\"\r\n").gives(304),
        get("part", "/x", "Range: bytes=0-3\r\n").gives(206),
        get("no such part", "/x", "Range: bytes=9000-\r\n").gives(416),
        get("precondition failed", "/x", "If-Match: \"2\"\r\n").gives(412),
        get("miss in chunks", "/chunked", ""),
        get("hit of chunks", "/chunked", ""),
        get("variant missed", "/vary", "Accept-Encoding: gzip\r\n"),
        get("variant hit", "/vary", "Accept-Encoding: gzip\r\n"),
        get("stale", "/stale", ""),
        get("stale on error", "/broken", ""),
        get("revalidated", "/revalidated", ""),
        get("browser ttl", "/browser", ""),
        get("pass", "/pass", ""),
        page("head of a pass", "HEAD", "/pass", ""),
        page("post", "POST", "/post", "Content-Length: 0\r\n"),
        page("options of an origin", "OPTIONS", "/x", ""),
        page("options of weir", "OPTIONS", "/x", "Max-Forwards: 0\r\n").gives(204),
        get("not found at the origin", "/missing", "").gives(404),
        get("moved at the origin", "/moved", "").gives(301),
        get("gone at the origin", "/empty", "").gives(204),
        get("redirect", "/redirect/here", "").gives(301),
        get("redirect with 308", "/redirect308", "").gives(308),
        get("static", "/static", ""),
        page("head of static", "HEAD", "/static", ""),
        get("static 404", "/static404", "").gives(404),
        get("maintenance", "/maintenance", "").gives(503),
        get("health", "/health", ""),
        get("bad gateway", "/hangs-up", "").gives(502),
        page("head of a bad gateway", "HEAD", "/hangs-up", "").gives(502),
        get("error page", "/paged/hangs-up", "").gives(502),
        get("gateway timeout", "/silent", "").gives(504),
        get("only if cached", "/nowhere", "Cache-Control: only-if-cached\r\n").gives(504),
        get("loop", "/x", "Via: 1.1 {own}\r\n").gives(508),
        Page { fields: "Host: nobody.example\r\n".to_owned(), ..misdirected }.gives(421),
        get("malformed", "/x", "X y: z\r\n").gives(400),
        get("head too large", "/x", &format!("X-A: {}\r\n", "x".repeat(40_000))).gives(431),
        page("body too large", "POST", "/post", "Content-Length: 9000000\r\n").gives(413),
        page("unknown coding", "POST", "/post", "Transfer-Encoding: odd, chunked\r\n").gives(501),
    ]
}

const ROUTES: &str = r#"
[[site.route]]
prefix = "/redirect/"
redirect = "https://www.example.com{path}"

[[site.route]]
path = "/redirect308"
redirect = { to = "/x", status = 308 }

[[site.route]]
path = "/static"
answer = { body = "at rest\n", headers = { Cache-Control = "max-age=60" } }

[[site.route]]
path = "/static404"
answer = { status = 404, body = "none\n" }

[[site.route]]
path = "/maintenance"
maintenance = { on = true }

[[site.route]]
path = "/browser"
browser_ttl = "60s"

[[site.route]]
prefix = "/paged/"
error_pages = { "*" = "<!doctype html><title>Sorry</title><p>Sorry.</p>" }
"#;

/// An origin whose own responses give the linter nothing to report.
fn origin() -> Origin {
    let origin = Origin::start();
    let text = |resource: Resource| resource.header("Content-Type", "text/plain; charset=utf-8");
    let tagged =
        |control: &str| text(Resource::new("hello, world\n")).header("Cache-Control", control).etag("\"1\"");
    origin.put("/x", tagged("max-age=600"));
    origin.put("/chunked", tagged("max-age=600").shape(Shape::Chunked(5)));
    origin.put("/vary", tagged("max-age=600").header("Vary", "Accept-Encoding"));
    origin.put("/stale", tagged("max-age=1, stale-while-revalidate=600"));
    origin.put("/broken", tagged("max-age=1, stale-if-error=600"));
    origin.put("/revalidated", tagged("max-age=1"));
    origin.put("/browser", tagged("max-age=600"));
    origin.put("/pass", tagged("no-store"));
    origin.put("/post", text(Resource::new("done\n")).header("Cache-Control", "no-store"));
    origin.put("/missing", text(Resource::new("none\n").status(404)).header("Cache-Control", "max-age=60"));
    let moved = text(Resource::new("there\n").status(301)).header("Cache-Control", "max-age=60");
    origin.put("/moved", moved.header("Location", "/x"));
    origin.put("/empty", Resource::new("").status(204).header("Cache-Control", "max-age=60"));
    origin.put("/silent", Resource::new("x").fault(Fault::Stall(0)).head_delay(Duration::from_secs(3)));
    for path in ["/hangs-up", "/paged/hangs-up"] {
        origin.raw(path, "");
    }
    origin
}

/// The response as it comes off the wire.
fn fetch(weir: &Weir, page: &Page, own: &str) -> Vec<u8> {
    let mut client = weir.client();
    let (method, target) = (page.method, page.target);
    let fields = page.fields.replace("{own}", own);
    client.send(format!("{method} {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n"));
    client.read_to_end()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Runs a program with `input` and returns what it prints. Its complaints go to the standard error.
pub(crate) fn feed(command: &mut Command, input: &str) -> String {
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Prints, past the test harness, that a scenario is skipped.
pub(crate) fn skipped() {
    let _ = std::io::stderr().write_all(b"skipped\n");
}

/// The linter's findings: page, level, note, subject and summary.
fn lint(python: &Path, pages: &[(Page, Vec<u8>, f64)]) -> Vec<Vec<String>> {
    let mut input = String::new();
    for (page, wire, at) in pages {
        let (fields, wire) = (hex(page.fields.as_bytes()), hex(wire));
        let _ = writeln!(input, "{}\t{}\t{}\t{fields}\t{wire}\t{at}", page.name, page.method, page.target);
    }
    let mut command = Command::new(python);
    command.arg(folder().join("lint.py"));
    let text = feed(&mut command, &input);
    assert!(text.ends_with("linted\n"), "the linter broke off");
    let lines = text.lines().filter(|line| *line != "linted");
    lines.map(|line| line.split('\t').map(ToOwned::to_owned).collect()).collect()
}

/// The accepted findings, as `page: note`.
fn accepted() -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder().join("accepted.txt")).unwrap();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn responses_lint_clean() {
    let Some(python) = python() else { return skipped() };
    let origin = origin();
    let config = server(&[&origin])
        .upstream("first_byte = \"1s\"\neject = { failures = 0 }")
        .site(ROUTES)
        .more("[health]\npath = \"/health\"\n[limits]\nbody = \"1MiB\"");
    let weir = setup().run_config(&config.text().replace("hosts = [\"*\"]", "hosts = [\"localhost\"]"));
    for path in ["/stale", "/broken", "/revalidated"] {
        weir.get(path);
    }
    let via = weir.get("/stale").header("via").unwrap_or_default();
    let own = via.split(' ').next_back().unwrap_or_default().to_owned();
    std::thread::sleep(Duration::from_millis(2100));
    origin.put("/broken", Resource::new("no").status(503));
    let fetched: Vec<(Page, Vec<u8>, f64)> = pages()
        .into_iter()
        .map(|page| {
            let wire = fetch(&weir, &page, &own);
            let begin = format!("HTTP/1.1 {} ", page.status);
            assert!(wire.starts_with(begin.as_bytes()), "{}: {}", page.name, wire.escape_ascii());
            // Judged at the time of its arrival, however long the others take.
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
            (page, wire, at)
        })
        .collect();
    let findings = lint(&python, &fetched);
    let accepted = accepted();
    let found: BTreeSet<String> = findings.iter().map(|line| format!("{}: {}", line[0], line[2])).collect();
    let new: Vec<String> = findings
        .iter()
        .filter(|line| !accepted.contains(&format!("{}: {}", line[0], line[2])))
        .map(|line| line.join(" | "))
        .collect();
    assert!(new.is_empty(), "{} findings:\n{}", new.len(), new.join("\n"));
    let gone: Vec<&String> = accepted.difference(&found).collect();
    assert!(gone.is_empty(), "no longer found: strike from accepted.txt: {gone:?}");
}
