//! `/metrics`: counters and states, as the Prometheus text format or as OpenMetrics, made for each scrape.
//!
//! Units are seconds and bytes; names are the glossary's words. Each label has a bounded set of values:
//! outcomes, reasons, and what the configuration names. Every family is a row of a table. What all workers
//! count is in `weir-observe`'s `counts`, everything else in the modules here; `table` joins
//! them. The guide's page is printed from the same rows.

mod certificates;
mod family;
mod origins;
#[cfg(test)]
mod page;
mod requests;
mod row;
mod sources;
mod table;
mod volumes;

use std::collections::HashSet;
use std::fmt;

use memchr::memmem;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::control::Control;
pub(crate) use family::Seen;

/// A form of the text, by what the scraper accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The text format of Prometheus, version 0.0.4: what `promtool check metrics` and most others read.
    Prometheus,
    /// OpenMetrics, for a scraper that names it.
    OpenMetrics,
}

/// About what the lines of a site take, in each of two sections.
const SITE_BYTES: usize = 384;

impl Form {
    /// The form for an `Accept` field.
    pub(crate) fn for_accept(accept: &str) -> Form {
        if accept.contains("application/openmetrics-text") { Form::OpenMetrics } else { Form::Prometheus }
    }

    /// Its content type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Form::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All metrics of a Weir as text.
pub(crate) fn text(control: &Control, form: Form) -> Result<String, fmt::Error> {
    encode(control.seen(), form)
}

fn encode(seen: Seen, form: Form) -> Result<String, fmt::Error> {
    let parts = seen.snapshot.sites.len() + seen.held.sites.len();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(seen)));
    let mut out = String::with_capacity((32 << 10) + parts * SITE_BYTES);
    prometheus_client::encoding::text::encode(&mut out, &registry)?;
    Ok(match form {
        Form::OpenMetrics => out,
        Form::Prometheus => in_prometheus_form(&out),
    })
}

/// OpenMetrics names a counter without `_total` in its comments and ends with `# EOF`; the older format does
/// neither. Nothing but comments begins with `#`, since labels have no line breaks.
fn in_prometheus_form(text: &str) -> String {
    let comments = || memmem::find_iter(text.as_bytes(), "# ").filter(|at| is_line_start(text, *at));
    let counter = |at: usize| line_at(text, at).strip_prefix("# TYPE ")?.strip_suffix(" counter");
    let counters: HashSet<&str> = comments().filter_map(counter).collect();
    let mut out = String::with_capacity(text.len() + 4096);
    let mut copied = 0;
    for at in comments() {
        let line = line_at(text, at);
        let mut words = line.splitn(4, ' ').skip(2);
        let name = words.next().filter(|name| counters.contains(name));
        let end = match name {
            None if line == "# EOF" => at,
            None => continue,
            Some(name) => at + line.find(name).unwrap_or_default() + name.len(),
        };
        out.push_str(&text[copied..end]);
        copied = end;
        match name {
            Some(_) => out.push_str("_total"),
            None => copied = text.len().min(at + line.len() + 1),
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn is_line_start(text: &str, at: usize) -> bool {
    at == 0 || text.as_bytes()[at - 1] == b'\n'
}

/// The line that begins there, without its end.
fn line_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    rest.split_once('\n').map_or(rest, |(line, _)| line)
}

struct Scrape(Seen);

impl fmt::Debug for Scrape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (_, families) in table::sections(&self.0) {
            families.iter().try_for_each(|family| family.encode(&mut encoder))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
