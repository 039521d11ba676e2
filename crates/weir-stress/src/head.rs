//! Parses as much of a response head as is needed for its status and for where the body ends (RFC 9112 §6.3).
//! It does not validate.

/// The field in which a scenario's own origin says which version of an object it sends.
pub(crate) const VERSION: &str = "stress-version";

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    Close,
}

/// What is needed of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    pub(crate) closes: bool,
    /// `Content-Range: bytes a-b/l` as (a, b + 1, l).
    pub(crate) range: Option<(u64, u64, u64)>,
    /// The version that the scenario's own origin has said ([`VERSION`]).
    pub(crate) version: Option<u64>,
    pub(crate) head_bytes: usize,
}

/// The bytes are not a response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoHead;

/// Parses a head at the start of `bytes`. `None` while it is not complete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Head>, NoHead> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let status = status(bytes).ok_or(NoHead)?;
    let bodiless = status < 200 || status == 204 || status == 304;
    let framing = if bodiless { Framing::Length(0) } else { Framing::Close };
    let closes = bytes.starts_with(b"HTTP/1.0");
    let mut head = Head { status, framing, closes, range: None, version: None, head_bytes: end + 4 };
    let lines = &bytes[..end + 2];
    let mut from = memchr::memchr(b'\n', lines).ok_or(NoHead)? + 1;
    while let Some(length) = memchr::memchr(b'\n', &lines[from..]) {
        field(&mut head, &lines[from..from + length], bodiless)?;
        from += length + 1;
    }
    head.closes |= head.framing == Framing::Close;
    Ok(Some(head))
}

fn status(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"HTTP/1.").filter(|rest| rest.len() > 5)?.get(2..5)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn field(head: &mut Head, line: &[u8], bodiless: bool) -> Result<(), NoHead> {
    match line.first() {
        Some(b'C' | b'c') => {}
        Some(b'T' | b't') => {
            if !bodiless && value(line, b"transfer-encoding").is_some_and(|value| names(value, b"chunked")) {
                head.framing = Framing::Chunked;
            }
            return Ok(());
        }
        Some(b'S' | b's') => {
            head.version = value(line, VERSION.as_bytes()).and_then(number).or(head.version);
            return Ok(());
        }
        _ => return Ok(()),
    }
    if let Some(value) = value(line, b"content-length") {
        let length = number(value).ok_or(NoHead)?;
        if !bodiless && head.framing != Framing::Chunked {
            head.framing = Framing::Length(length);
        }
    } else if let Some(value) = value(line, b"connection") {
        head.closes |= names(value, b"close");
    } else if let Some(value) = value(line, b"content-range") {
        head.range = content_range(value);
    }
    Ok(())
}

fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    if !found.eq_ignore_ascii_case(name) {
        return None;
    }
    Some(rest.strip_prefix(b":")?.trim_ascii())
}

fn names(value: &[u8], token: &[u8]) -> bool {
    value.split(|&b| b == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(token))
}

pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// All fields of a head that [`parse`] has accepted, names in lower case.
pub(crate) fn fields(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    text.lines().skip(1).filter_map(pair).collect()
}

/// The interval and the whole length that `Content-Range` says.
pub(crate) fn content_range(value: &[u8]) -> Option<(u64, u64, u64)> {
    let rest = value.strip_prefix(b"bytes ")?;
    let dash = memchr::memchr(b'-', rest)?;
    let slash = memchr::memchr(b'/', rest)?;
    let last = number(rest.get(dash + 1..slash)?)?;
    Some((number(&rest[..dash])?, last.checked_add(1)?, number(&rest[slash + 1..])?))
}
