//! One resource of the demo origin and how it is answered: preconditions (RFC 9110 §13.2.2, of GET and HEAD)
//! and one range (§14.2). An origin that a cache is tried on must itself be right.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, LAST_MODIFIED, RANGE, SET_COOKIE, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::body::DemoBody;

/// A body with its fields.
#[derive(Debug)]
pub(super) struct Resource {
    status: StatusCode,
    fields: HeaderMap,
    content: Content,
}

/// The content of a resource.
#[derive(Debug)]
pub(super) enum Content {
    /// Bytes at hand.
    Bytes(Bytes),
    /// The offset pattern of this length.
    Pattern(u64),
    /// Lines that come one by one.
    Slow(DemoBody),
}

impl Resource {
    pub(super) fn new(content_type: &'static str, content: Content) -> Resource {
        let mut fields = HeaderMap::new();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Resource { status: StatusCode::OK, fields, content }
    }

    pub(super) fn status(mut self, status: StatusCode) -> Resource {
        self.status = status;
        self
    }

    pub(super) fn field(mut self, name: HeaderName, value: &'static str) -> Resource {
        self.fields.insert(name, HeaderValue::from_static(value));
        self
    }

    pub(super) fn cached(self, cache_control: &'static str) -> Resource {
        self.field(CACHE_CONTROL, cache_control)
    }

    pub(super) fn validated(self, etag: &'static str, last_modified: &'static str) -> Resource {
        self.field(ETAG, etag).field(LAST_MODIFIED, last_modified)
    }

    pub(super) fn varying(self, name: &'static str) -> Resource {
        self.field(VARY, name)
    }

    pub(super) fn cookie(self, cookie: &'static str) -> Resource {
        self.field(SET_COOKIE, cookie)
    }

    /// The response to a request for it.
    pub(super) fn answer(self, request: &Parts) -> Response<DemoBody> {
        let is_read = request.method == Method::GET || request.method == Method::HEAD;
        if is_read && self.status == StatusCode::OK && self.is_unchanged(&request.headers) {
            return self.unchanged();
        }
        let length = match &self.content {
            Content::Pattern(length) if request.method == Method::GET => *length,
            _ => return self.whole(),
        };
        match self.wanted_range(&request.headers, length) {
            Wanted::Whole => self.whole(),
            Wanted::Part(interval) => self.part(interval, length),
            Wanted::Unsatisfiable => self.unsatisfiable(length),
        }
    }

    /// If-None-Match, else If-Modified-Since (RFC 9110 §13.2.2).
    fn is_unchanged(&self, request: &HeaderMap) -> bool {
        if let Some(tags) = request.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()) {
            let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
            let Some(own) = self.text(&ETAG).map(weak) else { return false };
            return tags.split(',').any(|tag| tag.trim() == "*" || weak(tag) == own);
        }
        match (date(request.get(IF_MODIFIED_SINCE)), date(self.fields.get(LAST_MODIFIED))) {
            (Some(since), Some(modified)) => modified <= since,
            _ => false,
        }
    }

    fn wanted_range(&self, request: &HeaderMap, length: u64) -> Wanted {
        let Some(range) = request.get(RANGE).and_then(|range| range.to_str().ok()) else {
            return Wanted::Whole;
        };
        if let Some(condition) = request.get(IF_RANGE)
            && Some(condition) != self.fields.get(ETAG)
            && Some(condition) != self.fields.get(LAST_MODIFIED)
        {
            return Wanted::Whole;
        }
        parse_range(range, length)
    }

    fn text(&self, name: &HeaderName) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }

    fn whole(mut self) -> Response<DemoBody> {
        let body = match self.content {
            Content::Bytes(bytes) => DemoBody::Whole(Some(bytes)),
            Content::Slow(body) => body,
            Content::Pattern(length) => {
                self.fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
                DemoBody::Pattern(0..length)
            }
        };
        respond(self.status, self.fields, body)
    }

    fn part(mut self, interval: Range<u64>, length: u64) -> Response<DemoBody> {
        let value = format!("bytes {}-{}/{length}", interval.start, interval.end - 1);
        self.set_content_range(&value);
        respond(StatusCode::PARTIAL_CONTENT, self.fields, DemoBody::Pattern(interval))
    }

    fn unsatisfiable(mut self, length: u64) -> Response<DemoBody> {
        self.set_content_range(&format!("bytes */{length}"));
        respond(StatusCode::RANGE_NOT_SATISFIABLE, self.fields, DemoBody::Whole(None))
    }

    fn unchanged(mut self) -> Response<DemoBody> {
        self.fields.remove(CONTENT_TYPE);
        respond(StatusCode::NOT_MODIFIED, self.fields, DemoBody::Whole(None))
    }

    fn set_content_range(&mut self, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.fields.insert(CONTENT_RANGE, value);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    Part(Range<u64>),
    Unsatisfiable,
}

/// One range of bytes. Several ranges, or a field that cannot be read, mean the whole body (RFC 9110 §14.2).
pub(super) fn parse_range(range: &str, length: u64) -> Wanted {
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Wanted::Whole;
    };
    let interval = match (number(first), number(last), first.is_empty(), last.is_empty()) {
        (Some(first), Some(last), ..) if first <= last => first..last.saturating_add(1).min(length),
        (Some(first), None, _, true) => first..length,
        (None, Some(suffix), true, _) => length.saturating_sub(suffix)..length,
        _ => return Wanted::Whole,
    };
    if interval.is_empty() { Wanted::Unsatisfiable } else { Wanted::Part(interval) }
}

fn date(value: Option<&HeaderValue>) -> Option<SystemTime> {
    httpdate::parse_http_date(value?.to_str().ok()?).ok()
}

fn respond(status: StatusCode, fields: HeaderMap, body: DemoBody) -> Response<DemoBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}
