//! What the placeholders of values stand for: in the key and towards the origin what is known of the
//! request, towards the client also what is known of its response. It must not decide anything; a value that
//! no route has is never asked for.

use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use smallvec::SmallVec;
use weir_config::value::{Capturing, Mapping};
use weir_fill::OriginAnswer;
use weir_front::Fields;
use weir_observe::{Description, Facts};
use weir_policy::value::{Known, Style, Time, Value, What, each_of_request, of_request};
use weir_policy::{RequestView, read_path};

use crate::route::clients::Access;

/// What a request's own head does not say.
pub(crate) trait Circumstances {
    /// The client, as the log names it.
    fn client(&self) -> Option<IpAddr>;
    /// The request's id.
    fn request_id(&self) -> &str;
    /// When it came.
    fn came(&self) -> SystemTime;
    /// `HTTP/1.1`.
    fn protocol(&self) -> &str;
    /// The port of the listener that took the connection; `None` for a unix socket.
    fn listener_port(&self) -> Option<u16>;
    /// Whether the client cannot be known, since a trusted proxy does not name it.
    fn is_client_hidden(&self) -> bool;
    /// Whether the client gets no answer by these rules.
    fn is_refused_by(&self, access: &Access) -> bool;
}

/// What a map says of a request.
pub(crate) enum Said<'a> {
    /// Its result; `None` where it has none.
    Result(Option<&'a str>),
    /// The request has more than one of what the map looks at, or the client that it looks at is not known.
    Unsure,
}

/// What a route says of itself.
#[derive(Clone, Copy, Default)]
pub(crate) struct RouteWords<'a> {
    pub(crate) name: &'a str,
    /// Empty where requests go to none.
    pub(crate) upstream: &'a str,
    pub(crate) capturing: Option<&'a Capturing>,
    pub(crate) maps: Option<&'a Maps>,
}

/// The maps of the configuration, by name.
pub(crate) type Maps = HashMap<String, Mapping>;

/// A request, once its route is chosen.
#[derive(Clone, Copy)]
pub(crate) struct OfRequest<'a> {
    pub(crate) view: RequestView<'a>,
    pub(crate) site: &'a str,
    pub(crate) route: RouteWords<'a>,
    pub(crate) beside: &'a dyn Circumstances,
}

/// A response, before it goes out.
pub(crate) struct OfResponse<'a> {
    pub(crate) request: OfRequest<'a>,
    pub(crate) status: StatusCode,
    pub(crate) facts: &'a Facts,
    pub(crate) age_s: Option<u64>,
    pub(crate) origin: Option<&'a str>,
    pub(crate) answered: Option<OriginAnswer>,
}

impl Known for OfRequest<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        if let Some(is_there) = of_request(&self.view, what, out) {
            return is_there;
        }
        match what {
            What::ClientAddress => match self.beside.client() {
                Some(client) => address(out, client.to_canonical()),
                None => false,
            },
            What::ListenerPort => self.beside.listener_port().is_some_and(|port| number(out, port)),
            What::RequestId => some(out, self.beside.request_id()),
            What::Protocol => some(out, self.beside.protocol()),
            What::Site => some(out, self.site),
            What::Route => some(out, self.route.name),
            What::Upstream => some(out, self.route.upstream),
            What::Time(form) => time(out, *form, self.beside.came()),
            What::Capture(number) => {
                let read = read_path(self.view.path());
                let of = |path| self.route.capturing.and_then(|capturing| capturing.find(path));
                // Where the route fits the path as it is read alone, its stars do too.
                let captured = of(self.view.path()).or_else(|| of(&read));
                let found = captured.and_then(|captured| captured.get(*number));
                out.extend_from_slice(found.unwrap_or_default());
                found.is_some()
            }
            What::Map(name) => self.mapped(name, out),
            _ => false,
        }
    }

    fn each(&self, what: &What, to: &mut dyn FnMut(&[u8])) {
        let mut out = Vec::new();
        if each_of_request(&self.view, what, to) {
            return;
        }
        if self.write(what, &mut out) {
            to(&out);
        }
        if let What::Map(name) = what {
            self.repeated(name, to);
        }
    }
}

impl<'a> OfRequest<'a> {
    /// What a map says, where every origin would read the request in the same way.
    pub(crate) fn said_by(&self, name: &str) -> Said<'a> {
        let Some(map) = self.route.maps.and_then(|maps| maps.get(name)) else { return Said::Result(None) };
        let is_unsure = map.of.placeholders().any(|placeholder| match placeholder.what {
            What::ClientAddress => self.beside.is_client_hidden(),
            _ => self.count(&placeholder.what) > 1,
        });
        match is_unsure {
            true => Said::Unsure,
            false => Said::Result(map.find(&map.of.render(self, Style::Plain))),
        }
    }

    /// Whether a map looks at the client's address.
    pub(crate) fn is_mapped_by_client(&self, name: &str) -> bool {
        let map = self.route.maps.and_then(|maps| maps.get(name));
        map.is_some_and(|map| {
            map.of.placeholders().any(|placeholder| placeholder.what == What::ClientAddress)
        })
    }

    /// How many values there are of what a placeholder stands for.
    fn count(&self, what: &What) -> usize {
        let mut count = 0;
        self.each(what, &mut |_| count += 1);
        count
    }

    fn mapped(&self, name: &str, out: &mut Vec<u8>) -> bool {
        let Some(map) = self.route.maps.and_then(|maps| maps.get(name)) else { return false };
        let found = map.find(&map.of.render(self, Style::Plain));
        out.extend_from_slice(found.unwrap_or_default().as_bytes());
        found.is_some()
    }

    /// All that a map could have looked at, where a field, cookie or parameter is there more than once: an
    /// origin may have taken another one than the map.
    fn repeated(&self, name: &str, to: &mut dyn FnMut(&[u8])) {
        let Some(map) = self.route.maps.and_then(|maps| maps.get(name)) else { return };
        for placeholder in map.of.placeholders() {
            if self.count(&placeholder.what) > 1 {
                self.each(&placeholder.what, to);
            }
        }
    }
}

impl Known for OfResponse<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        match what {
            What::Status => number(out, self.status.as_u16()),
            What::Outcome => some(out, self.facts.outcome.word()),
            What::Reason => some(out, self.facts.reason()),
            What::Age => self.age_s.is_some_and(|age_s| number(out, age_s)),
            What::Ttl => self.facts.ttl_left_s.is_some_and(|left_s| number(out, left_s)),
            What::Origin => some(out, self.origin.unwrap_or_default()),
            What::OriginStatus => self.answered.is_some_and(|answer| number(out, answer.status.as_u16())),
            What::OriginConnect => self.answered.is_some_and(|answer| milliseconds(out, answer.connect)),
            What::OriginFirstByte => self.answered.is_some_and(|answer| milliseconds(out, answer.first_byte)),
            _ => self.request.write(what, out),
        }
    }
}

fn some(out: &mut Vec<u8>, text: &str) -> bool {
    out.extend_from_slice(text.as_bytes());
    !text.is_empty()
}

fn number(out: &mut Vec<u8>, number: impl itoa::Integer) -> bool {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    true
}

/// An address as text; that of IPv4, which most are, without the machinery of formatting.
fn address(out: &mut Vec<u8>, address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return shown(out, address) };
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        number(out, octet);
    }
    true
}

fn milliseconds(out: &mut Vec<u8>, time: Duration) -> bool {
    let micros = time.as_micros();
    shown(out, format_args!("{}.{:03}", micros / 1000, micros % 1000))
}

fn shown(out: &mut Vec<u8>, text: impl std::fmt::Display) -> bool {
    // Invariant: writing to a Vec cannot fail.
    write!(out, "{text}").is_ok()
}

fn time(out: &mut Vec<u8>, form: Time, wall: SystemTime) -> bool {
    let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
    let stamp = || jiff::Timestamp::try_from(wall).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    match form {
        Time::Unix => number(out, since.as_secs()),
        Time::UnixMs => number(out, u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
        Time::Http => weir_policy::http_date(wall).is_some_and(|date| shown(out, date)),
        Time::Iso => shown(out, format_args!("{:.3}", stamp())),
        Time::Log => {
            let zoned = stamp().to_zoned(jiff::tz::TimeZone::system());
            shown(out, zoned.strftime("%d/%b/%Y:%H:%M:%S %z"))
        }
    }
}

/// What nobody has asked: an order of an operator about a URL.
pub(crate) struct Unasked;

impl Circumstances for Unasked {
    fn client(&self) -> Option<IpAddr> {
        None
    }

    fn request_id(&self) -> &str {
        ""
    }

    fn came(&self) -> SystemTime {
        UNIX_EPOCH
    }

    fn protocol(&self) -> &str {
        ""
    }

    fn listener_port(&self) -> Option<u16> {
        None
    }

    fn is_client_hidden(&self) -> bool {
        false
    }

    fn is_refused_by(&self, _: &Access) -> bool {
        false
    }
}

/// A finished request, as a line of the log has it. Of a request that was refused there is no response.
pub(crate) struct OfLog<'a> {
    pub(crate) response: Option<OfResponse<'a>>,
    pub(crate) facts: &'a Facts,
    pub(crate) texts: &'a Description,
}

impl Known for OfLog<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        let tls = self.texts.tls.as_ref();
        match what {
            What::ClientAddress => some(out, &self.texts.client),
            What::Status => self.facts.status > 0 && number(out, self.facts.status),
            What::Outcome => some(out, self.facts.outcome.word()),
            What::Reason => some(out, self.facts.reason()),
            What::BodyBytes => number(out, self.facts.body_bytes),
            What::FirstByte => self.facts.first_byte.is_some_and(|after| milliseconds(out, after)),
            What::Total => milliseconds(out, self.facts.total),
            What::Completion => some(out, self.facts.completion.word()),
            What::TlsProtocol => some(out, tls.map_or("", |tls| tls.version)),
            What::TlsName => some(out, tls.map_or("", |tls| &tls.name)),
            What::TlsClient => some(out, tls.map_or("", |tls| &tls.client)),
            What::Time(form) => time(out, *form, self.texts.wall),
            _ => self.response.as_ref().is_some_and(|response| response.write(what, out)),
        }
    }
}

/// Sets fields to rendered values. What is empty, or is no value of a field, is left out (RFC 9110 §5.5).
pub(crate) fn set(values: &[(HeaderName, Value)], known: &dyn Known, headers: &mut HeaderMap) {
    let mut text = Vec::new();
    for (name, value) in values {
        text.clear();
        value.write(known, Style::Plain, &mut text);
        let text = text.trim_ascii();
        match HeaderValue::from_bytes(text) {
            Ok(value) if !text.is_empty() => drop(headers.insert(name, value)),
            _ => drop(headers.remove(name)),
        }
    }
}

/// Whether the bytes may stand in a field (RFC 9110 §5.5). It looks at all of them, so that it can look at
/// many at once.
fn is_field_value(text: &[u8]) -> bool {
    let is_bad = |byte: u8| ((byte < b' ') & (byte != b'\t')) | (byte == 0x7f);
    !text.iter().fold(false, |bad, byte| bad | is_bad(*byte))
}

/// The rendered fields of one response.
#[derive(Debug)]
pub(crate) struct Rendered {
    values: Arc<[(HeaderName, Value)]>,
    text: Vec<u8>,
    /// Where each value ends in `text`.
    ends: SmallVec<[u32; 6]>,
}

impl Rendered {
    /// Renders a route's values for a response. Where a value is empty, or is no value of a field, its
    /// field is left out.
    pub(crate) fn of(values: &Arc<[(HeaderName, Value)]>, known: &OfResponse<'_>) -> Rendered {
        let mut text = Vec::with_capacity(128);
        let mut ends = SmallVec::new();
        for (name, value) in &**values {
            let begin = text.len();
            value.write(known, Style::Plain, &mut text);
            let is_of_body = known.status == StatusCode::NOT_MODIFIED && !weir_policy::is_in_304(name);
            if is_of_body || !is_field_value(&text[begin..]) {
                text.truncate(begin);
            }
            ends.push(u32::try_from(text.len()).unwrap_or(u32::MAX));
        }
        Rendered { values: values.clone(), text, ends }
    }

    /// Writes the fields.
    pub(crate) fn write(&self, to: &mut impl Fields) {
        let mut begin = 0;
        for ((name, _), end) in self.values.iter().zip(&self.ends) {
            let end = *end as usize;
            let value = self.text.get(begin..end).unwrap_or_default().trim_ascii();
            if !value.is_empty() {
                to.field(name, value);
            }
            begin = end;
        }
    }
}
