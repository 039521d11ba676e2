//! What TLS says of a request: whether its connection may ask for its host, the certificate of its client,
//! and the way from `http` to `https`. RFC 9110 §7.4, RFC 9440, RFC 6797. It must not know how connections
//! are secured.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weir_front::{PeerInfo, Request, Trust};
use weir_policy::RequestView;

use crate::plan::{ClientCertificate, Plan, Site};
use crate::transform::request::CLIENT_CERT;

const CLIENT_CERT_CHAIN: HeaderName = HeaderName::from_static("client-cert-chain");
/// A request that may have been replayed (RFC 8470 §5.1).
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// Why a request may not ask for its host on its connection.
pub(crate) struct Unfit {
    pub(crate) status: StatusCode,
    /// The word of the log.
    pub(crate) word: &'static str,
    /// For people.
    pub(crate) text: &'static str,
}

impl Unfit {
    fn misdirected(text: &'static str) -> Option<Unfit> {
        Some(Unfit { status: StatusCode::MISDIRECTED_REQUEST, word: "misdirected", text })
    }
}

/// Writes the certificate of the request's client into the request, if its site asks for one and the
/// connection was made for that site; removes what else says so.
pub(crate) fn client_certificate(plan: &Plan, request: &mut Request) {
    if !plan.asks_clients() {
        return;
    }
    request.headers.remove(CLIENT_CERT);
    request.headers.remove(CLIENT_CERT_CHAIN);
    let Some(site) = plan.site(request.host.name()) else { return };
    let Some(secured) = request.peer.secured.as_ref().filter(|_| is_for(&request.peer, site)) else { return };
    let Some(certificate) = &secured.client_certificate else { return };
    if let Ok(value) = HeaderValue::try_from(format!(":{}:", STANDARD.encode(certificate))) {
        request.headers.insert(CLIENT_CERT, value);
    }
}

/// Whether the connection asked its client for what this site asks.
fn is_for(peer: &PeerInfo, site: &Site) -> bool {
    let auth = peer.secured.as_ref().and_then(|secured| secured.identity.client_auth.as_ref());
    auth.is_some_and(|auth| *auth.site == *site.name)
}

/// Whether the connection may ask for a host of the site: the certificate that the client was shown covers
/// it, and the client was asked for what the site asks (RFC 9110 §7.4).
pub(crate) fn unfit(peer: &PeerInfo, site: &Site, host: &str) -> Option<Unfit> {
    let Some(secured) = &peer.secured else {
        let text = "this site needs TLS and a client certificate";
        let unfit = Unfit { status: StatusCode::FORBIDDEN, word: "no-client-certificate", text };
        return (site.client_certificate == ClientCertificate::Required).then_some(unfit);
    };
    if site.client_certificate != ClientCertificate::NotAsked && !is_for(peer, site) {
        return Unfit::misdirected("the site asks for a client certificate: connect to it by its own name");
    }
    if secured.name.as_deref() == Some(host) || secured.identity.covers(host) {
        return None;
    }
    Unfit::misdirected("the certificate of this connection is not for this host")
}

/// What becomes of a request without TLS to a site that wants it.
pub(crate) enum Unsecured {
    /// It is sent to this `https` URL.
    Redirect(String),
    /// There is no URL to send it to: it names no host (HTTP/1.0), or is about the server itself.
    Refuse,
}

/// What becomes of a request without TLS, where its site wants that; no such request goes to an origin.
pub(crate) fn unsecured(plan: &Plan, site: &Site, name: &str, view: &RequestView<'_>) -> Option<Unsecured> {
    if !site.redirects_to_https || view.scheme == "https" {
        return None;
    }
    if name.is_empty() || !view.path_and_query.starts_with('/') {
        return Some(Unsecured::Refuse);
    }
    let port = plan.https_port().map_or_else(String::new, |port| format!(":{port}"));
    Some(Unsecured::Redirect(format!("https://{name}{port}{}", view.path_and_query)))
}

/// Whether the request may have been replayed, as a trusted proxy says: it never becomes a fill, which many
/// clients share (RFC 8470 §5.1).
pub(crate) fn is_early(headers: &HeaderMap, trust: Trust) -> bool {
    trust == Trust::Trusted && headers.get(EARLY_DATA).is_some_and(|value| value == "1")
}
