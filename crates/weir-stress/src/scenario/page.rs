//! The outcome as a page that stands alone: tables, plots as SVG, no script, nothing loaded.

use std::fmt::Write;

use crate::profile;
use crate::scenario::outcome::{ModuleOutcome, Outcome};
use crate::scenario::plots::{self, Lines};
use crate::scenario::table::{COLUMNS, cell, faults, number};
use crate::scenario::watch::Row;
use crate::tally::Tally;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:1200px;margin:2em auto;padding:0 1em}\
h1{font-size:1.6em;margin-bottom:.2em}\
h2{font-size:1.25em;margin-top:2.2em;border-top:1px solid #ddd;padding-top:1em}\
table{border-collapse:collapse;margin:.6em 0;font-variant-numeric:tabular-nums}\
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #e4e4e4}th{font-weight:600;color:#555}\
th:first-child,td:first-child{text-align:left}.wide{overflow-x:auto}\
.good{color:#006b4f;font-weight:600}.bad{color:#b30000;font-weight:600}.dim{color:#666}\
.key{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.4em;vertical-align:-.1em}\
.plots{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}figcaption{color:#555;font-size:.9em}\
pre{background:#f6f6f6;padding:.7em;overflow-x:auto}svg{max-width:100%;height:auto}";

/// What is plotted by second: a caption, and the value of a row.
type Of = fn(&Row) -> f64;
const BY_SECOND: [(&str, Of); 4] = [
    ("responses a second", |row| row.second.requests as f64 / row.seconds),
    ("whole p99 of each second, ms", |row| row.second.whole_ns.value_at_quantile(0.99) as f64 / 1e6),
    ("CPUs used by the server", |row| row.used.cpu_seconds / row.seconds),
    ("memory of the server, MB resident", |row| row.used.resident_bytes as f64 / 1e6),
];
/// The shortest row that is plotted: rates of less are noise.
const ROW_S_MIN: f64 = 0.2;

pub(crate) fn write(outcome: &Outcome) -> String {
    let mut out = String::new();
    let name = escaped(&outcome.name);
    let verdict = match outcome.is_good() {
        true => "<span class=good>all is as it should be</span>",
        false if outcome.is_whole => "<span class=bad>not as it should be</span>",
        false => "<span class=bad>ended early</span>",
    };
    push(&mut out, format_args!("<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title>"));
    push(&mut out, format_args!("<meta name=viewport content=\"width=device-width\"><style>{STYLE}</style>"));
    let (machine, begun) = (escaped(&outcome.machine), escaped(&outcome.begun));
    let line = escaped(&profile::line());
    push(&mut out, format_args!("<h1>{name}</h1><p>{verdict}"));
    if let Some(why) = &outcome.gave_up {
        push(&mut out, format_args!(": {}", escaped(&why.to_string())));
    }
    push(&mut out, format_args!("<p class=dim>{machine}<br>{begun}, {line}"));
    push(&mut out, format_args!("<table><tr><th>server<th>URL<th>version"));
    for (at, server) in outcome.servers.iter().enumerate() {
        let (key, version) = (key(at), escaped(server.version.as_deref().unwrap_or("–")));
        let (name, url) = (escaped(&server.name), escaped(&server.url));
        push(&mut out, format_args!("<tr><td>{key}{name}<td>{url}<td>{version}"));
    }
    out.push_str("</table>");
    for module in &outcome.modules {
        section(outcome, module, &mut out);
    }
    for server in outcome.servers.iter().filter(|server| !server.findings.is_empty()) {
        push(&mut out, format_args!("<h2>Findings: {}</h2>", escaped(&server.name)));
        for finding in &server.findings {
            push(&mut out, format_args!("<pre>{}</pre>", escaped(&finding.lines.join("\n"))));
        }
    }
    out.push_str("</html>\n");
    out
}

fn section(outcome: &Outcome, module: &ModuleOutcome, out: &mut String) {
    let name = escaped(&module.name);
    let kind = if module.kind == module.name { "" } else { &module.kind };
    push(
        out,
        format_args!(
            "<h2>{name} <span class=dim>{kind}</span></h2><div class=wide><table><tr><th>server<th>faults"
        ),
    );
    COLUMNS.iter().for_each(|column| push(out, format_args!("<th>{}", column.0)));
    for (at, server) in module.ran_on(&outcome.servers) {
        let figures = module.figures(at);
        push(out, format_args!("<tr><td>{}{}", key(at), escaped(&server.name)));
        let class = if module.is_clean(at, &server.name) { "good" } else { "bad" };
        let count: u64 = module.sides[at].tally().faults.iter().sum();
        push(out, format_args!("<td class={class}>{count}"));
        COLUMNS.iter().for_each(|column| push(out, format_args!("<td>{}", cell(&figures, column))));
    }
    out.push_str("</table></div><p class=dim>times in milliseconds, CPU for each response");
    figures(outcome, module, out);
    ratios(outcome, module, out);
    limits(outcome, module, out);
    wrongs(outcome, module, out);
    plots(outcome, module, out);
}

/// The module's own figures.
fn figures(outcome: &Outcome, module: &ModuleOutcome, out: &mut String) {
    let all: Vec<Vec<(String, f64)>> =
        module.ran_on(&outcome.servers).map(|(at, _)| module.sides[at].own_figures()).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return;
    }
    out.push_str("<table><tr><th>of this module");
    module
        .ran_on(&outcome.servers)
        .for_each(|(_, server)| push(out, format_args!("<th>{}", escaped(&server.name))));
    for name in names {
        push(out, format_args!("<tr><td>{}", escaped(name)));
        for side in &all {
            let value = side.iter().find(|(known, _)| known == name).map(|(_, value)| number(*value, 3));
            push(out, format_args!("<td>{}", value.as_deref().unwrap_or("–")));
        }
    }
    out.push_str("</table>");
}

/// How much each server is of the first.
fn ratios(outcome: &Outcome, module: &ModuleOutcome, out: &mut String) {
    let first = module.first();
    let others: Vec<_> = module.ran_on(&outcome.servers).filter(|(at, _)| *at != first).collect();
    if others.is_empty() {
        return;
    }
    let first = escaped(&outcome.servers[first].name);
    push(out, format_args!("<table><tr><th>of {first}'s, and where it lies with 95 %"));
    let all: Vec<_> = others.iter().map(|(at, _)| module.ratios(*at)).collect();
    others.iter().for_each(|(_, server)| push(out, format_args!("<th>{}", escaped(&server.name))));
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        push(out, format_args!("<tr><td>{name}"));
        for side in &all {
            let ratio = side.iter().find(|(known, _)| *known == name).map(|(_, ratio)| ratio.to_string());
            push(out, format_args!("<td>{}", ratio.as_deref().unwrap_or("–")));
        }
    }
    out.push_str("</table>");
}

fn limits(outcome: &Outcome, module: &ModuleOutcome, out: &mut String) {
    let judged = module.judged(&outcome.servers);
    if judged.is_empty() {
        return;
    }
    out.push_str("<table><tr><th>limit<th>server<th>value<th>");
    for one in judged {
        let value = one.value.map_or("–".to_owned(), |value| number(value, 3));
        let verdict = if one.is_kept { "<td class=good>kept" } else { "<td class=bad>broken" };
        let (limit, server) = (escaped(&one.limit.to_string()), escaped(one.server));
        push(out, format_args!("<tr><td>{limit}<td>{server}<td>{value}{verdict}"));
    }
    out.push_str("</table>");
}

/// Faults and notes in words.
fn wrongs(outcome: &Outcome, module: &ModuleOutcome, out: &mut String) {
    for (at, server) in outcome.servers.iter().enumerate() {
        let (side, name) = (&module.sides[at], escaped(&server.name));
        let tally = side.tally();
        if let Some(first) = &tally.first_fault {
            let counts: Vec<String> =
                faults(&tally).iter().map(|(word, count)| format!("{word} {count}")).collect();
            let (counts, first) = (counts.join(", "), escaped(first));
            push(out, format_args!("<p><span class=bad>{name}: {counts}</span>; the first was {first}"));
        }
        side.notes().for_each(|note| push(out, format_args!("<p class=dim>{name}: {}", escaped(note))));
    }
}

fn plots(outcome: &Outcome, module: &ModuleOutcome, out: &mut String) {
    let names: Vec<&str> = outcome.servers.iter().map(|server| server.name.as_str()).collect();
    let tallies: Vec<Tally> = module.sides.iter().map(super::outcome::Side::tally).collect();
    out.push_str("<div class=plots>");
    let whole: Vec<_> = tallies.iter().map(|tally| &tally.total_ns).collect();
    figure("whole response by percentile, ms", plots::percentiles(&whole), out);
    let first: Vec<_> = tallies.iter().map(|tally| &tally.first_byte_ns).collect();
    figure("first byte by percentile, ms", plots::percentiles(&first), out);
    for (caption, of) in BY_SECOND {
        let lines: Vec<Lines> =
            names.iter().map(|name| turns(&outcome.rows, &module.name, name, of)).collect();
        figure(caption, plots::by_second(&lines), out);
    }
    out.push_str("</div>");
}

fn figure(caption: &str, svg: Option<String>, out: &mut String) {
    if let Some(svg) = svg {
        push(out, format_args!("<figure><figcaption>{caption}</figcaption>{svg}</figure>"));
    }
}

/// The rows of a module on a server, each turn by itself.
fn turns(rows: &[Row], module: &str, server: &str, of: Of) -> Lines {
    let of_both =
        rows.iter().filter(|row| row.module == module && row.server == server && row.seconds >= ROW_S_MIN);
    let mut all: Vec<(u64, Vec<(f64, f64)>)> = Vec::new();
    for row in of_both {
        if all.last().is_none_or(|(round, _)| *round != row.round) {
            all.push((row.round, Vec::new()));
        }
        if let Some((_, turn)) = all.last_mut() {
            turn.push((row.turn_s, of(row)));
        }
    }
    all.into_iter().map(|(_, turn)| turn).collect()
}

fn key(at: usize) -> String {
    format!("<span class=key style=\"background:{}\"></span>", plots::colour(at))
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = out.write_fmt(what);
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
