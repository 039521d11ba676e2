//! The text of `/metrics`: names, comments, both forms, and the page that is printed from the tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::*;
use crate::data_plane::{
    AgentState, CatalogueUse, CheckState, HedgesState, Held, Inventory, OriginState, SessionsState,
    UpstreamState, VolumeStanding, VolumeUse,
};
use crate::sites::{Holding, Stock};
use weir_observe::{Outcome, SiteSnapshot, Snapshot};

/// Something of everything, so that no family is left out.
fn seen() -> Seen {
    let words = || BTreeMap::from([("set-cookie", 1)]);
    let mut snapshot =
        Snapshot { details: words(), not_stored: words(), errors: words(), ..Snapshot::default() };
    let mut site = SiteSnapshot { name: "a \"quoted\" site".into(), ..SiteSnapshot::default() };
    site.requests[Outcome::Hit as usize] = 1;
    for count in weir_observe::SiteCount::ALL {
        site.counts[*count] = 1;
    }
    snapshot.sites = vec![site];
    let volume = VolumeUse {
        path: "/v".to_owned(),
        state: VolumeStanding::Up,
        write_budget_bytes: Some(1),
        catalogue: Some(CatalogueUse::default()),
        ..VolumeUse::default()
    };
    let origin = OriginState {
        name: "http://o".to_owned(),
        ejections_by_cause: [("failures".to_owned(), 0)].into(),
        standing: "ready".to_owned(),
        check: Some(CheckState { last_took_s: Some(0.1), ..CheckState::default() }),
        agent: Some(AgentState::default()),
        ..OriginState::default()
    };
    let upstream = UpstreamState {
        name: "main".to_owned(),
        origins: vec![origin],
        hedges: Some(HedgesState { sent: 5, won: 3, refused: 1 }),
        sessions: Some(SessionsState { kept: 7, ..SessionsState::default() }),
        retries: [("503".to_owned(), 0)].into(),
        ..UpstreamState::default()
    };
    let inventory = Inventory { volumes: vec![volume], upstreams: vec![upstream], ..Inventory::default() };
    let one = Stock { objects: 1, bytes: 1 };
    let sites = vec![("a".into(), Holding { memory: one, volume: one, total: one })];
    let held = Held { sites, as_of: Some(SystemTime::UNIX_EPOCH) };
    Seen { snapshot, inventory, held, ..Seen::default() }
}

/// Each family once, with its comments and at least one series under its name.
fn families(text: &str) -> BTreeMap<&str, (&str, &str)> {
    let mut all = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).unwrap();
        let kind = lines.next().unwrap().strip_prefix("# TYPE ").unwrap();
        let (typed, kind) = kind.split_once(' ').unwrap();
        assert_eq!(typed, name);
        assert!(all.insert(name, (kind, help)).is_none(), "{name} stands twice");
        let mut count = 0;
        while lines.peek().is_some_and(|line| !line.starts_with('#')) {
            let series = lines.next().unwrap();
            let rest = series.strip_prefix(name).unwrap_or_else(|| panic!("{series} is under {name}"));
            let is_own = rest.starts_with(['{', ' ']);
            let is_of_histogram =
                ["_bucket{", "_sum{", "_count{"].iter().any(|suffix| rest.starts_with(suffix));
            assert!(is_own && kind != "histogram" || is_of_histogram && kind == "histogram", "{series}");
            count += 1;
        }
        assert!(count > 0, "{name} has no series");
    }
    all
}

/// What `promtool check metrics` asks of names and comments.
#[test]
fn every_metric_has_a_help_a_type_and_the_right_suffix() {
    let text = encode(seen(), Form::Prometheus).unwrap();
    let found = families(&text);
    assert!(found.len() > 90, "{}", found.len());
    for (name, (kind, help)) in found {
        assert!(help.len() > 5 && help.ends_with('.') && !help.contains(['\\', '"']), "{name}: {help}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        let is_reserved = ["_count", "_sum", "_bucket", "_info"].iter().any(|suffix| name.ends_with(suffix));
        assert!(!is_reserved || name == "weir_build_info", "{name}");
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_of_words = name.bytes().all(is_word);
        assert!(is_of_words && name.starts_with("weir_") && !name.contains("__"), "{name}");
        // Base units, and behind everything but `_total`.
        let stem = name.strip_suffix("_total").unwrap_or(name);
        for unit in ["bytes", "seconds"] {
            assert!(!stem.contains(unit) || stem.ends_with(unit), "{name}");
        }
        assert!(!["_ms", "_kb", "_percent", "_mib"].iter().any(|unit| stem.ends_with(unit)), "{name}");
    }
}

/// `promtool` itself, where it is installed (`WEIR_PROMTOOL` names another).
#[test]
fn promtool_finds_nothing() {
    let program = std::env::var("WEIR_PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let mut command = Command::new(program);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut running) = command.spawn() else { return eprintln!("skipped: there is no promtool") };
    let text = encode(seen(), Form::Prometheus).unwrap();
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_scraper_that_names_openmetrics_gets_it() {
    assert_eq!(Form::for_accept("*/*"), Form::Prometheus);
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
    assert_eq!(Form::for_accept(accept), Form::OpenMetrics);
    let text = encode(seen(), Form::OpenMetrics).unwrap();
    assert!(text.contains("# TYPE weir_panics counter\nweir_panics_total 0\n") && text.ends_with("# EOF\n"));
    let text = encode(seen(), Form::Prometheus).unwrap();
    assert!(text.contains("# TYPE weir_panics_total counter\nweir_panics_total 0\n"), "{text}");
    assert!(
        !text.contains("EOF")
            && text.contains("weir_site_send_stall_cuts_total{site=\"a \\\"quoted\\\" site\"} 1\n")
    );
}

/// `WEIR_REWRITE=1` rewrites the page.
#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/metrics.md");
    if std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(&path, page::markdown()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page::markdown(),
        "metrics.md is not current: run WEIR_REWRITE=1 cargo test -p weir-control"
    );
}
