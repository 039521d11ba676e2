//! The outcome as tables for people.

use std::fmt::{self, Display};

use crate::profile;
use crate::scenario::outcome::{ModuleOutcome, Outcome, statuses};

/// What the table shows of each server: a title, a figure, and its digits behind the point.
pub(crate) const COLUMNS: [(&str, &str, usize); 14] = [
    ("responses", "requests", 0),
    ("/s", "requests_per_s", 0),
    ("MB", "bytes", 1),
    ("connect p50", "connect_p50_ms", 2),
    ("first p50", "first_byte_p50_ms", 2),
    ("first p99", "first_byte_p99_ms", 2),
    ("whole p50", "whole_p50_ms", 2),
    ("p90", "whole_p90_ms", 2),
    ("p99", "whole_p99_ms", 2),
    ("p99.9", "whole_p99_9_ms", 2),
    ("CPU µs", "cpu_us_per_request", 1),
    ("mem MB", "resident_mb", 0),
    ("written MB", "disk_written_mb", 1),
    ("origin", "origin_requests", 0),
];

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  on {}  {}", self.name, self.machine, self.begun)?;
        writeln!(f, "  {}", profile::line())?;
        for server in &self.servers {
            let version = server.version.as_ref().map_or(String::new(), |version| format!("  {version}"));
            writeln!(f, "  {}  {}{version}", server.name, server.url)?;
        }
        for module in &self.modules {
            writeln!(f)?;
            self.show(module, f)?;
        }
        for server in self.servers.iter().filter(|server| !server.findings.is_empty()) {
            writeln!(f, "\n{}: findings", server.name)?;
            for finding in &server.findings {
                writeln!(f, "  {}", finding.title)?;
                finding.lines.iter().skip(1).try_for_each(|line| writeln!(f, "    {line}"))?;
            }
        }
        writeln!(f)?;
        if let Some(why) = &self.gave_up {
            writeln!(f, "it could not go on: {why}")?;
        }
        match (self.is_good(), self.is_whole) {
            (true, _) => writeln!(f, "all is as it should be"),
            (false, true) => writeln!(f, "NOT as it should be: see the faults and limits above"),
            (false, false) => writeln!(f, "ended early; what is above is not whole"),
        }
    }
}

impl Outcome {
    fn show(&self, module: &ModuleOutcome, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = match module.name == module.kind {
            true => module.name.clone(),
            false => format!("{}  ({})", module.name, module.kind),
        };
        writeln!(f, "{title}   times in ms")?;
        let mut rows = vec![
            std::iter::once("server")
                .chain(COLUMNS.iter().map(|column| column.0))
                .map(str::to_owned)
                .collect(),
        ];
        for (at, server) in module.ran_on(&self.servers) {
            let figures = module.figures(at);
            let cells = COLUMNS.iter().map(|column| cell(&figures, column));
            rows.push(std::iter::once(server.name.clone()).chain(cells).collect::<Vec<String>>());
        }
        align(&rows, f)?;
        for (at, server) in module.ran_on(&self.servers) {
            self.show_side(module, at, &server.name, f)?;
        }
        for one in module.judged(&self.servers) {
            let word = if one.is_kept { "kept" } else { "BROKEN" };
            let value = one.value.map_or("no value".to_owned(), |value| number(value, 3));
            writeln!(f, "  limit {word}: {}: {} ({value})", one.server, one.limit)?;
        }
        Ok(())
    }

    fn show_side(
        &self,
        module: &ModuleOutcome,
        at: usize,
        name: &str,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let side = &module.sides[at];
        let own: Vec<String> =
            side.own_figures().iter().map(|(name, value)| format!("{name} {}", number(*value, 3))).collect();
        if !own.is_empty() {
            writeln!(f, "  {name}: {}", own.join(", "))?;
        }
        let first = module.first();
        if at != first {
            let ratios: Vec<String> =
                module.ratios(at).iter().map(|(name, ratio)| format!("{name} {ratio}")).collect();
            if !ratios.is_empty() {
                writeln!(f, "  {name} / {}: {}", self.servers[first].name, ratios.join(", "))?;
            }
        }
        let tally = side.tally();
        let faults: Vec<String> =
            faults(&tally).iter().map(|(word, count)| format!("{word}: {count}")).collect();
        if let Some(first) = &tally.first_fault {
            let statuses: Vec<String> =
                statuses(&tally).iter().map(|(status, count)| format!("{status}: {count}")).collect();
            writeln!(
                f,
                "  {name} FAULTS {}; the first was {first}; statuses {}",
                faults.join(", "),
                statuses.join(", ")
            )?;
        }
        side.notes().try_for_each(|note| writeln!(f, "  {name}: {note}"))
    }
}

/// The faults that happened.
pub(crate) fn faults(tally: &crate::tally::Tally) -> Vec<(&'static str, u64)> {
    let counts = crate::tally::Fault::ALL.iter().zip(tally.faults).filter(|(_, count)| *count > 0);
    counts.map(|(fault, count)| (fault.word(), count)).collect()
}

/// What a table shows of a figure.
pub(crate) fn cell(figures: &[(String, f64)], (_, name, digits): &(&str, &str, usize)) -> String {
    let value = figures.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    match (value, *name) {
        (None, _) => "–".to_owned(),
        (Some(value), "bytes") => number(value / 1e6, *digits),
        (Some(value), _) => number(value, *digits),
    }
}

/// A number with at most so many digits behind the point, without zeros at the end.
pub(crate) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn align(rows: &[Vec<String>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        write!(f, "  {:<width$}", row[0], width = widths[0])?;
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            write!(f, "  {cell:>width$}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}
