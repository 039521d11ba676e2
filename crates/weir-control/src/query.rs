//! The queries of `/v1/objects` and `/v1/sites`, written by the command line and read by the API.

mod content;
mod live;
mod log;
mod objects;
mod top;

use std::fmt::Write;

use crate::history::HistoryOrder;
use crate::sites::SitesOrder;

pub use self::content::{CONTENT, ContentNamed, write_content, write_content_list};
pub(crate) use self::content::{read_content, read_content_list};
pub use self::live::LiveOrder;
pub(crate) use self::live::read_live;
pub(crate) use self::log::read_log;
pub use self::log::{LogKind, LogOrder};
pub(crate) use self::objects::read;
pub use self::objects::{OBJECTS, write};
pub(crate) use self::top::read_top;
pub use self::top::{TOP, TOP_ROWS, TopWanted};

/// The path of the accounts.
pub const SITES: &str = "/v1/sites";
/// The path of the history.
pub const HISTORY: &str = "/v1/history";
/// How many objects or entries a page has by default.
pub const LIMIT: usize = 100;
/// How many objects or entries a page has at most.
pub const LIMIT_MAX: usize = 10_000;

fn encode(out: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
                out.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
}

fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| format!("limit is between 1 and {LIMIT_MAX}"))
}

/// Path and query for the history.
pub fn write_history(order: &HistoryOrder) -> String {
    let mut text = format!("{HISTORY}?limit={}", order.limit);
    let HistoryOrder { site, actor, act, result, since, .. } = order;
    let fields = [("site", site), ("actor", actor), ("act", act), ("result", result), ("since", since)];
    for (name, value) in fields {
        if let Some(value) = value {
            text += &format!("&{name}=");
            encode(&mut text, value);
        }
    }
    text
}

/// What a query asks for of the history.
///
/// # Errors
/// A sentence.
pub(crate) fn read_history(query: &str) -> Result<HistoryOrder, String> {
    let mut order = HistoryOrder { limit: LIMIT, ..HistoryOrder::default() };
    for field in fields(query) {
        let (name, value) = field?;
        match name {
            "site" => order.site = Some(value),
            "actor" => order.actor = Some(value),
            "act" => order.act = Some(value),
            "result" => order.result = Some(value),
            "since" => order.since = Some(value),
            "limit" => order.limit = limit(&value)?,
            _ => {
                return Err(format!(
                    "{name} is not known; there are site, actor, act, result, since and limit"
                ));
            }
        }
    }
    Ok(order)
}

/// Path and query for the accounts.
pub fn write_sites(order: &SitesOrder) -> String {
    let mut text = format!("{SITES}?days={}&live={}", u8::from(order.more.days), u8::from(order.more.live));
    for (name, value) in [("site", &order.site), ("since", &order.since)] {
        if let Some(value) = value {
            text += &format!("&{name}=");
            encode(&mut text, value);
        }
    }
    text
}

/// The form of the accounts' answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Csv,
}

/// What a query asks for of the accounts.
///
/// # Errors
/// A sentence.
pub(crate) fn read_sites(query: &str) -> Result<(SitesOrder, Form), String> {
    let (mut order, mut form) = (SitesOrder::default(), Form::Json);
    for field in fields(query) {
        let (name, value) = field?;
        match (name, value.as_str()) {
            ("site", _) => order.site = Some(value),
            ("since", _) => order.since = Some(value),
            ("days", "0" | "1") => order.more.days = value == "1",
            ("live", "0" | "1") => order.more.live = value == "1",
            ("format", "json") => form = Form::Json,
            ("format", "csv") => form = Form::Csv,
            ("days" | "live", _) => return Err(format!("{name} is 0 or 1")),
            ("format", _) => return Err("format is json or csv".to_owned()),
            _ => return Err(format!("{name} is not known; there are site, since, days, live and format")),
        }
    }
    // A line is for a day.
    order.more.days |= form == Form::Csv;
    Ok((order, form))
}

/// The names and decoded values of a query.
fn fields(query: &str) -> impl Iterator<Item = Result<(&str, String), String>> {
    query.split('&').filter(|field| !field.is_empty()).map(|field| {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let value = decode(value).ok_or_else(|| format!("{name} is not percent-encoded UTF-8"))?;
        Ok((name, value))
    })
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_plane::ListOrder;
    use crate::sites::More;

    #[test]
    fn what_is_written_is_read() {
        let order = ListOrder {
            site: Some("a.test".to_owned()),
            prefix: Some("http://a.test/ö?x=1&y=%20 +".to_owned()),
            tag: Some(String::new()),
            matching: Some("~^http://[a-z]+/\\?".to_owned()),
            size: Some("1MiB..".to_owned()),
            by_hand: Some(false),
            is_sum: true,
            limit: 7,
            ..ListOrder::default()
        };
        let written = write(&order);
        let (path, query) = written.split_once('?').unwrap();
        assert!(path == OBJECTS && written.parse::<http::Uri>().is_ok(), "{written}");
        assert_eq!(read(query), Ok(order));
        assert_eq!(read("").map(|order| order.limit), Ok(LIMIT));
    }

    #[test]
    fn the_accounts_are_asked_for_in_the_same_way() {
        let order = SitesOrder {
            site: Some("ö *".to_owned()),
            since: Some("2026-11".to_owned()),
            more: More { days: true, live: true },
        };
        let written = write_sites(&order);
        let (path, query) = written.split_once('?').unwrap();
        assert!(path == SITES && written.parse::<http::Uri>().is_ok(), "{written}");
        assert_eq!(read_sites(query), Ok((order, Form::Json)));
        assert_eq!(read_sites(""), Ok((SitesOrder::default(), Form::Json)));
        let more = More { days: true, live: false };
        let by_day = SitesOrder { more, ..SitesOrder::default() };
        assert_eq!(read_sites("format=csv"), Ok((by_day, Form::Csv)));
        for query in ["days=2", "format=xml", "limit=1", "site=%"] {
            assert!(read_sites(query).is_err(), "{query}");
        }
    }

    #[test]
    fn the_history_is_asked_for_in_the_same_way() {
        let text = |text: &str| Some(text.to_owned());
        let (site, actor, act) = (text("ö"), text("token:cms"), text("GET /v1/status"));
        let order = HistoryOrder { limit: 3, site, actor, act, result: text("done"), since: text("2026") };
        let written = write_history(&order);
        let (path, query) = written.split_once('?').unwrap();
        assert!(path == HISTORY && written.parse::<http::Uri>().is_ok(), "{written}");
        assert_eq!(read_history(query), Ok(order));
        assert!(read_history("limit=0").is_err() && read_history("mark=1").is_err());
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for query in [
            "limit=0",
            "limit=x",
            "limit=10001",
            "sites=a",
            "sum=yes",
            "by-hand=2",
            "site=%",
            "site=%+1",
            "tag=%ff",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
