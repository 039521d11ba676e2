//! The admin listener's paths: `/metrics`, `/health/live`, `/health/ready`, `/status`, `/sites`. It only
//! shows; what changes something
//! is behind the control socket.

use std::sync::Arc;

use http::{Method, StatusCode, Uri};

use crate::answer::{self, Answer};
use crate::control::Control;
use crate::metrics;
use crate::plane::Phase;
use crate::{query, socket};

const INDEX: &str = "\
/metrics       counters and gauges, OpenMetrics
/status        the same and more, JSON
/sites         the accounts of sites, JSON; ?format=csv a line for each site and day; ?site=NAME, ?since=2026-11, ?days=1
/health/live   200 while the process answers
/health/ready  200 while requests are taken, 503 while draining";

/// Answers a request of the admin listener.
pub(crate) fn answer(control: &Arc<Control>, method: &Method, uri: &Uri) -> Answer {
    if method != Method::GET && method != Method::HEAD {
        return answer::method_not_allowed("GET, HEAD");
    }
    match uri.path() {
        "/" => answer::text(StatusCode::OK, INDEX),
        "/metrics" => match metrics::text(control) {
            Ok(text) => answer::typed(StatusCode::OK, metrics::CONTENT_TYPE, text),
            Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        "/status" => answer::json(StatusCode::OK, &control.status()),
        query::SITES => socket::sites(control, uri.query().unwrap_or_default()),
        "/health/live" => answer::text(StatusCode::OK, "live"),
        "/health/ready" => match control.phase() {
            Phase::Serving => answer::text(StatusCode::OK, "ready"),
            Phase::Draining => answer::text(StatusCode::SERVICE_UNAVAILABLE, "draining"),
        },
        _ => answer::text(StatusCode::NOT_FOUND, "not found; see /"),
    }
}
