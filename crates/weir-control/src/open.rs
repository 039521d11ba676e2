//! The paths that need no token: `/metrics`, `/health/live`, `/health/ready`, and `/`, which names the
//! others.

use std::sync::Arc;

use http::header::ACCEPT;
use http::request::Parts;
use http::{Method, StatusCode, Uri};

use crate::answer::{self, Answer, Refusal};
use crate::control::Control;
use crate::data_plane::Phase;
use crate::metrics;

const INDEX: &str = "\
/metrics          counters and gauges, for Prometheus or as OpenMetrics
/health/live      200 while the process answers
/health/ready     200 while requests are taken, 503 while draining
/v1/openapi.json  all else, which needs a token: weir token add";

/// Whether a path is open to everybody who reaches the server.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/" | "/metrics")
}

/// Answers a request for an open path. May block.
///
/// # Errors
/// Where it is no GET or HEAD, or the metrics cannot be written.
pub(crate) fn answer(control: &Arc<Control>, head: &Parts) -> Result<Answer, Refusal> {
    check_method(&head.method)?;
    if head.uri.path() == "/" {
        return Ok(answer::text(StatusCode::OK, INDEX));
    }
    let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let form = metrics::Form::for_accept(accept);
    let text = metrics::text(control, form)
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "metrics", error.to_string()))?;
    Ok(answer::typed(StatusCode::OK, form.content_type(), text))
}

/// Answers a request for health, whatever host it names: the answer tells nothing about customers. Never
/// blocks.
pub(crate) fn health(control: &Arc<Control>, method: &Method, uri: &Uri) -> Option<Answer> {
    let answer = match uri.path() {
        "/health/live" => answer::text(StatusCode::OK, "live"),
        "/health/ready" => match control.phase() {
            Phase::Serving => answer::text(StatusCode::OK, "ready"),
            Phase::Draining => answer::text(StatusCode::SERVICE_UNAVAILABLE, "draining"),
        },
        _ => return None,
    };
    Some(check_method(method).map_or_else(Refusal::answer, |()| answer))
}

fn check_method(method: &Method) -> Result<(), Refusal> {
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", "use GET, HEAD here");
    Err(refusal.field(http::header::ALLOW, http::HeaderValue::from_static("GET, HEAD")))
}
