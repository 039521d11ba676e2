//! Responses of the control plane's two servers.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// A whole response.
pub(crate) type Answer = Response<Full<Bytes>>;

/// A response with a body of a content type.
pub(crate) fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A line of text.
pub(crate) fn text(status: StatusCode, line: &str) -> Answer {
    typed(status, "text/plain; charset=utf-8", format!("{line}\n"))
}

/// A value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => typed(status, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A refusal as JSON: `{"error": "..."}`.
pub(crate) fn refusal(status: StatusCode, sentence: &str) -> Answer {
    json(status, &serde_json::json!({ "error": sentence }))
}

/// 405 with the allowed methods.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}
