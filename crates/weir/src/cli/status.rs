//! `weir status`: what the running Weir does and holds, on one screen.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::Method;
use weir_control::{
    CertificateUse, CertificatesState, Listening, OldProcess, OriginState, Phase, PickState, Status,
    VolumeStanding, VolumeUse,
};
use weir_observe::{Count, SiteCount};

use super::find::Find;
use crate::print::{counted, size};

/// The command line of `weir status`.
#[derive(Debug, Args)]
pub(crate) struct ShowStatus {
    #[command(flatten)]
    find: Find,
}

impl ShowStatus {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let asked = self.find.ask(Method::GET, "/v1/status", Vec::new())?;
        self.find.answer(&asked, show)
    }
}

fn show(status: &Status) -> String {
    let mut out = String::new();
    let phase = if status.phase == Phase::Serving { "serving" } else { "draining" };
    // Invariant: writing to a String cannot fail.
    let _ = writeln!(
        out,
        "weir {}  pid {}  {phase}  up {}",
        status.version,
        status.pid,
        lasted(Duration::from_secs(status.uptime_s))
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "  {name:<12} {value}");
    };
    line("listening", &format!("{}, {}", places(status), counted(status.workers, "worker")));
    for old in &status.old_processes {
        line("old process", &old_text(old));
    }
    line("config", &config(status));
    if let Some(refused) = status.last_reload.as_ref().and_then(|last| last.refused.as_ref()) {
        let sentence = refused.lines().next().unwrap_or_default();
        line("", &format!("the last reload was refused: {sentence}"));
    }
    line("connections", &connections(status));
    line("requests", &requests(status));
    for (outcome, of) in status.requests.outcomes.iter().filter(|(_, of)| of.count > 0) {
        line(
            "",
            &format!(
                "{outcome:<12} {:>10}{}",
                of.count,
                first_byte(of.first_byte_ms_p50, of.first_byte_ms_p99)
            ),
        );
    }
    if !status.requests.not_stored.is_empty() {
        line("not stored", &words(&status.requests.not_stored));
    }
    let noted = noted(status);
    if !noted.is_empty() {
        line("of note", &noted);
    }
    line("bytes", &bytes(status));
    line("cache", &cache(status));
    for volume in &status.volumes {
        line("volume", &below(volume));
    }
    line("ledger", &ledger(status));
    if let Some(certificates) = &status.certificates {
        line("certificates", &in_short(certificates));
        for of in &certificates.amiss {
            line("", &amiss(of));
        }
    }
    if !status.errors.is_empty() {
        line("errors", &words(&status.errors));
    }
    for upstream in &status.upstreams {
        line("upstream", &upstream.name);
        for origin in &upstream.origins {
            line("", &origin_text(origin));
        }
    }
    for pick in &status.picks {
        line("pick", &pick_text(pick));
    }
    out
}

/// A process that finishes its requests after an upgrade.
fn old_text(old: &OldProcess) -> String {
    let mut text = format!("pid {}, replaced {}", old.pid, old.since);
    if let (Some(connections), Some(bytes)) = (old.connections, old.held_bytes) {
        let connections = counted(usize::try_from(connections).unwrap_or(usize::MAX), "connection");
        let _ = write!(text, ": {connections}, holds {}", size(bytes));
    }
    if let Some(left_s) = old.ends_in_s {
        let _ = write!(text, ", ends within {}", lasted(Duration::from_secs(left_s)));
    }
    text
}

/// A script or a distributor, and what it has said.
fn pick_text(pick: &PickState) -> String {
    let trouble = pick.trouble.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let outcomes: Vec<String> = pick
        .outcomes
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    format!("{} ({}) {}{trouble}", pick.name, pick.kind, outcomes.join(", "))
}

/// Where clients connect, with what is not HTTP/1.1 without TLS.
fn places(status: &Status) -> String {
    let how = |of: &Listening| match (of.tls, of.protocols.join(", ")) {
        (true, protocols) => format!("{} (TLS: {protocols})", of.address),
        (false, protocols) if protocols.contains("h2") => format!("{} ({protocols})", of.address),
        (false, _) => of.address.clone(),
    };
    match status.listening.is_empty() {
        true => status.listeners.join(", "),
        false => status.listening.iter().map(how).collect::<Vec<_>>().join(", "),
    }
}

fn in_short(certificates: &CertificatesState) -> String {
    let mut text = format!("{} in use", certificates.in_use);
    if let Some(next) = &certificates.next_to_end {
        let name = next.names.first().map_or("", String::as_str);
        let days = next.expires_in_s.unwrap_or_default() / 86_400;
        let _ = write!(text, ", the next to end in {} ({name})", counted(days as usize, "day"));
    }
    text
}

fn amiss(of: &CertificateUse) -> String {
    let name = of.names.first().unwrap_or(&of.source);
    match (&of.error, &of.expires) {
        (Some(error), Some(_)) => format!("{name}: {error}; the one before stays in use"),
        (Some(error), None) => format!("{name}: {error}"),
        (None, Some(expires)) => format!("{name}: {} ({expires})", of.state),
        (None, None) => format!("{name}: {}", of.state),
    }
}

fn config(status: &Status) -> String {
    let source = status.config.as_deref().unwrap_or("flags of the command line");
    let mut text =
        format!("{source}: {}, {}", counted(status.sites, "site"), counted(status.routes, "route"));
    if status.reloads + status.reloads_refused > 0 {
        let _ = write!(text, ", reloaded {} times, {} refused", status.reloads, status.reloads_refused);
    }
    text
}

fn connections(status: &Status) -> String {
    let all = &status.connections;
    let mut text = format!("{} open, {} accepted", all.open, all.accepted);
    if all.tunnels > 0 {
        let _ = write!(text, ", {} tunnels", all.tunnels);
    }
    text
}

fn requests(status: &Status) -> String {
    let all = &status.requests;
    let mut text = format!("{} finished, {} running", all.finished, all.running);
    if let Some(ratio) = all.hit_ratio {
        let _ = write!(text, ", {:.1} % from the cache", ratio * 100.0);
    }
    for (count, what) in [(all.cut, "cut"), (all.client_gone, "left by the client")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

/// The counters that are shown where they are not 0: their rows say which.
fn noted(status: &Status) -> String {
    let rows = Count::ALL.iter().map(|count| count.row());
    let rows = rows.chain(SiteCount::ALL.iter().map(|count| count.row()));
    let noted = rows.filter(|row| !row.said.is_empty()).filter_map(|row| {
        let count = status.counters.get(row.name).copied().filter(|count| *count > 0)?;
        Some(format!("{count} {}", row.said))
    });
    noted.collect::<Vec<_>>().join(", ")
}

fn first_byte(p50: Option<f64>, p99: Option<f64>) -> String {
    match (p50, p99) {
        (Some(p50), Some(p99)) => format!("   first byte: half < {p50} ms, 99 % < {p99} ms"),
        _ => String::new(),
    }
}

fn bytes(status: &Status) -> String {
    let all = &status.body_bytes;
    format!(
        "{} to clients ({} from the cache), {} from origins",
        size(all.clients),
        size(all.cached),
        size(all.origins)
    )
}

fn cache(status: &Status) -> String {
    let cache = &status.cache;
    let share = if cache.memory_bytes_max == 0 {
        0.0
    } else {
        100.0 * cache.memory_bytes as f64 / cache.memory_bytes_max as f64
    };
    let mut text = format!(
        "{}, {} of {} in memory ({share:.1} %)",
        counted(usize::try_from(cache.objects).unwrap_or(usize::MAX), "object"),
        size(cache.memory_bytes),
        size(cache.memory_bytes_max)
    );
    let fills = &status.fills;
    let _ = write!(text, ", {} fills running, {} joined", fills.running, fills.collapsed);
    if cache.evicted > 0 {
        let _ = write!(text, ", {} evicted", cache.evicted);
    }
    if cache.not_admitted > 0 {
        let _ = write!(text, ", {} not admitted to disk", cache.not_admitted);
    }
    text
}

fn below(volume: &VolumeUse) -> String {
    let mut text = format!(
        "{}: {}, {} of {}",
        volume.path,
        counted(usize::try_from(volume.objects).unwrap_or(usize::MAX), "object"),
        size(volume.used_bytes),
        size(volume.size_bytes)
    );
    if volume.state != VolumeStanding::Up {
        let _ = write!(text, ", {}", volume.state.word());
    }
    for (count, what) in [
        (volume.written_later, "stored from memory"),
        (volume.evicted, "evicted"),
        (volume.damaged, "damaged"),
        (volume.queue_full, "not stored: the write queue was full"),
        (volume.read_errors, "failed reads"),
        (volume.write_errors, "failed writes"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    if let Some(budget) = volume.write_budget_bytes {
        let _ = write!(text, ", {} of {} written today", size(volume.written_today_bytes), size(budget));
        if volume.write_budget_used_up {
            text.push_str(" (used up: nothing is stored before midnight UTC)");
        }
    }
    text
}

fn ledger(status: &Status) -> String {
    let ledger = &status.ledger;
    let marks = counted(usize::try_from(ledger.marks).unwrap_or(usize::MAX), "mark");
    let mut text = format!("number {}, {marks}", ledger.number);
    if let Some(failure) = &ledger.failure {
        let _ = write!(text, "; on disk up to {}: {failure}", ledger.durable);
    }
    text
}

fn origin_text(origin: &OriginState) -> String {
    let mut text = format!(
        "{}  {} requests, {} failed, connections: {} ({} idle)",
        origin.name, origin.requests, origin.failures, origin.connections_open, origin.connections_idle
    );
    if origin.streams > 0 {
        let _ = write!(text, ", {} streams", origin.streams);
    }
    if origin.queued > 0 {
        let _ = write!(text, ", {} queued", origin.queued);
    }
    if !origin.available {
        let _ = write!(text, ", {}", origin.standing);
        if let Some(left_s) = origin.ejected_s {
            let _ = write!(text, " for {left_s} s more");
        }
    }
    if !origin.why.is_empty() {
        let _ = write!(text, " ({})", origin.why);
    }
    if let Some(check) = &origin.check {
        let _ = write!(text, ", checks: {} passed, {} failed", check.passed, check.failed);
        if let (Some(ago_s), Some(took_s)) = (check.last_ago_s, check.last_took_s) {
            let _ = write!(text, ", last {ago_s:.1} s ago in {:.0} ms", took_s * 1000.0);
        }
        if let Some(why) = check.last_failure.as_ref().filter(|why| **why != origin.why) {
            let _ = write!(text, " ({why})");
        }
    }
    if let Some(agent) = &origin.agent {
        let reach = if agent.reachable { "" } else { ", now silent" };
        let _ = write!(text, ", agent: \"{}\"{reach}", agent.line);
    }
    text
}

fn words(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let all: Vec<String> = counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
    all.join(", ")
}

/// `3 d 4 h`, `2 min 5 s`: the two largest units.
fn lasted(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let shown: Vec<String> =
        parts[first..].iter().take(2).map(|(count, unit)| format!("{count} {unit}")).collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        for (seconds, expect) in
            [(0, "0 s"), (59, "59 s"), (125, "2 min 5 s"), (3_600, "1 h 0 min"), (273_600, "3 d 4 h")]
        {
            assert_eq!(lasted(Duration::from_secs(seconds)), expect);
        }
    }

    #[test]
    fn where_clients_connect_and_with_which_certificates() {
        let listening = |address: &str, tls: bool, protocols: &[&str]| Listening {
            address: address.to_owned(),
            tls,
            protocols: protocols.iter().map(ToString::to_string).collect(),
        };
        let of = |name: &str, state: &str, expires: Option<&str>, error: Option<&str>| CertificateUse {
            names: vec![name.to_owned()],
            state: state.to_owned(),
            expires: expires.map(str::to_owned),
            expires_in_s: Some(20 * 86_400),
            error: error.map(str::to_owned),
            ..CertificateUse::default()
        };
        let text = show(&Status {
            listening: vec![
                listening("0.0.0.0:80", false, &["http/1.1"]),
                listening("0.0.0.0:8080", false, &["h2", "http/1.1"]),
                listening("0.0.0.0:443", true, &["h2", "http/1.1"]),
            ],
            workers: 2,
            certificates: Some(CertificatesState {
                in_use: 3,
                next_to_end: Some(of("a.test", "valid", None, None)),
                amiss: vec![
                    of("b.test", "near-end", Some("2026-12-01T00:00:00Z"), None),
                    of("c.test", "valid", Some("2026-12-01T00:00:00Z"), Some("the key is of another")),
                    of("d.test", "failed", None, Some("no such file")),
                ],
            }),
            ..status()
        });
        for line in [
            "listening    0.0.0.0:80, 0.0.0.0:8080 (h2, http/1.1), \
             0.0.0.0:443 (TLS: h2, http/1.1), 2 workers",
            "certificates 3 in use, the next to end in 20 days (a.test)",
            "             b.test: near-end (2026-12-01T00:00:00Z)",
            "             c.test: the key is of another; the one before stays in use",
            "             d.test: no such file",
        ] {
            assert!(text.contains(&format!("  {line}\n")), "{line}\n{text}");
        }
        assert!(!show(&status()).contains("certificates"));
    }

    #[test]
    fn old_processes_are_listed_with_what_they_hold_and_when_they_end() {
        let old = OldProcess {
            pid: 7,
            since: "2026-12-01T00:00:00Z".to_owned(),
            connections: Some(2),
            held_bytes: Some(3 << 20),
            ends: Some("2026-12-01T01:00:00Z".to_owned()),
            ends_in_s: Some(3540),
        };
        let silent = OldProcess { pid: 6, since: old.since.clone(), ..OldProcess::default() };
        let text = show(&Status { old_processes: vec![silent, old], ..status() });
        for line in [
            "  old process  pid 6, replaced 2026-12-01T00:00:00Z\n",
            "  old process  pid 7, replaced 2026-12-01T00:00:00Z: 2 connections, holds 3.0 MiB, ends within \
             59 min 0 s\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    /// Of a Weir that has nothing to tell.
    fn status() -> Status {
        serde_json::from_value(serde_json::json!({
            "version": "1", "pid": 1, "phase": "serving", "started": "", "uptime_s": 1, "config": null,
            "plan": 1, "sites": 1, "routes": 1, "reloads": 0, "reloads_refused": 0, "last_reload": null,
            "listeners": [], "workers": 2,
            "connections": { "open": 0, "accepted": 0, "refused": 0, "tunnels": 0 },
            "requests": { "running": 0, "finished": 0, "outcomes": {}, "statuses": {}, "cut": 0,
                          "client_gone": 0, "not_stored": {} },
            "body_bytes": { "clients": 0, "cached": 0, "origins": 0 },
            "cache": { "objects": 0, "memory_bytes": 0, "memory_bytes_max": 1, "evicted": 0 },
            "ledger": { "number": "0", "durable": "0", "marks": 0 },
            "fills": { "running": 0, "begun": 0, "failed": 0, "collapsed": 0, "retries": 0 },
            "upstreams": [], "errors": {}, "counters": {}
        }))
        .unwrap()
    }
}
