//! A received response, read strictly: the kit accepts none that a careful client would refuse.

use std::fmt;
use std::time::Duration;

use crate::fields::joined;

/// A response's first lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `HTTP/1.1`, `HTTP/1.0` or `HTTP/2`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// Names (as sent) and values, in order.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// Parses a head without its final empty line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Head, String> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let mut parts = first.splitn(3, ' ');
        let version = parts.next().unwrap_or_default().to_owned();
        let status = parts.next().and_then(|s| s.parse().ok()).ok_or(format!("status line {first:?}"))?;
        if parts.next().is_none() || !matches!(version.as_str(), "HTTP/1.1" | "HTTP/1.0") {
            return Err(format!("status line {first:?}"));
        }
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or(format!("line without a colon {line:?}"))?;
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if name.is_empty() || !name.chars().all(token) || value.contains(['\r', '\n', '\0']) {
                return Err(format!("field {line:?}"));
            }
            headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        Ok(Head { version, status, headers })
    }

    /// The values of `name`, joined by `, `; `None` where the field is absent.
    pub fn header(&self, name: &str) -> Option<String> {
        joined(&self.headers, name)
    }

    /// Each value of `name`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }
}

/// A whole response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// 1xx heads that came before it.
    pub interim: Vec<Head>,
    /// The final head.
    pub head: Head,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// Trailer fields of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The sizes of its chunks, or of its DATA frames; empty if it was not chunked.
    pub chunks: Vec<usize>,
    /// From the call of `recv` to the final head.
    pub first_byte: Duration,
    /// From the call of `recv` to the end.
    pub whole: Duration,
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The values of `name`, joined; `None` where the field is absent.
    pub fn header(&self, name: &str) -> Option<String> {
        self.head.header(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Weir's own member of `Cache-Status`, such as `weir; hit; ttl=58`; empty if there is none.
    pub fn cache_status(&self) -> String {
        let value = self.header("cache-status").unwrap_or_default();
        value.split(", ").filter(|m| m.starts_with("weir")).last().unwrap_or_default().to_owned()
    }

    /// Whether Weir answered from its store without asking the origin (RFC 9211 §2.1).
    pub fn is_hit(&self) -> bool {
        self.cache_status().split("; ").any(|part| part == "hit")
    }

    /// The `fwd` parameter of Weir's Cache-Status (RFC 9211 §2.2).
    pub fn fwd(&self) -> Option<String> {
        self.cache_status().split("; ").find_map(|part| part.strip_prefix("fwd=").map(ToOwned::to_owned))
    }

    /// `Age` in seconds.
    pub fn age(&self) -> Option<u64> {
        self.header("age").and_then(|v| v.parse().ok())
    }
}

/// Why no whole response came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The connection ended (or was reset) before a byte of a response.
    Closed,
    /// The connection ended within the response. Has the part that came.
    Cut(Box<Response>),
    /// Nothing came for the client's patience. Has the part that came.
    Silent(Box<Response>),
    /// What came is no response of its protocol.
    Malformed(String),
    /// Its stream was reset, with this code. Has the part that came.
    Reset(u32, Box<Response>),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Closed => f.write_str("closed before a response"),
            Trouble::Cut(r) => write!(f, "cut after {} bytes of the body of {:?}", r.body.len(), r.head),
            Trouble::Silent(r) => {
                write!(f, "silent after {} bytes of the body of {:?}", r.body.len(), r.head)
            }
            Trouble::Malformed(what) => write!(f, "malformed: {what}"),
            Trouble::Reset(code, r) => {
                write!(f, "reset with {code} after {} bytes of the body of {:?}", r.body.len(), r.head)
            }
        }
    }
}
