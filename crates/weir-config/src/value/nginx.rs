//! What nginx says inside of texts and Weir says otherwise: variables, signs before patterns, expressions
//! where a glob stands. A correct file never needs it. Must not change a text.

use std::ops::Range;

/// nginx's variables with Weir's text for each; without braces it is a remark, as there is no such
/// placeholder.
const VARIABLES: [(&str, &str); 43] = [
    ("remote_addr", "{client.address}"),
    ("binary_remote_addr", "{client.address}"),
    ("realip_remote_addr", "{client.address}"),
    ("proxy_add_x_forwarded_for", "Weir sends `X-Forwarded-For` by itself"),
    ("remote_user", "Weir does not know who the user is"),
    ("remote_port", "Weir keeps no client's port"),
    ("request_method", "{method}"),
    ("server_protocol", "{protocol}"),
    ("server_name", "{site}"),
    ("server_addr", "Weir does not say its own address"),
    ("server_port", "{listener.port}"),
    ("request_uri", "{uri}"),
    ("uri", "{path}"),
    ("document_uri", "{path}"),
    ("request_filename", "Weir reads no files of a site"),
    ("document_root", "Weir reads no files of a site"),
    ("request", "{method} {uri} {protocol}"),
    ("request_id", "{request_id}"),
    ("request_completion", "{completion}"),
    ("args", "{query}"),
    ("query_string", "{query}"),
    ("is_args", "write `?{query}`; a `?` without a query is left out"),
    ("scheme", "{scheme}"),
    ("https", "{scheme}"),
    ("host", "{hostname}"),
    ("content_type", "{header.Content-Type}"),
    ("content_length", "{header.Content-Length}"),
    ("status", "{status}"),
    ("body_bytes_sent", "{body_bytes}"),
    ("bytes_sent", "{body_bytes}"),
    ("request_time", "{total_ms}"),
    ("time_local", "{time.log}"),
    ("time_iso8601", "{time.iso}"),
    ("msec", "{time.unix_ms}"),
    ("proxy_host", "{upstream}"),
    ("upstream_addr", "{origin}"),
    ("upstream_status", "{origin.status}"),
    ("upstream_connect_time", "{origin.connect_ms}"),
    ("upstream_header_time", "{origin.first_byte_ms}"),
    ("upstream_response_time", "{origin.first_byte_ms}"),
    ("upstream_cache_status", "{outcome}"),
    ("ssl_protocol", "{tls.version}"),
    ("ssl_server_name", "{tls.name}"),
];

/// A field of a response: what Weir answers has no placeholder for it.
const OF_RESPONSE: &str = "no placeholder stands for a field of a response";

/// Weir's text for a variable of nginx, or a remark where there is none; `name` is without its `$`.
pub(crate) fn instead_of(name: &str) -> Option<String> {
    if let Some((_, ours)) = VARIABLES.iter().find(|(theirs, _)| *theirs == name) {
        return Some((*ours).to_owned());
    }
    let named = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    if name == "http_host" {
        return Some("{host}".to_owned());
    }
    if named("sent_http_").or_else(|| named("upstream_http_")).is_some() {
        return Some(OF_RESPONSE.to_owned());
    }
    match (named("http_"), named("cookie_"), named("arg_")) {
        (Some(field), ..) => Some(format!("{{header.{}}}", field_name(field))),
        (_, Some(cookie), _) => Some(format!("{{cookie.{cookie}}}")),
        (.., Some(parameter)) => Some(format!("{{query.{parameter}}}")),
        _ => None,
    }
}

/// `user_agent` as a field is written: `User-Agent`.
fn field_name(name: &str) -> String {
    let capital = |word: &str| {
        let mut chars = word.chars();
        let first = chars.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    };
    name.split('_').map(capital).collect::<Vec<_>>().join("-")
}

/// The known variables in a text, with their names; `$1` to `$9` are among them.
pub(super) fn variables(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('$') {
        let rest = &text[at + 1..];
        let length = match rest.as_bytes().first() {
            Some(b'1'..=b'9') => 1,
            _ => rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()),
        };
        let name = &rest[..length];
        // `$2y$10$…` is a hash of a password.
        let is_longer = is_capture(name) && rest[1..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if !is_longer && (is_capture(name) || instead_of(name).is_some()) {
            found.push((at..at + 1 + length, name));
        }
    }
    found
}

pub(super) fn is_capture(name: &str) -> bool {
    matches!(name.as_bytes(), [b'1'..=b'9'])
}

/// What is wrong with a variable in a text with placeholders.
pub(super) fn in_value(name: &str) -> String {
    let ours = match is_capture(name) {
        true => format!("{{{name}}}"),
        false => instead_of(name).unwrap_or_default(),
    };
    let begins = format!("`${name}` is a variable of nginx, and only text here");
    match ours.starts_with('{') {
        true => format!("{begins}: did you mean `{ours}`?"),
        false => format!("{begins}: {ours}"),
    }
}

/// What is wrong with a variable in a condition, where names stand alone.
pub(super) fn in_condition(name: &str) -> String {
    let begins = format!("`${name}` is a variable of nginx, and only text here");
    let meant = if let Some(cookie) = name.strip_prefix("cookie_") {
        format!("cookies = [\"{cookie}\"]")
    } else if let Some(parameter) = name.strip_prefix("arg_") {
        format!("query = [\"{parameter}\"]")
    } else if let Some(field) = name.strip_prefix("http_") {
        format!("headers = [\"{}\"]", field_name(field))
    } else {
        return format!("{begins}: a condition names a cookie, a parameter or a field by its name alone");
    };
    format!("{begins}: did you mean `{meant}`?")
}

/// What is wrong with a variable in the `Host` that an origin is sent.
pub(super) fn in_host(name: &str) -> String {
    let begins = format!("`${name}` is a variable of nginx, and only text here");
    match name {
        "host" | "http_host" => format!("{begins}: `client` is the client's, which is the default"),
        "proxy_host" => format!("{begins}: `origin` is the origin's own name"),
        _ => format!("{begins}: write `client`, `origin` or a name"),
    }
}

/// What follows nginx's sign of an expression, `~` or `~*`, as an expression of Weir.
pub(super) fn after_sign(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("~*") {
        return Some(format!("(?i){}", rest.trim_start()));
    }
    let rest = text.strip_prefix('~')?;
    rest.starts_with([' ', '^', '\\', '(', '[']).then(|| rest.trim_start().to_owned())
}

/// What is wrong with a text that is no path, but what nginx or an expression has in its place.
pub(super) fn check_path(text: &str) -> Result<(), String> {
    if let Some(rest) = text.strip_prefix("^~") {
        return Err(format!("`^~` is nginx's sign of a prefix: write `prefix = \"{}\"`", rest.trim_start()));
    }
    if let Some(rest) = text.strip_prefix('=').map(str::trim_start).filter(|rest| rest.starts_with('/')) {
        return Err(format!("`=` is nginx's sign of a whole path: write `path = \"{rest}\"`"));
    }
    if let Some(expression) = after_sign(text) {
        return Err(format!("`~` is nginx's sign of an expression: write `regex = '{expression}'`"));
    }
    if !is_expression(text) {
        return Ok(());
    }
    let anchor = if text.starts_with('/') { "^" } else { "" };
    Err(format!(
        "`{text}` is an expression, and no glob: write `regex = '{anchor}{text}'`, or a glob with `*` for \
         any text up to the next `/` and `**` for any text"
    ))
}

/// Whether a text has what only expressions have.
fn is_expression(text: &str) -> bool {
    let has_group = text.contains('(') && text.contains(')');
    text.starts_with('^')
        || text.ends_with('$')
        || text.contains('\\')
        || text.contains("(?")
        || text.contains("(.")
        || text.contains("([")
        || (has_group && text.contains('|'))
}

/// What is wrong with a regular expression that begins as in nginx.
pub(super) fn check_regex(text: &str) -> Result<(), String> {
    match after_sign(text) {
        Some(expression) => {
            let more = match text.starts_with("~*") {
                true => ", where `(?i)` takes small and large letters",
                false => "",
            };
            Err(format!(
                "`~` is nginx's sign of an expression, and part of the path here: did you mean \
                 `'{expression}'`{more}?"
            ))
        }
        None => Ok(()),
    }
}

/// The message of an expression that cannot be compiled, with a remedy where there is one.
pub(super) fn regex_error(error: &regex::Error) -> String {
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return "the expression is too large when compiled".to_owned();
    }
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let remedy = if last.contains("look-around") {
        "; a rule for the exceptions, before this one, says the same"
    } else if last.contains("backreferences") {
        "; an expression takes time linear in the text, and has none"
    } else {
        ""
    };
    format!("not a regular expression: {last}{remedy}")
}

/// What is wrong with a name, a value or a glob that begins as an expression does in nginx.
pub(super) fn check_glob(text: &str) -> Result<(), String> {
    match text.strip_prefix("~*").or_else(|| text.starts_with("~^").then(|| &text[1..])) {
        Some(rest) => {
            let word = rest.trim_start_matches('^').trim_end_matches('$');
            let (before, after) = (!rest.starts_with('^'), !rest.ends_with('$'));
            let star = |is_open: bool| if is_open { "*" } else { "" };
            Err(format!(
                "`~` begins no expression here, and `*` is any text: did you mean `{}{word}{}`?",
                star(before),
                star(after)
            ))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
