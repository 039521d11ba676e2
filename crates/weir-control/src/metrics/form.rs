//! The two forms of the text.

/// A form of the text, by what the scraper accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The text format of Prometheus, version 0.0.4: what `promtool check metrics` and most others read.
    Prometheus,
    /// OpenMetrics, for a scraper that names it.
    OpenMetrics,
}

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
