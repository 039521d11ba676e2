//! The queries of `/v1/content` and of the Monkey cache's addresses.

use std::time::Duration;

use super::{LIMIT, encode, fields, limit};
use crate::data_plane::ContentWanted;

/// The path.
pub const CONTENT: &str = "/v1/content";

/// What a query says of content that is to be laid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentNamed {
    /// The URL; none where the path has it.
    pub url: Option<String>,
    /// The site, where the path has only a path.
    pub site: Option<String>,
    /// The media type.
    pub content_type: Option<String>,
    /// After which time it ends by itself.
    pub ttl: Option<Duration>,
}

/// Path and query for laying content, or for resetting it.
pub fn write_content(named: &ContentNamed) -> String {
    let mut text = CONTENT.to_owned();
    let ttl = named.ttl.map(|ttl| format!("{}ms", ttl.as_millis()));
    let all = [("url", &named.url), ("type", &named.content_type), ("ttl", &ttl)];
    for (name, value) in all {
        let Some(value) = value else { continue };
        text.push(if text.len() == CONTENT.len() { '?' } else { '&' });
        text += &format!("{name}=");
        encode(&mut text, value);
    }
    text
}

/// Path and query for a page.
pub fn write_content_list(wanted: &ContentWanted) -> String {
    let mut text = format!("{CONTENT}?limit={}", wanted.limit);
    let all = [("site", &wanted.site), ("prefix", &wanted.prefix), ("after", &wanted.after)];
    for (name, value) in all {
        if let Some(value) = value {
            text += &format!("&{name}=");
            encode(&mut text, value);
        }
    }
    text
}

/// What a query asks for.
///
/// # Errors
/// A sentence.
pub(crate) fn read_content_list(query: &str) -> Result<ContentWanted, String> {
    let mut wanted = ContentWanted { limit: LIMIT, ..ContentWanted::default() };
    for field in fields(query) {
        let (name, value) = field?;
        match name {
            "site" => wanted.site = Some(value),
            "prefix" => wanted.prefix = Some(value),
            "after" => wanted.after = Some(value),
            "limit" => wanted.limit = limit(&value)?,
            _ => return Err(format!("{name} is not known; there are site, prefix, limit and after")),
        }
    }
    Ok(wanted)
}

/// What a query says of content; `known` are the parameters that it may have.
///
/// # Errors
/// A sentence.
pub(crate) fn read_content(query: &str, known: &[&str]) -> Result<ContentNamed, String> {
    let mut named = ContentNamed::default();
    for field in fields(query) {
        let (name, value) = field?;
        match name {
            _ if !known.contains(&name) => {
                return Err(format!("{name} is not known; there are {}", known.join(", ")));
            }
            "url" => named.url = Some(value),
            "site" => named.site = Some(value),
            "type" => named.content_type = Some(value),
            _ => {
                let ttl: weir_config::value::Duration = value.parse().map_err(|why| format!("ttl: {why}"))?;
                if ttl.0.subsec_nanos() != 0 || ttl.0.is_zero() {
                    return Err("ttl: name whole seconds, and at least one".to_owned());
                }
                named.ttl = Some(ttl.0);
            }
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] = &["url", "site", "type", "ttl"];

    #[test]
    fn what_is_written_is_read() {
        let named = ContentNamed {
            url: Some("https://a.test/ö?x=1&y=2#%".to_owned()),
            site: None,
            content_type: Some("text/html; charset=utf-8".to_owned()),
            ttl: Some(Duration::from_secs(90)),
        };
        let written = write_content(&named);
        let (path, query) = written.split_once('?').unwrap();
        assert!(path == CONTENT && written.parse::<http::Uri>().is_ok(), "{written}");
        assert_eq!(read_content(query, ALL), Ok(named));
        let wanted = ContentWanted {
            site: Some("a.test".to_owned()),
            sites: None,
            prefix: Some("a.test/b?".to_owned()),
            limit: 3,
            after: Some("a.test/ü".to_owned()),
        };
        let written = write_content_list(&wanted);
        assert_eq!(read_content_list(written.split_once('?').unwrap().1), Ok(wanted));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for query in ["ttl=1", "ttl=0s", "ttl=1500ms", "ttl=-1s", "uri=x", "url=%zz", "url=%ff"] {
            assert!(read_content(query, ALL).is_err(), "{query}");
        }
        assert!(read_content("type=a/b", &["url"]).is_err());
        assert!(read_content_list("limit=0").is_err() && read_content_list("url=x").is_err());
    }
}
