//! Several ranges in one response (RFC 9110 §14.6), read strictly.

use crate::response::Response;

/// The first and last byte of each part of a `multipart/byteranges`. Every byte of the message is looked at,
/// and those of the parts are compared with the whole body.
///
/// # Panics
/// Where it is another response, or a byte of it is not as it should be.
pub fn byteranges(found: &Response, body: &[u8], content_type: Option<&str>) -> Vec<(usize, usize)> {
    assert_eq!((found.status(), found.header("content-range")), (206, None), "{}", found.cache_status());
    let whole_type = found.header("content-type").unwrap();
    let boundary = whole_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let content_length = found.header("content-length").unwrap();
    assert_eq!(content_length, found.body.len().to_string());
    let (mut rest, mut parts) = (&found.body[..], Vec::new());
    let mut delimiter = format!("--{boundary}");
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).expect("a delimiter");
        delimiter = format!("\r\n--{boundary}");
        if rest == b"--\r\n" {
            return parts;
        }
        let head_end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[..head_end]).unwrap();
        rest = &rest[head_end + 4..];
        let field = |name: &str| {
            let lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
            lines.filter(|(said, _)| said.eq_ignore_ascii_case(name)).map(|(_, value)| value).last()
        };
        assert_eq!(field("content-type"), content_type);
        let (range, total) =
            field("content-range").unwrap().strip_prefix("bytes ").unwrap().split_once('/').unwrap();
        assert_eq!(total.parse(), Ok(body.len()));
        let (first, last) = range.split_once('-').unwrap();
        let (first, last) = (first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap());
        assert!(rest[..=last - first] == body[first..=last], "{first}-{last} differs");
        rest = &rest[last - first + 1..];
        parts.push((first, last));
    }
}
