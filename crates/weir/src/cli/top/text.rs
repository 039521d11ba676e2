//! The words of `weir top`: lines and columns from what `/v1/top` answers. Nothing of them steers a terminal.

use std::fmt::Write;

use weir_control::{JobShown, JobState, OutcomeRate, Top, TopShown, VolumeUse};
use weir_observe::{Outcome, TopOrder};

use crate::print::{plain, size};

/// Shows the jobs that have ended up to this many.
const ENDED_JOBS_MAX: usize = 2;
/// Shows volumes and jobs up to this many each.
const LINES_MAX: usize = 6;

/// All of it, as text.
pub(super) fn whole(top: &Top) -> String {
    let mut out = heading(top) + "\n\n";
    for line in above(top) {
        // Invariant: writing to a String cannot fail.
        let _ = writeln!(out, "  {line}");
    }
    let _ = write!(out, "\n  {}\n  {}\n", title(top), columns(top).join("  "));
    for row in &top.rows {
        let _ = writeln!(out, "  {}", cells(top, row).join("  "));
    }
    if top.rows.is_empty() {
        let _ = writeln!(out, "  {}", nothing(top));
    }
    out
}

/// The first line.
pub(super) fn heading(top: &Top) -> String {
    let site = if top.traffic.is_some() { "" } else { "  some sites alone" };
    format!("weir top  pid {}  {}  the last {:.0} s{site}", top.pid, plain(&top.at), top.window_s)
}

/// What stands above the list: rates, times, volumes, jobs.
pub(super) fn above(top: &Top) -> Vec<String> {
    let mut lines = rates(top);
    lines.extend(top.volumes.iter().take(LINES_MAX).map(volume));
    lines.extend(jobs(&top.jobs).into_iter().map(job));
    if top.lost > 0 {
        lines.push(format!("{} requests are not in the lists: there was no room for them", top.lost));
    }
    lines
}

fn rates(top: &Top) -> Vec<String> {
    let (Some(now), Some(window)) = (&top.now, &top.traffic) else { return vec![totals(top)] };
    let name = top.window.as_str();
    let mut lines = vec![format!(
        "{:<12} {:>11} {:>11}  {:>7}  {:>12} {:>12}",
        "outcome",
        "now/s",
        format!("{name}/s"),
        "share",
        "half below",
        "99 % below"
    )];
    let all: u64 = window.outcomes.values().map(|of| of.count).sum();
    let none = OutcomeRate::default();
    for outcome in Outcome::ALL.map(Outcome::word) {
        let (recent, of) = (now.outcomes.get(outcome), window.outcomes.get(outcome));
        if recent.is_none() && of.is_none() {
            continue;
        }
        let (recent, of) = (recent.unwrap_or(&none), of.unwrap_or(&none));
        let share = of.count as f64 / all.max(1) as f64;
        lines.push(format!(
            "{outcome:<12} {:>11.1} {:>11.1}  {:>7}  {:>12} {:>12}",
            recent.per_s,
            of.per_s,
            percent(share),
            milliseconds(of.first_byte_ms_p50),
            milliseconds(of.first_byte_ms_p99)
        ));
    }
    lines.push(format!("{:<12} {:>11.1} {:>11.1}", "all", now.requests_per_s, window.requests_per_s));
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    // Two lines: each has room on a terminal of 80 columns.
    let (from_cache, offload) = (share(window.from_cache), share(window.offload));
    lines.push(format!("from the cache {from_cache}, origin offload {offload}"));
    lines.push(format!(
        "{}/s to clients, {}/s and {:.1} requests/s from origins",
        size(window.client_bytes_per_s as u64),
        size(window.origin_bytes_per_s as u64),
        window.origin_requests_per_s
    ));
    lines
}

/// The rates of some sites, as the lists know them.
fn totals(top: &Top) -> String {
    let of = |order: TopOrder| top.totals.get(order.word()).copied().unwrap_or_default();
    let per_s = |count: u64| count as f64 / top.window_s.max(1.0);
    format!(
        "about {:.1} requests/s, {:.1} missed/s, {}/s, {:.1} not stored/s",
        per_s(of(TopOrder::Asked)),
        per_s(of(TopOrder::Missed)),
        size(per_s(of(TopOrder::Bytes)) as u64),
        per_s(of(TopOrder::NotStored))
    )
}

fn volume(volume: &VolumeUse) -> String {
    let (used, all) = (size(volume.used_bytes), size(volume.size_bytes));
    let (path, state) = (plain(&volume.path), volume.state.word());
    format!("volume {path}: {state}, {} objects, {used} of {all}", volume.objects)
}

/// The jobs that are shown: those under way, and the newest that have ended.
fn jobs(all: &[JobShown]) -> Vec<&JobShown> {
    let is_running = |job: &&JobShown| job.state == JobState::Running;
    let ended = all.iter().rev().filter(|job| !is_running(job)).take(ENDED_JOBS_MAX);
    all.iter().filter(is_running).take(LINES_MAX).chain(ended).collect()
}

fn job(job: &JobShown) -> String {
    let state = match job.state {
        JobState::Running => "running",
        JobState::Done => "done",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
        JobState::Interrupted => "interrupted",
    };
    let of = job.total.map_or_else(String::new, |total| format!(" of {total}"));
    let (kind, unit) = (plain(&job.kind), plain(&job.unit));
    format!("job {kind} {}: {state}, {}{of} {unit}, {}/s", plain(&job.id), job.done, job.rate)
}

/// What the list is.
pub(super) fn title(top: &Top) -> String {
    let what = match top.order.as_str() {
        "missed" => "the most misses",
        "bytes" => "the most bytes",
        "not-stored" => "the most that was not stored",
        _ => "the most requests",
    };
    format!("{what} by {}, of the last {:.0} s", plain(&top.by), top.window_s)
}

/// What is said in place of rows.
pub(super) fn nothing(top: &Top) -> String {
    format!("nothing in the last {:.0} s", top.window_s)
}

/// The names of the columns.
pub(super) fn columns(top: &Top) -> Vec<String> {
    let counted = if is_bytes(top) { "bytes" } else { "requests" };
    let mut columns = vec![format!("{counted:>12}"), format!("{:>10}", "±"), format!("{:>7}", "share")];
    if is_not_stored(top) {
        columns.push(format!("{:<20}", "why"));
    }
    columns.push(plain(&top.by));
    columns
}

/// The cells of a row.
pub(super) fn cells(top: &Top, row: &TopShown) -> Vec<String> {
    let written = |count: u64| if is_bytes(top) { size(count) } else { count.to_string() };
    let error = if row.error == 0 { "exact".to_owned() } else { written(row.error) };
    let mut cells = vec![
        format!("{:>12}", written(row.count)),
        format!("{error:>10}"),
        format!("{:>7}", percent(row.share)),
    ];
    if is_not_stored(top) {
        cells.push(format!("{:<20}", one_line(row.why.as_deref().unwrap_or_default())));
    }
    cells.push(one_line(&row.name));
    cells
}

fn is_bytes(top: &Top) -> bool {
    top.order == TopOrder::Bytes.word()
}

fn is_not_stored(top: &Top) -> bool {
    top.order == TopOrder::NotStored.word()
}

/// A text of others: harmless, and one line.
fn one_line(text: &str) -> String {
    plain(text).replace('\n', "\\n")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn milliseconds(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"))
}
