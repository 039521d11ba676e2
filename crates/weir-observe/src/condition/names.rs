//! The names that conditions use: those of the logs, each with the kind of its values.

/// Whose lines a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOf {
    /// Requests of clients: the access log.
    Clients,
    /// Requests to origins: the upstream log.
    Origins,
}

impl LogOf {
    /// The names that a condition may use, as in the log.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        rows(self).iter().map(|row| row.name)
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Address,
    Asked,
    Attempt,
    BodyBytes,
    Client,
    Collapsed,
    Completion,
    Connect,
    Connection,
    ContentType,
    Detail,
    Error,
    FirstByte,
    Host,
    Key,
    KeyFields,
    Method,
    NotStored,
    Origin,
    OriginHost,
    Outcome,
    Pick,
    Purpose,
    Range,
    ReceivedBytes,
    Referer,
    RequestId,
    Retry,
    Route,
    Scheme,
    SentBytes,
    Session,
    Site,
    Status,
    Stored,
    Target,
    TlsClient,
    TlsGroup,
    TlsName,
    TlsResumed,
    TlsVersion,
    Total,
    TtlLeft,
    TtlSource,
    Upstream,
    UserAgent,
    Version,
    Volume,
}

/// What values a name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A status: a number, or `5xx`.
    Status,
    /// A number.
    Count,
    /// Bytes.
    Bytes,
    /// A duration in milliseconds.
    Milliseconds,
    /// A lifetime in seconds.
    Seconds,
    /// Any text.
    Text,
    /// One of the words that Weir itself says.
    Word(Words),
    /// Yes or no.
    Flag,
}

/// A set of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    Outcomes,
    Completions,
    Ends,
    Purposes,
    /// All reasons, those of origins' failures too.
    Reasons,
}

impl Words {
    /// The words of the set.
    pub(super) fn all(self) -> Vec<&'static str> {
        use crate::asked::Purpose;
        use crate::reasons::REASONS;
        use crate::record::Outcome;
        match self {
            Words::Outcomes => Outcome::ALL.map(Outcome::word).to_vec(),
            Words::Completions => vec!["whole", "cut", "client-gone"],
            Words::Ends => vec!["whole", "failed", "cut", "abandoned"],
            Words::Purposes => Purpose::ALL.map(Purpose::word).to_vec(),
            Words::Reasons => REASONS.iter().map(|reason| reason.word).collect(),
        }
    }
}

/// A name with its kind.
pub(super) struct Row {
    /// As in the log.
    pub(super) name: &'static str,
    /// The same without its unit, or another word for it; empty where there is none.
    pub(super) other: &'static str,
    pub(super) field: Field,
    pub(super) kind: Kind,
}

const fn row(name: &'static str, other: &'static str, field: Field, kind: Kind) -> Row {
    Row { name, other, field, kind }
}

const fn text(name: &'static str, field: Field) -> Row {
    row(name, "", field, Kind::Text)
}

/// The names of a log.
pub(super) fn rows(log: LogOf) -> &'static [Row] {
    match log {
        LogOf::Clients => CLIENTS,
        LogOf::Origins => ORIGINS,
    }
}

const CLIENTS: &[Row] = &[
    text("client", Field::Client),
    text("method", Field::Method),
    text("scheme", Field::Scheme),
    text("host", Field::Host),
    row("target", "url", Field::Target, Kind::Text),
    text("version", Field::Version),
    text("tls_version", Field::TlsVersion),
    text("tls_group", Field::TlsGroup),
    row("tls_resumed", "", Field::TlsResumed, Kind::Flag),
    text("tls_name", Field::TlsName),
    text("tls_client", Field::TlsClient),
    text("site", Field::Site),
    text("route", Field::Route),
    text("upstream", Field::Upstream),
    text("origin", Field::Origin),
    text("pick", Field::Pick),
    text("request_id", Field::RequestId),
    text("asked", Field::Asked),
    text("referer", Field::Referer),
    text("user_agent", Field::UserAgent),
    row("status", "", Field::Status, Kind::Status),
    row("outcome", "", Field::Outcome, Kind::Word(Words::Outcomes)),
    row("detail", "", Field::Detail, Kind::Word(Words::Reasons)),
    row("stored_s", "stored", Field::Stored, Kind::Seconds),
    text("ttl_source", Field::TtlSource),
    row("not_stored", "", Field::NotStored, Kind::Word(Words::Reasons)),
    row("collapsed", "", Field::Collapsed, Kind::Flag),
    row("ttl_left_s", "ttl_left", Field::TtlLeft, Kind::Seconds),
    row("body_bytes", "body", Field::BodyBytes, Kind::Bytes),
    row("first_byte_ms", "first_byte", Field::FirstByte, Kind::Milliseconds),
    row("total_ms", "total", Field::Total, Kind::Milliseconds),
    row("completion", "", Field::Completion, Kind::Word(Words::Completions)),
    text("session", Field::Session),
];

const ORIGINS: &[Row] = &[
    row("purpose", "", Field::Purpose, Kind::Word(Words::Purposes)),
    text("asked", Field::Asked),
    row("attempt", "", Field::Attempt, Kind::Count),
    text("retry", Field::Retry),
    text("request_id", Field::RequestId),
    text("site", Field::Site),
    text("method", Field::Method),
    text("host", Field::Host),
    row("target", "url", Field::Target, Kind::Text),
    text("upstream", Field::Upstream),
    text("origin", Field::Origin),
    text("pick", Field::Pick),
    text("address", Field::Address),
    text("origin_host", Field::OriginHost),
    text("range", Field::Range),
    row("status", "", Field::Status, Kind::Status),
    text("content_type", Field::ContentType),
    text("key", Field::Key),
    text("key_fields", Field::KeyFields),
    text("volume", Field::Volume),
    row("sent_bytes", "sent", Field::SentBytes, Kind::Bytes),
    row("received_bytes", "received", Field::ReceivedBytes, Kind::Bytes),
    text("connection", Field::Connection),
    row("connect_ms", "connect", Field::Connect, Kind::Milliseconds),
    row("first_byte_ms", "first_byte", Field::FirstByte, Kind::Milliseconds),
    row("total_ms", "total", Field::Total, Kind::Milliseconds),
    row("completion", "", Field::Completion, Kind::Word(Words::Ends)),
    text("error", Field::Error),
];
