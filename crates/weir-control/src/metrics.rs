//! `/metrics`: counters and states, as the Prometheus text format or as OpenMetrics, made for each scrape.
//!
//! Units are seconds and bytes; names are the glossary's words. Each label has a bounded set of values:
//! outcomes, reasons, and what the configuration names. Every family is a row of a table. What all workers
//! count is in `weir-observe`'s `counts`, everything else in the modules here; `table` joins
//! them. The guide's page is printed from the same rows.

mod certificates;
mod family;
mod form;
mod origins;
#[cfg(test)]
mod page;
mod requests;
mod row;
mod sources;
mod table;
mod volumes;
mod written;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::control::Control;
pub(crate) use family::Seen;
pub(crate) use form::Form;
use written::Written;

/// About what the lines of a site take, in each of two sections.
const SITE_BYTES: usize = 384;
/// The last line of a page of OpenMetrics.
const END_OF_OPENMETRICS: &str = "# EOF\n";

/// All metrics of a Weir as text.
pub(crate) fn text(control: &Control, form: Form) -> Result<String, fmt::Error> {
    encode(control.seen(), form)
}

fn encode(seen: Seen, form: Form) -> Result<String, fmt::Error> {
    let parts = seen.snapshot.sites.len() + seen.held.sites.len();
    let written = Written::of(&seen);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { seen, written, form }));
    let mut out = String::with_capacity((32 << 10) + parts * SITE_BYTES);
    prometheus_client::encoding::text::encode(&mut out, &registry)?;
    if form == Form::Prometheus {
        let text = out.strip_suffix(END_OF_OPENMETRICS).unwrap_or(&out);
        out.truncate(text.len());
    }
    Ok(out)
}

struct Scrape {
    seen: Seen,
    written: Written,
    form: Form,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for (_, families) in table::sections(&self.seen, &self.written) {
            families.iter().try_for_each(|family| family.encode(&mut encoder, self.form))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
