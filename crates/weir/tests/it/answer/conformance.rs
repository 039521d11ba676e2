//! The public suite http-cache-tests against the real binary, as it is and through HTTP/2. Its failures are a
//! checked-in list, which may only shrink, except for cases in which the RFC asks for the opposite. Over
//! HTTP/2, which the suite does not speak, the test kit translates; nothing more may fail there.
//!
//! `tests/conformance/run.mjs` is the suite's origin and client; Weir stands between. `WEIR_BLESS=1` removes
//! from the lists what no longer fails. It never adds to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use weir_testkit::Weir;
use weir_testkit::h2::Translator;

use crate::server::setup;

/// One test's outcome.
#[derive(Clone, Debug)]
struct Row {
    id: String,
    kind: String,
    outcome: String,
    detail: String,
}

impl Row {
    /// Tests of the kind `check` ask how a cache behaves. None of their answers is a failure, and neither is
    /// a test that is moot after such an answer.
    fn fails(&self) -> bool {
        self.kind != "check" && !matches!(self.outcome.as_str(), "pass" | "moot")
    }
}

struct Suite {
    node: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    port: u16,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

impl Suite {
    fn start(ids: &[String]) -> Suite {
        let folder = folder();
        let installed = folder.join("node_modules/http-cache-tests").is_dir();
        assert!(
            installed,
            "the suite is not installed: run `make test`, or `npm ci --prefix tests/conformance`"
        );
        let mut command = Command::new("node");
        command.arg("--no-warnings").arg("run.mjs").args(ids).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut node =
            command.spawn().unwrap_or_else(|why| panic!("no node: {why}; `make test` installs it"));
        let input = node.stdin.take().unwrap();
        let mut output = BufReader::new(node.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("origin ").and_then(|port| port.parse().ok());
        Suite { port: port.unwrap_or_else(|| panic!("the suite said {line:?}")), node, input, output }
    }

    /// Runs the tests through the cache at `base`.
    fn judge(mut self, base: &str) -> Vec<Row> {
        writeln!(self.input, "base {base}").unwrap();
        let mut rows = Vec::new();
        for line in (&mut self.output).lines().map_while(Result::ok) {
            let mut fields = line.splitn(4, '\t').map(ToOwned::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            rows.push(Row { id: next(), kind: next(), outcome: next(), detail: next() });
        }
        rows
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

fn list_path(config: &str) -> PathBuf {
    folder().join(format!("{config}.failing"))
}

/// The ids of a list. `#` begins a comment.
fn read_list(config: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(list_path(config)).unwrap_or_default();
    let ids = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    ids.filter(|id| !id.is_empty()).map(ToOwned::to_owned).collect()
}

/// Writes the ids, each with the comment that it had, or with its outcome.
fn write_list(config: &str, rows: &BTreeMap<String, Row>, ids: &BTreeSet<String>) {
    let old = std::fs::read_to_string(list_path(config)).unwrap_or_default();
    let head: Vec<&str> = old.lines().take_while(|line| line.starts_with('#')).collect();
    let mut text: String = head.iter().map(|line| format!("{line}\n")).collect();
    for row in ids.iter().filter_map(|id| rows.get(id)) {
        let kept = old.lines().find(|line| line.split_whitespace().next() == Some(&row.id));
        let new = format!("{:<45} # {}: {}", row.id, row.kind, row.outcome);
        text.push_str(&format!("{}\n", kept.unwrap_or(&new)));
    }
    std::fs::write(list_path(config), text).unwrap();
}

/// How the suite reaches Weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Http1,
    Http2,
}

/// Runs the suite in front of a Weir that `start` makes for an origin's URL, and compares the failures with
/// the list.
fn check(config: &str, over: Over, start: impl Fn(&str) -> Weir) {
    let mut rows = run(&[], over, &start);
    let listed = read_list(config);
    let failing = |rows: &BTreeMap<String, Row>| -> BTreeSet<String> {
        rows.values().filter(|row| row.fails()).map(|row| row.id.clone()).collect()
    };
    // The suite sleeps by the clock: a failure beside a busy machine gets a second try by itself.
    let unexpected: Vec<String> = failing(&rows).difference(&listed).cloned().collect();
    if !unexpected.is_empty() && !listed.is_empty() {
        let again = run(&unexpected, over, &start);
        rows.extend(again.into_iter().filter(|(_, row)| !row.fails()));
    }
    report(config, over, &rows);
    let found = failing(&rows);
    let blessed = over == Over::Http1 && std::env::var_os("WEIR_BLESS").is_some();
    if blessed {
        let kept = if list_path(config).exists() {
            found.intersection(&listed).cloned().collect()
        } else {
            found.clone()
        };
        write_list(config, &rows, &kept);
    }
    let details = |id: &String| {
        format!("\n  {id}: {}", rows.get(id).map_or("it is no test", |row| row.detail.as_str()))
    };
    let new: String = found.difference(&read_list(config)).map(details).collect();
    assert!(new.is_empty(), "newly failing with the {config} config over {over:?}:{new}");
    if over == Over::Http2 {
        return;
    }
    let mended: String = read_list(config).difference(&found).map(|id| format!("\n  {id}")).collect();
    assert!(
        mended.is_empty(),
        "these pass now: strike them from {config}.failing (WEIR_BLESS=1 does):{mended}"
    );
}

fn run(ids: &[String], over: Over, start: impl Fn(&str) -> Weir) -> BTreeMap<String, Row> {
    let suite = Suite::start(ids);
    let weir = start(&format!("http://127.0.0.1:{}", suite.port));
    let translator = (over == Over::Http2).then(|| Translator::before(weir.tls()));
    let entrance = translator.as_ref().map_or(weir.addr(), Translator::addr);
    let rows = suite.judge(&format!("http://{entrance}"));
    assert!(ids.len().max(1) <= rows.len(), "the suite ended early; weir said:\n{}", weir.stderr());
    rows.into_iter().map(|row| (row.id.clone(), row)).collect()
}

/// Prints the counts past the test harness, which would swallow them.
fn report(config: &str, over: Over, rows: &BTreeMap<String, Row>) {
    let count = |kind: &str| {
        let of_kind = rows.values().filter(|row| row.kind == kind);
        let passed = of_kind.clone().filter(|row| row.outcome == "pass").count();
        let moot = of_kind.clone().filter(|row| row.outcome == "moot").count();
        format!("{passed} of {} ({moot} moot)", of_kind.count())
    };
    let (required, optimal, checks) = (count("required"), count("optimal"), count("check"));
    let line = format!(
        "conformance {config} over {over:?}: {required} required and {optimal} optional tests pass; {checks} \
        checks say yes\n"
    );
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The example's config, with an entrance for HTTP/2 as well.
fn example(origin: &str, more: &str) -> Weir {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/conformance.toml");
    let text = std::fs::read_to_string(&example).unwrap_or_else(|why| panic!("{}: {why}", example.display()));
    let text = text.replace("http://127.0.0.1:8000", origin);
    let text = text.replace("127.0.0.1:8080", "{listen}").replace("127.0.0.1:9180", "{admin}");
    setup().run_config(&format!("{text}{more}"))
}

/// A listener that speaks HTTP/2 at once.
const HTTP_2: &str = "\n[[listen]]\naddress = \"{tls}\"\nprotocols = [\"h2\"]\n";

#[test]
fn the_default_config_fails_only_what_is_listed() {
    check("default", Over::Http1, |origin| setup().run(origin));
}

#[test]
fn the_conformance_config_fails_only_what_is_listed() {
    check("conformance", Over::Http1, |origin| example(origin, ""));
}

#[test]
fn the_default_config_fails_no_more_over_http_2() {
    check("default", Over::Http2, |origin| {
        setup().run_config(&format!(
            "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n{HTTP_2}\
             [upstream.main]\norigins = [\"{origin}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n"
        ))
    });
}

#[test]
fn the_conformance_config_fails_no_more_over_http_2() {
    check("conformance", Over::Http2, |origin| example(origin, HTTP_2));
}
