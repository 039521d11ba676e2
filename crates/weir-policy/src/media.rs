//! The media type of a response (RFC 9110 §8.3.1), as lists and searches name it.

use http::{HeaderMap, header};

/// The longest media type that is read, in bytes (RFC 6838 §4.2 allows 127 on each side of the slash).
pub const MEDIA_TYPE_BYTES_MAX: usize = 255;

/// The media type without its parameters, in lower case: `text/html`. `None` where `Content-Type` is missing,
/// names none, or a longer one.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    let (of, subtype) = essence.split_once('/')?;
    let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_of_token);
    let fits = essence.len() <= MEDIA_TYPE_BYTES_MAX && is_token(of) && is_token(subtype);
    fits.then(|| essence.to_ascii_lowercase())
}

/// RFC 9110 §5.6.2.
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_type_is_read_without_its_parameters() {
        let long = format!("text/{}", "x".repeat(251));
        for (value, expect) in [
            ("text/html", Some("text/html")),
            ("Text/HTML; charset=utf-8", Some("text/html")),
            (" image/svg+xml ;q=1", Some("image/svg+xml")),
            ("text", None),
            ("text/", None),
            ("/html", None),
            ("text/ht ml", None),
            ("text/html/x", None),
            ("", None),
            (&long, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(value).unwrap());
            assert_eq!(media_type(&headers).as_deref(), expect, "{value}");
        }
        assert_eq!(media_type(&HeaderMap::new()), None);
    }
}
