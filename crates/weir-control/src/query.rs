//! The query of `GET /objects`, written by the command line and read by the socket.

use std::fmt::Write;

use crate::plane::ListOrder;

/// The path.
pub const OBJECTS: &str = "/objects";
/// How many objects a page has where nobody says, and at most.
pub const LIMIT: usize = 100;
/// How many objects a page has at most.
pub const LIMIT_MAX: usize = 10_000;

/// Path and query for an order.
pub fn write(order: &ListOrder) -> String {
    let mut text = format!("{OBJECTS}?limit={}", order.limit);
    let fields =
        [("site", &order.site), ("prefix", &order.prefix), ("tag", &order.tag), ("after", &order.after)];
    for (name, value) in fields {
        if let Some(value) = value {
            text += &format!("&{name}=");
            encode(&mut text, value);
        }
    }
    text
}

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

/// What a query asks for.
///
/// # Errors
/// A sentence.
pub(crate) fn read(query: &str) -> Result<ListOrder, String> {
    let mut order = ListOrder { limit: LIMIT, ..ListOrder::default() };
    for field in query.split('&').filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let value = decode(value).ok_or_else(|| format!("{name} is not percent-encoded UTF-8"))?;
        match name {
            "site" => order.site = Some(value),
            "prefix" => order.prefix = Some(value),
            "tag" => order.tag = Some(value),
            "after" => order.after = Some(value),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                order.limit = limit.ok_or_else(|| format!("limit is between 1 and {LIMIT_MAX}"))?;
            }
            _ => return Err(format!("{name} is not known; there are site, prefix, tag, limit and after")),
        }
    }
    Ok(order)
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

    #[test]
    fn what_is_written_is_read() {
        let order = ListOrder {
            site: Some("a.test".to_owned()),
            prefix: Some("http://a.test/ö?x=1&y=%20 +".to_owned()),
            tag: Some(String::new()),
            limit: 7,
            after: None,
        };
        let written = write(&order);
        let (path, query) = written.split_once('?').unwrap();
        assert!(path == OBJECTS && written.parse::<http::Uri>().is_ok(), "{written}");
        assert_eq!(read(query), Ok(order));
        assert_eq!(read("").map(|order| order.limit), Ok(LIMIT));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for query in ["limit=0", "limit=x", "limit=10001", "sites=a", "site=%", "site=%+1", "tag=%ff"] {
            assert!(read(query).is_err(), "{query}");
        }
    }
}
