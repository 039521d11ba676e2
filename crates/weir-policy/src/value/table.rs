//! The placeholders: one row each, with where they are known and what they stand for. The reference is
//! printed from it.

use std::fmt;

use http::HeaderName;

/// Where a value stands: it decides which placeholders are known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the key (`key.values`).
    Key,
    /// In a field of the request to the origin.
    Request,
    /// In a field of the response to the client.
    Response,
    /// In the target of a redirect or a field of an answer of Weir's own.
    Answer,
    /// In the path and query that the origin is asked for.
    Rewrite,
    /// In what a map looks at.
    Map,
    /// In a line of the access log.
    Log,
}

impl Scope {
    /// For messages: `a request field`.
    pub fn words(self) -> &'static str {
        match self {
            Scope::Key => "the key",
            Scope::Request => "a field of the request to the origin",
            Scope::Response => "a field of the response",
            Scope::Answer => "an answer or redirect of Weir's own",
            Scope::Rewrite => "a rewritten path",
            Scope::Map => "a map",
            Scope::Log => "the log",
        }
    }

    /// Its word in the reference: `key`.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Key => "key",
            Scope::Request => "request",
            Scope::Response => "response",
            Scope::Answer => "answer",
            Scope::Rewrite => "rewrite",
            Scope::Map => "map",
            Scope::Log => "log",
        }
    }

    /// All of them.
    pub const ALL: [Scope; 7] =
        [Scope::Key, Scope::Request, Scope::Response, Scope::Answer, Scope::Rewrite, Scope::Map, Scope::Log];
}

/// What a placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// The client's address.
    ClientAddress,
    /// The method.
    Method,
    /// The protocol of the request.
    Protocol,
    /// `http` or `https`.
    Scheme,
    /// The authority: host, with its port where it is not the default.
    Host,
    /// The host without its port.
    Hostname,
    /// The port.
    Port,
    /// The port of the listener that took the connection.
    ListenerPort,
    /// The path as received.
    Path,
    /// The query without its `?`.
    Query,
    /// Path, `?` and query.
    Uri,
    /// A parameter of the query, as received.
    QueryOf(String),
    /// A field of the request.
    Header(HeaderName),
    /// A cookie of the request.
    Cookie(String),
    /// What a map says.
    Map(String),
    /// What a star, or a group in parentheses, has matched; from 1.
    Capture(u8),
    /// The site's name.
    Site,
    /// The route's name.
    Route,
    /// The upstream's name.
    Upstream,
    /// The request's id.
    RequestId,
    /// When the request came.
    Time(Time),
    /// The status of the response.
    Status,
    /// How it was answered.
    Outcome,
    /// Why.
    Reason,
    /// The response's age in seconds.
    Age,
    /// Seconds of freshness left.
    Ttl,
    /// The origin that was asked.
    Origin,
    /// The status of its answer.
    OriginStatus,
    /// How long the connection to it took.
    OriginConnect,
    /// How long its head took.
    OriginFirstByte,
    /// Bytes of the body that were sent.
    BodyBytes,
    /// From the request's head to the response's first byte.
    FirstByte,
    /// From the request's head to the response's end.
    Total,
    /// How the response ended.
    Completion,
    /// The version of TLS.
    TlsProtocol,
    /// The name that the client asked for.
    TlsName,
    /// The name in the client's certificate.
    TlsClient,
}

/// A form of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Time {
    /// `2026-11-20T12:00:01.123Z`.
    Iso,
    /// Seconds since 1970.
    Unix,
    /// Milliseconds since 1970.
    UnixMs,
    /// `Fri, 20 Nov 2026 12:00:01 GMT`.
    Http,
    /// `20/Nov/2026:12:00:01 +0000`, in the zone of the machine.
    Log,
}

/// A placeholder of the table.
#[derive(Debug)]
pub struct Row {
    /// Its name; one that ends with `.NAME` stands for many.
    pub name: &'static str,
    /// Where it is known: bits by the order of [`Scope::ALL`].
    scopes: u8,
    /// What it stands for, for the reference.
    pub meaning: &'static str,
    /// Makes it of what stands in place of `NAME`.
    pub(super) make: fn(&str) -> Option<What>,
}

impl Row {
    /// Whether it is known there.
    pub fn is_known_in(&self, scope: Scope) -> bool {
        self.scopes & bit(scope) != 0
    }

    /// Where it is known, for messages.
    pub fn known_in(&self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(|scope| self.is_known_in(*scope))
    }
}

const fn bit(scope: Scope) -> u8 {
    1 << scope as u8
}

const ALL: u8 = 0x7f;
/// What one request alone has: not in what many requests share.
const OF_ONE: u8 = bit(Scope::Request) | bit(Scope::Response) | bit(Scope::Answer) | bit(Scope::Log);
/// Once the response is known.
const AFTER: u8 = bit(Scope::Response) | bit(Scope::Log);
/// Once it has been sent.
const AT_END: u8 = bit(Scope::Log);

/// The placeholders, in the order of the reference.
pub static ROWS: [Row; 49] = [
    row(
        "client.address",
        ALL,
        "the client's address, as in the log; behind a trusted proxy the one that it names",
        |_| Some(What::ClientAddress),
    ),
    row("method", OF_ONE | bit(Scope::Map), "the method", |_| Some(What::Method)),
    row("protocol", OF_ONE | bit(Scope::Map), "the protocol of the request: `HTTP/1.1`", |_| {
        Some(What::Protocol)
    }),
    row("scheme", ALL, "`http` or `https`", |_| Some(What::Scheme)),
    row("host", ALL, "the host, with its port where it is not the default", |_| Some(What::Host)),
    row("hostname", ALL, "the host without its port", |_| Some(What::Hostname)),
    row("port", ALL, "the port; where the client names none, that of the scheme", |_| Some(What::Port)),
    row(
        "listener.port",
        ALL & !bit(Scope::Rewrite),
        "the port of the listener that took the connection, whatever the client or a proxy says; none for a \
         unix socket",
        |_| Some(What::ListenerPort),
    ),
    row("path", ALL, "the path as received", |_| Some(What::Path)),
    row("query", ALL, "the query as received, without its `?`", |_| Some(What::Query)),
    row("uri", ALL, "the path, and `?` with the query where there is one", |_| Some(What::Uri)),
    row("query.NAME", ALL, "a parameter of the query, as received", |name| Some(What::QueryOf(plain(name)?))),
    row("header.NAME", ALL, "a field of the request", |name| Some(What::Header(name.parse().ok()?))),
    row("cookie.NAME", ALL, "a cookie of the request", |name| Some(What::Cookie(plain(name)?))),
    row("map.NAME", ALL & !bit(Scope::Map), "what the map `[map.NAME]` says", |name| {
        Some(What::Map(plain(name)?))
    }),
    capture("1"),
    capture("2"),
    capture("3"),
    capture("4"),
    capture("5"),
    capture("6"),
    capture("7"),
    capture("8"),
    capture("9"),
    row("site", ALL, "the site's name: its first host", |_| Some(What::Site)),
    row("route", ALL, "the route's name: its conditions", |_| Some(What::Route)),
    row("upstream", ALL, "the upstream's name", |_| Some(What::Upstream)),
    row("request_id", OF_ONE, "the request's id, as in `X-Request-Id`", |_| Some(What::RequestId)),
    row("time.iso", OF_ONE, "when the request came: `2026-11-20T12:00:01.123Z`", |_| {
        Some(What::Time(Time::Iso))
    }),
    row("time.unix", OF_ONE, "the same in seconds since 1970", |_| Some(What::Time(Time::Unix))),
    row("time.unix_ms", OF_ONE, "the same in milliseconds since 1970", |_| Some(What::Time(Time::UnixMs))),
    row("time.http", OF_ONE, "the same as in `Date`", |_| Some(What::Time(Time::Http))),
    row("time.log", AT_END, "the same as in the combined format: `20/Nov/2026:12:00:01 +0000`", |_| {
        Some(What::Time(Time::Log))
    }),
    row("status", AFTER, "the status of the response", |_| Some(What::Status)),
    row("outcome", AFTER, "how the request was answered: `hit`, `miss` and so on", |_| Some(What::Outcome)),
    row(
        "reason",
        AFTER,
        "why it was not stored (`not_stored` in the log), else why it was no hit (`detail`): the word that \
         `Cache-Status` has as `detail`; of a response that was cut, why it was",
        |_| Some(What::Reason),
    ),
    row("age", AFTER, "the response's age in seconds, where it came from the cache", |_| Some(What::Age)),
    row("ttl", AFTER, "seconds of freshness left; negative for a stale response", |_| Some(What::Ttl)),
    row("origin", AFTER, "the origin that was asked", |_| Some(What::Origin)),
    row("origin.status", AFTER, "the status of its answer", |_| Some(What::OriginStatus)),
    row("origin.connect_ms", AFTER, "milliseconds for the connection to it; `0` where one was idle", |_| {
        Some(What::OriginConnect)
    }),
    row(
        "origin.first_byte_ms",
        AFTER,
        "milliseconds from the request to the origin to the head of its answer",
        |_| Some(What::OriginFirstByte),
    ),
    row("body_bytes", AT_END, "bytes of the body that were sent", |_| Some(What::BodyBytes)),
    row("first_byte_ms", AT_END, "milliseconds from the request's head to the response's first byte", |_| {
        Some(What::FirstByte)
    }),
    row("total_ms", AT_END, "milliseconds from the request's head to the response's end", |_| {
        Some(What::Total)
    }),
    row("completion", AT_END, "how the response ended: `whole`, `cut`, `client-gone`", |_| {
        Some(What::Completion)
    }),
    row("tls.version", AT_END, "the version of TLS", |_| Some(What::TlsProtocol)),
    row("tls.name", AT_END, "the name that the client asked for (SNI)", |_| Some(What::TlsName)),
    row("tls.client", AT_END, "the name in the client's certificate", |_| Some(What::TlsClient)),
];

const fn row(name: &'static str, scopes: u8, meaning: &'static str, make: fn(&str) -> Option<What>) -> Row {
    Row { name, scopes, meaning, make }
}

const fn capture(name: &'static str) -> Row {
    let scopes = ALL & !bit(Scope::Map) & !bit(Scope::Log);
    row(name, scopes, "what a star, or a group in parentheses, of the path's pattern has matched", |name| {
        Some(What::Capture(name.parse().ok()?))
    })
}

/// The name of a parameter, cookie or map.
fn plain(name: &str) -> Option<String> {
    let is_fit =
        |c: char| c.is_ascii_graphic() && !matches!(c, '{' | '}' | '|' | '"' | '\'' | '=' | ';' | '&');
    (!name.is_empty() && name.chars().all(is_fit)).then(|| name.to_owned())
}

impl What {
    /// The name of its row, and what stands in place of `NAME`.
    fn named(&self) -> (&'static str, &str) {
        match self {
            What::ClientAddress => ("client.address", ""),
            What::Method => ("method", ""),
            What::Protocol => ("protocol", ""),
            What::Scheme => ("scheme", ""),
            What::Host => ("host", ""),
            What::Hostname => ("hostname", ""),
            What::Port => ("port", ""),
            What::ListenerPort => ("listener.port", ""),
            What::Path => ("path", ""),
            What::Query => ("query", ""),
            What::Uri => ("uri", ""),
            What::QueryOf(name) => ("query.", name),
            What::Header(name) => ("header.", name.as_str()),
            What::Cookie(name) => ("cookie.", name),
            What::Map(name) => ("map.", name),
            What::Capture(number) => (CAPTURES[usize::from(*number) % CAPTURES.len()], ""),
            What::Site => ("site", ""),
            What::Route => ("route", ""),
            What::Upstream => ("upstream", ""),
            What::RequestId => ("request_id", ""),
            What::Time(Time::Iso) => ("time.iso", ""),
            What::Time(Time::Unix) => ("time.unix", ""),
            What::Time(Time::UnixMs) => ("time.unix_ms", ""),
            What::Time(Time::Http) => ("time.http", ""),
            What::Time(Time::Log) => ("time.log", ""),
            What::Status => ("status", ""),
            What::Outcome => ("outcome", ""),
            What::Reason => ("reason", ""),
            What::Age => ("age", ""),
            What::Ttl => ("ttl", ""),
            What::Origin => ("origin", ""),
            What::OriginStatus => ("origin.status", ""),
            What::OriginConnect => ("origin.connect_ms", ""),
            What::OriginFirstByte => ("origin.first_byte_ms", ""),
            What::BodyBytes => ("body_bytes", ""),
            What::FirstByte => ("first_byte_ms", ""),
            What::Total => ("total_ms", ""),
            What::Completion => ("completion", ""),
            What::TlsProtocol => ("tls.version", ""),
            What::TlsName => ("tls.name", ""),
            What::TlsClient => ("tls.client", ""),
        }
    }

    /// Whether all requests for one object agree in it, by what every key has, where the
    /// query is the one that the key leaves.
    pub fn is_of_object(&self) -> bool {
        matches!(
            self,
            What::Scheme
                | What::Host
                | What::Hostname
                | What::Port
                | What::Path
                | What::Query
                | What::Uri
                | What::QueryOf(_)
                | What::Capture(_)
                | What::Site
                | What::Route
                | What::Upstream
        )
    }
}

const CAPTURES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Its name, as it is written between the braces.
impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, name) = self.named();
        write!(out, "{row}{name}")
    }
}
