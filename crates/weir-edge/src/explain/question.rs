//! The question as a request: parsed and normalised as one that came over a socket. It must not decide
//! anything.

use std::str::FromStr;

use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use weir_front::listen::Peer;
use weir_policy::RequestView;
use weir_wire::{Host, Scheme, without_dots};

use crate::gates::Comer;
use crate::route::clients::Access;
use crate::values::Circumstances;

/// A request to explain.
#[derive(Clone, Debug)]
pub struct Question {
    /// The method.
    pub method: String,
    /// An absolute URL.
    pub url: String,
    /// Its fields.
    pub headers: Vec<(String, String)>,
    /// The client's address; `None`: no client is known.
    pub client: Option<IpAddr>,
}

/// A question, parsed.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) uri: Uri,
    /// Path and query, as the walk sees them.
    target: String,
    pub(super) host: Host,
    pub(super) headers: HeaderMap,
    /// The client, where it is given.
    pub(super) client: Option<IpAddr>,
}

impl Request {
    pub(super) fn parse(question: &Question) -> Result<Request, String> {
        let method =
            Method::from_str(&question.method).map_err(|_| format!("not a method: {}", question.method))?;
        let uri = Uri::from_str(&question.url).map_err(|error| format!("not a URL: {error}"))?;
        let authority = uri.authority().ok_or("the URL must be absolute, as http://host/path")?;
        let scheme = match uri.scheme_str() {
            Some("http") | None => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(format!("the URL must be of http or https, not {other}")),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &question.headers {
            let name = HeaderName::from_str(name).map_err(|_| format!("not a field name: {name}"))?;
            let value = HeaderValue::from_str(value).map_err(|_| format!("not a field value: {value}"))?;
            headers.append(name, value);
        }
        let named = headers.get(header::HOST).map(HeaderValue::as_bytes);
        let authority = Bytes::copy_from_slice(named.unwrap_or(authority.as_str().as_bytes()));
        let host = Host::parse(&authority, Some(scheme))
            .map_err(|refusal| format!("not a host: {} ({})", uri, refusal.reason()))?;
        let target = without_dots(uri.path_and_query().map_or("/", |path| path.as_str())).into_owned();
        Ok(Request { method, uri, target, host, headers, client: question.client })
    }

    pub(super) fn scheme(&self) -> &'static str {
        match self.uri.scheme_str() {
            Some("https") => "https",
            _ => "http",
        }
    }

    /// Whether another protocol is asked for (RFC 9110 §7.8).
    pub(super) fn is_upgrade(&self) -> bool {
        let named = |line: &HeaderValue| {
            let mut members = line.as_bytes().split(|byte| *byte == b',');
            members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
        };
        self.headers.contains_key(header::UPGRADE)
            && self.headers.get_all(header::CONNECTION).iter().any(named)
    }

    pub(super) fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            scheme: self.scheme(),
            host: self.host.as_str(),
            path_and_query: &self.target,
            headers: &self.headers,
            has_body: false,
            is_trusted: false,
        }
    }
}

/// A question comes over no connection, and its client is not trusted.
impl Comer for Request {}

/// Of a question no client is known but the one that it names.
impl Circumstances for Request {
    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn request_id(&self) -> &str {
        "(made for each request)"
    }

    fn came(&self) -> SystemTime {
        weir_clock::now().wall
    }

    fn protocol(&self) -> &str {
        "HTTP/1.1"
    }

    /// The port of the URL stands for that of the listener.
    fn listener_port(&self) -> Option<u16> {
        self.uri.port_u16().or(Some(if self.scheme() == "https" { 443 } else { 80 }))
    }

    fn is_client_hidden(&self) -> bool {
        false
    }

    fn is_refused_by(&self, access: &Access) -> bool {
        self.client.is_some_and(|client| !access.admits(Some(Peer::at(SocketAddr::new(client, 0)))))
    }
}
