//! The admin listener's paths: `/metrics`, `/health/live`, `/health/ready`, `/status`, `/sites`. It only
//! shows; commands that change something are on the control socket.

use std::sync::Arc;

use http::header::{ACCEPT, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode, Uri};
use weir_config::value::HostPattern;

use crate::answer::{self, Answer};
use crate::control::Control;
use crate::data_plane::Phase;
use crate::metrics;
use crate::{query, socket};

const INDEX: &str = "\
/metrics       counters and gauges, for Prometheus or as OpenMetrics
/status        the same and more, JSON
/sites         the accounts of sites, JSON; ?format=csv a line for each site and day;
               ?site=NAME, ?since=2026-11, ?days=1
/health/live   200 while the process answers
/health/ready  200 while requests are taken, 503 while draining";

/// Answers a request of the admin listener.
pub(crate) fn answer(control: &Arc<Control>, head: &Parts) -> Answer {
    let Parts { method, uri, headers, .. } = head;
    if *method != Method::GET && *method != Method::HEAD {
        return answer::method_not_allowed("GET, HEAD");
    }
    match uri.path() {
        "/" => answer::text(StatusCode::OK, INDEX),
        "/metrics" => {
            let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
            let form = metrics::Form::for_accept(accept);
            match metrics::text(control, form) {
                Ok(text) => answer::typed(StatusCode::OK, form.content_type(), text),
                Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            }
        }
        "/status" => answer::json(StatusCode::OK, &control.status()),
        query::SITES => socket::sites(control, uri.query().unwrap_or_default()),
        _ => answer::text(StatusCode::NOT_FOUND, "not found; see /"),
    }
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
    let is_read = method == Method::GET || method == Method::HEAD;
    Some(if is_read { answer } else { answer::method_not_allowed("GET, HEAD") })
}

/// Whether the request names this listener: by an address, as `localhost`, or by a name of `[admin] hosts`. A
/// web page whose own name leads to this address (DNS rebinding) names itself, and is refused.
pub(crate) fn is_for_us(control: &Control, head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    // The host of an absolute target counts as well.
    let named = [Some(host.as_bytes()), head.uri.authority().map(|authority| authority.as_str().as_bytes())];
    named.into_iter().flatten().all(|named| {
        Authority::try_from(named).is_ok_and(|named| is_own(named.host(), &control.admin_hosts()))
    })
}

fn is_own(host: &str, hosts: &[HostPattern]) -> bool {
    let host = host.to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
    address.parse::<std::net::IpAddr>().is_ok()
        || host == "localhost"
        || hosts.iter().any(|pattern| match pattern {
            HostPattern::Exact(name) => *name == host,
            HostPattern::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
            HostPattern::Default => true,
        })
}

/// 421 (RFC 9110 §15.5.20).
pub(crate) fn misdirected() -> Answer {
    answer::text(
        StatusCode::MISDIRECTED_REQUEST,
        "this listener answers to its address, to localhost and to the names of `[admin] hosts`; add the \
         name that you asked for there",
    )
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn it_answers_to_addresses_localhost_and_the_names_of_the_configuration() {
        let hosts = ["weir.example", "*.internal"].map(|text| text.parse().unwrap());
        let own = ["127.0.0.1", "10.1.2.3", "[::1]", "localhost", "LocalHost", "weir.example", "a.internal"];
        let others = [
            "evil.example",
            "weir.example.evil.example",
            "internal",
            ".internal",
            "127.0.0.1.evil.example",
            "",
        ];
        assert!(own.iter().all(|host| is_own(host, &hosts)));
        assert!(others.iter().all(|host| !is_own(host, &hosts)));
        assert!(is_own("anything", &["*".parse().unwrap()]) && !is_own("anything", &[]));
    }
}
