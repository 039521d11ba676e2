//! The values of the configuration: texts with a meaning, parsed once. Each type has its own text form in the
//! file, its own check with a message, and its own entry in the JSON Schema (by `format`). Must not read a
//! file or resolve a name.

mod address;
mod directory;
mod header;
mod measure;
mod path;
mod place;
mod rate;
mod template;

pub use address::{HostPattern, HostRule, ListenAddress, OriginScheme, OriginUrl, TrustedProxy};
pub use directory::DirectoryUrl;
pub use header::{CookieName, FieldMatch, FieldName, MethodName, NameGlob};
pub use measure::{Duration, Size};
pub use path::{PathGlob, PathPrefix, PathRegex};
pub use place::{FileGlob, FilePath, LogTarget, PathText};
pub use rate::{ByteRate, ParameterName};
pub use template::{Part, Template};

/// Gives a text type its conversions for serde and its JSON Schema, whose `format` names the check.
macro_rules! text_value {
    ($name:ident, $format:literal, $what:literal) => {
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "format": $format, "description": $what })
            }
        }
    };
}
pub(crate) use text_value;

/// Checks `text` against the value type that is called `format` in the JSON Schema. An unknown format accepts
/// every text.
pub(crate) fn check_format(format: &str, text: &str) -> Result<(), String> {
    match format {
        "weir-duration" => text.parse::<Duration>().map(drop),
        "weir-size" => text.parse::<Size>().map(drop),
        "weir-rate" => text.parse::<ByteRate>().map(drop),
        "weir-parameter-name" => text.parse::<ParameterName>().map(drop),
        "weir-listen" => text.parse::<ListenAddress>().map(drop),
        "weir-trusted-proxy" => text.parse::<TrustedProxy>().map(drop),
        "weir-origin" => text.parse::<OriginUrl>().map(drop),
        "weir-host-pattern" => text.parse::<HostPattern>().map(drop),
        "weir-host-rule" => text.parse::<HostRule>().map(drop),
        "weir-path-glob" => text.parse::<PathGlob>().map(drop),
        "weir-path-prefix" => text.parse::<PathPrefix>().map(drop),
        "weir-path-regex" => text.parse::<PathRegex>().map(drop),
        "weir-field-name" => text.parse::<FieldName>().map(drop),
        "weir-field-match" => text.parse::<FieldMatch>().map(drop),
        "weir-field-value" => header::check_field_value(text),
        "weir-name-glob" => text.parse::<NameGlob>().map(drop),
        "weir-cookie-name" => text.parse::<CookieName>().map(drop),
        "weir-method" => text.parse::<MethodName>().map(drop),
        "weir-template" => text.parse::<Template>().map(drop),
        "weir-path" => text.parse::<PathText>().map(drop),
        "weir-file-glob" => text.parse::<FileGlob>().map(drop),
        "weir-directory" => text.parse::<DirectoryUrl>().map(drop),
        "weir-file" => text.parse::<FilePath>().map(drop),
        "weir-log-target" => text.parse::<LogTarget>().map(drop),
        "weir-health-path" => text.parse::<PathPrefix>().map(drop),
        "weir-sni" => address::check_name(text).map(drop),
        "weir-upstream-name" => header::check_upstream_name(text),
        "weir-page-status" => header::check_page_status(text),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
