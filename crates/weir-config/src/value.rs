//! The values of the configuration: texts with a meaning, parsed once. Each type has its own text form in the
//! file, its own check with a message, and its own entry in the JSON Schema (by `format`). Must not read a
//! file or resolve a name.

mod address;
mod captures;
mod check;
mod chosen;
pub(crate) mod covering;
mod directory;
mod distributor;
pub mod expression;
mod fault;
mod files;
mod hash_of;
mod header;
pub(crate) mod map;
mod measure;
mod metrics;
mod nginx;
mod path;
mod percent;
mod percentile;
mod place;
mod rate;
mod rewrite;
mod route_host;
mod session;
mod status;
pub(crate) mod text;

pub use address::{HostPattern, HostRule, ListenAddress, Nameserver, OriginScheme, OriginUrl, TrustedProxy};
pub use captures::{Below, Capture, Captured, Capturing, Takes};
pub use check::{Authority, SentPath, StatusRanges};
pub use chosen::{MapValue, RateLimit, UpstreamRule};
pub use directory::DirectoryUrl;
pub use distributor::{DistributorUrl, KeepAnswer};
pub use expression::MetricExpression;
pub(crate) use fault::Fault;
pub use files::{Fallback, FileName};
pub use hash_of::HashOf;
pub use header::{CookieName, FieldMatch, FieldName, MethodName, NameGlob, PairMatch};
pub use map::{MapMatch, MapOf, Mapping};
pub(crate) use map::{check_pattern, check_result as check_map_result, glob_meant};
pub use measure::{Duration, Size};
pub use metrics::{Gmond, MetricsUrl, check_name as check_metric_name};
pub(crate) use nginx::instead_of as instead_of_variable;
pub use path::{PathGlob, PathPrefix, PathRegex};
pub use percent::Percent;
pub use percentile::Percentile;
pub use place::{FileGlob, FilePath, LogTarget, PathText};
pub use rate::{ByteRate, ParameterName};
pub use rewrite::{BackText, RewriteTarget, TextGlob};
pub use route_host::RouteHost;
pub use session::SessionOf;
pub use status::StatusList;
pub(crate) use status::statuses;
pub use text::{KeyValue, LogLine, Target};

/// Has a text type read by serde. In tests it also has its JSON Schema, whose `format` names the check.
macro_rules! text_value {
    ($name:ident, $format:literal, $what:literal) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(text)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        #[cfg(test)]
        crate::schema::text_schema!($name, $format, $what);
    };
}
pub(crate) use text_value;
use weir_policy::value::Scope;

/// All that is wrong with `text` as a value of the type that is called `format` in the JSON Schema, with the
/// places of what can be told apart. `path` is the keys that lead to it.
pub(crate) fn faults(format: &str, text: &str, path: &[String]) -> Vec<Fault> {
    let variables = |sentence: fn(&str) -> String| {
        let found = nginx::variables(text).into_iter();
        found.map(|(place, name)| Fault::at(place, sentence(name))).collect()
    };
    let found = match format {
        "weir-value" => text::faults(text, field_scope(path)),
        "weir-target" => text::faults(text, Scope::Answer),
        "weir-rewrite" | "weir-back" => text::faults(text, Scope::Rewrite),
        "weir-log-line" => text::faults(text, Scope::Log),
        "weir-map-of" => text::faults(text, Scope::Map),
        "weir-key-value" => text::faults(text, Scope::Key),
        "weir-body" | "weir-page" => text::faults_of_plain(text),
        "weir-field-name" | "weir-field-match" | "weir-pair-match" | "weir-name-glob"
        | "weir-cookie-name" => variables(nginx::in_condition),
        "weir-metric-expression" => MetricExpression::parse(text)
            .err()
            .map(|(place, sentence)| Fault::at(place, sentence))
            .into_iter()
            .collect(),
        "weir-host-rule" => variables(nginx::in_host),
        _ => Vec::new(),
    };
    match found.is_empty() {
        true => check_format(format, text).err().map(Fault::whole).into_iter().collect(),
        false => found,
    }
}

/// Where a field stands: with what is known there.
fn field_scope(path: &[String]) -> Scope {
    let has = |key: &str| path.iter().any(|known| known == key);
    match (has("request_headers"), has("response_headers")) {
        (true, _) => Scope::Request,
        (_, true) => Scope::Response,
        _ => Scope::Answer,
    }
}

/// Checks `text` against the value type that is called `format` in the JSON Schema. An unknown format accepts
/// every text.
pub(crate) fn check_format(format: &str, text: &str) -> Result<(), String> {
    match format {
        "weir-duration" => text.parse::<Duration>().map(drop),
        "weir-size" => text.parse::<Size>().map(drop),
        "weir-rate-limit" => text.parse::<RateLimit>().map(drop),
        "weir-upstream" => text.parse::<UpstreamRule>().map(drop),
        "weir-sent-path" => text.parse::<SentPath>().map(drop),
        "weir-authority" => text.parse::<Authority>().map(drop),
        "weir-status-ranges" => text.parse::<StatusRanges>().map(drop),
        "weir-rate" => text.parse::<ByteRate>().map(drop),
        "weir-parameter-name" => text.parse::<ParameterName>().map(drop),
        "weir-listen" => text.parse::<ListenAddress>().map(drop),
        "weir-trusted-proxy" => text.parse::<TrustedProxy>().map(drop),
        "weir-origin" => text.parse::<OriginUrl>().map(drop),
        "weir-nameserver" => text.parse::<Nameserver>().map(drop),
        "weir-host-pattern" => text.parse::<HostPattern>().map(drop),
        "weir-route-host" => text.parse::<RouteHost>().map(drop),
        "weir-host-rule" => text.parse::<HostRule>().map(drop),
        "weir-path-glob" => text.parse::<PathGlob>().map(drop),
        "weir-path-prefix" => text.parse::<PathPrefix>().map(drop),
        "weir-path-regex" => text.parse::<PathRegex>().map(drop),
        "weir-field-name" => text.parse::<FieldName>().map(drop),
        "weir-field-match" => text.parse::<FieldMatch>().map(drop),
        "weir-field-value" => header::check_field_value(text),
        "weir-pair-match" => text.parse::<PairMatch>().map(drop),
        "weir-name-glob" => text.parse::<NameGlob>().map(drop),
        "weir-cookie-name" => text.parse::<CookieName>().map(drop),
        "weir-hash-of" => text.parse::<HashOf>().map(drop),
        "weir-method" => text.parse::<MethodName>().map(drop),
        "weir-value" => text::check_any_field(text),
        "weir-body" => header::check_body(text),
        "weir-page" => header::check_page(text),
        "weir-target" => text.parse::<Target>().map(drop),
        "weir-rewrite" => text.parse::<RewriteTarget>().map(drop),
        "weir-back" => text.parse::<BackText>().map(drop),
        "weir-text-glob" => text.parse::<TextGlob>().map(drop),
        "weir-log-line" => text.parse::<LogLine>().map(drop),
        "weir-map-of" => text.parse::<MapOf>().map(drop),
        "weir-map-match" => text.parse::<MapMatch>().map(drop),
        "weir-map-name" => text::check_map_name(text),
        "weir-key-value" => text.parse::<KeyValue>().map(drop),
        "weir-path" => text.parse::<PathText>().map(drop),
        "weir-file-glob" => text.parse::<FileGlob>().map(drop),
        "weir-directory" => text.parse::<DirectoryUrl>().map(drop),
        "weir-file-name" => text.parse::<FileName>().map(drop),
        "weir-fallback" => text.parse::<Fallback>().map(drop),
        "weir-file" => text.parse::<FilePath>().map(drop),
        "weir-log-target" => text.parse::<LogTarget>().map(drop),
        "weir-health-path" => text.parse::<PathPrefix>().map(drop),
        "weir-session-of" => text.parse::<SessionOf>().map(drop),
        "weir-node" => session::check_node(text),
        "weir-cookie-path" => session::check_cookie_path(text),
        "weir-sni" => address::check_name(text).map(drop),
        "weir-pick-name" => text::check_pick_name(text),
        "weir-upstream-name" => header::check_upstream_name(text),
        "weir-page-status" => header::check_page_status(text),
        "weir-gmond" => text.parse::<Gmond>().map(drop),
        "weir-metrics-url" => text.parse::<MetricsUrl>().map(drop),
        "weir-metrics-name" => metrics::check_source_name(text),
        "weir-metric-name" => metrics::check_name(text),
        "weir-metric-expression" => text.parse::<MetricExpression>().map(drop),
        "weir-percent" => text.parse::<Percent>().map(drop),
        "weir-percentile" => text.parse::<Percentile>().map(drop),
        "weir-stored-statuses" => status::check_storable(text),
        "weir-error-statuses" => status::check_errors(text),
        _ => distributor::check_format(format, text),
    }
}

#[cfg(test)]
mod tests;
