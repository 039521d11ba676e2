//! What a server says of itself: read by URL, command or file, in the formats that servers have.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::body::{Body, Content};
use crate::head::Head;
use crate::scenario::client::{Ask, Client, Endpoint};
use crate::scenario::server::{self, Server};
use crate::scenario::settings::{Format, Says, ServerSettings};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 30;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The figures that a server says, by the names that the settings give them.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Asks the server for its figures.
///
/// # Errors
/// In words: nothing answers, or a figure is not there.
pub(crate) fn ask(server: &Server, says: &Says) -> Result<Figures, String> {
    let text = text(server, says)?;
    let read = |(name, place): (&String, &String)| match find(says.format, &text, place) {
        Some(value) => Ok((name.clone(), value)),
        None => Err(format!("`{name}`: there is no `{place}` in what the server says")),
    };
    says.figures.iter().map(read).collect()
}

fn text(server: &Server, says: &Says) -> Result<String, String> {
    match (&says.url, &says.command, &says.file) {
        (Some(url), None, None) => {
            let (base, path) = split(&server.filled(url));
            let asked = fetch(&server.settings, &base, Ask::get(path), &says.headers)?;
            match asked.0 {
                200 => Ok(asked.1),
                status => Err(format!("{base} answered {status}")),
            }
        }
        (None, Some(command), None) => server::run(&server.filled_words(command)),
        (None, None, Some(file)) => {
            let path = server.filled(file);
            let bad = |error: std::io::Error| format!("{path}: {error}");
            match std::fs::metadata(&path).map_err(bad)?.len() {
                0..=FILE_BYTES_MAX => {
                    Ok(String::from_utf8_lossy(&std::fs::read(&path).map_err(bad)?).into_owned())
                }
                bytes => Err(format!("{path} has {bytes} bytes, more than {FILE_BYTES_MAX}")),
            }
        }
        _ => Err("`says` has one of `url`, `command` and `file`".to_owned()),
    }
}

/// Host and path of a URL.
pub(crate) fn split(url: &str) -> (String, String) {
    let from = url.find("://").map_or(0, |at| at + 3);
    match url[from..].find('/') {
        Some(at) => (url[..from + at].to_owned(), url[from + at..].to_owned()),
        None => (url.to_owned(), "/".to_owned()),
    }
}

/// One request to the server, or to another address of it. Returns the status and the content.
///
/// # Errors
/// In words.
pub(crate) fn fetch(
    settings: &ServerSettings,
    base: &str,
    mut ask: Ask,
    headers: &[String],
) -> Result<(u16, String), String> {
    let settings = ServerSettings { url: base.to_owned(), ..settings.clone() };
    let endpoint = Endpoint::new(&settings).map_err(|error| error.to_string())?;
    for line in headers {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("`{line}` is no header"))?;
        ask = ask.with(name.trim(), value.trim());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut client = Client::new(endpoint.into(), TIMEOUT);
    let kept = |head: &Head, _: &[(String, String)]| Body::new(head.framing, 0, Content::Kept);
    let response = runtime.block_on(client.ask(&ask, kept)).map_err(|failure| failure.detail)?;
    Ok((response.status, String::from_utf8_lossy(&response.body.kept).into_owned()))
}

/// A figure by its place.
pub(crate) fn find(format: Format, text: &str, place: &str) -> Option<f64> {
    match format {
        // A series of a metric with labels begins with the first that is counted.
        Format::Prometheus => {
            let is_begun = || place.contains('{') && text.lines().any(|line| !line.starts_with('#'));
            prometheus(text, place).or_else(|| is_begun().then_some(0.0))
        }
        Format::Json => {
            let said: Value = serde_json::from_str(text).ok()?;
            place.split('+').map(|pointer| number(said.pointer(pointer.trim())?)).sum()
        }
        Format::Numbers => {
            let at: usize = place.parse().ok()?;
            let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
            let numbers = words.filter(|word| word.chars().any(|c| c.is_ascii_digit()));
            numbers.skip(at.checked_sub(1)?).find_map(|word| word.trim_matches('.').parse().ok())
        }
        Format::Lines => lines(text, place),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Array(all) => all.iter().map(number).sum(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The sum of the samples of a metric, those alone that have all labels which the place names:
/// `name` or `name{label="value"}`; several with `+` between them.
fn prometheus(text: &str, place: &str) -> Option<f64> {
    let mut sum = None;
    for one in place.split('+').map(str::trim) {
        let (name, labels) = one.split_once('{').unwrap_or((one, "}"));
        let labels: Vec<&str> = labels
            .trim_end_matches('}')
            .split(',')
            .map(str::trim)
            .filter(|label| !label.is_empty())
            .collect();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some(rest) = line.strip_prefix(name) else { continue };
            let (said, value) = match rest.strip_prefix('{') {
                Some(rest) => match rest.rsplit_once('}') {
                    Some((said, value)) => (said, value),
                    None => continue,
                },
                None if rest.starts_with(' ') => ("", rest),
                None => continue,
            };
            let value = value.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
            if labels.iter().all(|label| said.contains(label))
                && let Some(value) = value
            {
                *sum.get_or_insert(0.0) += value;
            }
        }
    }
    sum
}

/// `count`, or the sum of a column; behind `where` the words that lines must have: `2 where MISS`.
fn lines(text: &str, place: &str) -> Option<f64> {
    let (what, word) = match place.split_once(" where ") {
        Some((what, word)) => (what.trim(), Some(word.trim())),
        None => (place.trim(), None),
    };
    let fitting = text
        .lines()
        .filter(|line| word.is_none_or(|word| line.split_ascii_whitespace().any(|one| one == word)));
    if what == "count" {
        return Some(fitting.count() as f64);
    }
    let column: usize = what.parse().ok()?;
    let at = column.checked_sub(1)?;
    // A proxy writes `-` where there was nothing.
    let number = |line: &str| line.split_ascii_whitespace().nth(at)?.parse::<f64>().ok();
    Some(fitting.filter_map(number).sum())
}
