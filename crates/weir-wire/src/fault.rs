//! What is wrong with a message: one word a fault, and the status it costs a client.

use http::StatusCode;
use thiserror::Error;

use crate::fields;

/// One way to be wrong. Both directions share the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    BareLf,
    BareCr,
    Nul,
    Control,
    EmptyLines,
    LeadingWhitespace,
    ObsFold,
    NoColon,
    SpaceBeforeColon,
    FieldName,
    Lookalike,
    /// The field's place among those of one value.
    FieldTwice(u8),
    StartLine,
    MethodToken,
    MethodRefused,
    VersionForm,
    VersionUnsupported,
    StatusCode,
    TargetForm,
    TargetBytes,
    TargetFragment,
    TargetScheme,
    HostMissing,
    HostTwice,
    HostForm,
    HostUserinfo,
    HostPort,
    LineLong,
    HeadLarge,
    FieldsMany,
    LengthForm,
    LengthTwice,
    LengthAndCoding,
    CodingForm,
    CodingNotChunked,
    CodingChunkedTwice,
    CodingOnHttp10,
    CodingUnknown,
    ContentOnGet,
    ConnectionForm,
    ConnectionNames,
    ExpectUnknown,
    InterimFraming,
    ChunkSize,
    ChunkExtension,
    ChunkExtensionsLarge,
    ChunkEnd,
    Truncated,
}

impl Fault {
    /// The status it costs a client, and the word it has in logs.
    fn facts(self) -> (StatusCode, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        match self {
            Self::BareLf => (BAD, "bare-lf"),
            Self::BareCr => (BAD, "bare-cr"),
            Self::Nul => (BAD, "nul"),
            Self::Control => (BAD, "control-byte"),
            Self::EmptyLines => (BAD, "empty-lines"),
            Self::LeadingWhitespace => (BAD, "leading-whitespace"),
            Self::ObsFold => (BAD, "obs-fold"),
            Self::NoColon => (BAD, "no-colon"),
            Self::SpaceBeforeColon => (BAD, "space-before-colon"),
            Self::FieldName => (BAD, "field-name"),
            Self::Lookalike => (BAD, "lookalike-name"),
            Self::FieldTwice(place) => (BAD, fields::word_of_singleton(place)),
            Self::StartLine => (BAD, "start-line"),
            Self::MethodToken => (BAD, "method"),
            Self::MethodRefused => (StatusCode::METHOD_NOT_ALLOWED, "method-refused"),
            Self::VersionForm => (BAD, "version"),
            Self::VersionUnsupported => (StatusCode::HTTP_VERSION_NOT_SUPPORTED, "version-unsupported"),
            Self::StatusCode => (BAD, "status-code"),
            Self::TargetForm => (BAD, "target"),
            Self::TargetBytes => (BAD, "target-bytes"),
            Self::TargetFragment => (BAD, "target-fragment"),
            Self::TargetScheme => (BAD, "target-scheme"),
            Self::HostMissing => (BAD, "host-missing"),
            Self::HostTwice => (BAD, "host-twice"),
            Self::HostForm => (BAD, "host"),
            Self::HostUserinfo => (BAD, "host-userinfo"),
            Self::HostPort => (BAD, "host-port"),
            Self::LineLong => (StatusCode::URI_TOO_LONG, "line-too-long"),
            Self::HeadLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large"),
            Self::FieldsMany => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too-many-fields"),
            Self::LengthForm => (BAD, "content-length"),
            Self::LengthTwice => (BAD, "content-length-twice"),
            Self::LengthAndCoding => (BAD, "length-and-coding"),
            Self::CodingForm => (BAD, "transfer-encoding"),
            Self::CodingNotChunked => (BAD, "not-ending-in-chunked"),
            Self::CodingChunkedTwice => (BAD, "chunked-twice"),
            Self::CodingOnHttp10 => (BAD, "transfer-encoding-on-1.0"),
            Self::CodingUnknown => (StatusCode::NOT_IMPLEMENTED, "transfer-coding-unknown"),
            Self::ContentOnGet => (BAD, "content-on-get"),
            Self::ConnectionForm => (BAD, "connection"),
            Self::ConnectionNames => (BAD, "connection-names-needed-field"),
            Self::ExpectUnknown => (StatusCode::EXPECTATION_FAILED, "expect"),
            Self::InterimFraming => (BAD, "interim-with-content"),
            Self::ChunkSize => (BAD, "chunk-size"),
            Self::ChunkExtension => (BAD, "chunk-extension"),
            Self::ChunkExtensionsLarge => (BAD, "chunk-extensions-too-large"),
            Self::ChunkEnd => (BAD, "chunk-end"),
            Self::Truncated => (BAD, "truncated"),
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        self.facts().0
    }

    pub(crate) fn word(self) -> &'static str {
        self.facts().1
    }
}

/// A request head that Weir does not take. It is answered with [`Refusal::status`] and the connection is
/// closed: where the next request would begin is not known. The blame is always the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("request refused: {}", .fault.word())]
pub struct Refusal {
    fault: Fault,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.fault.status()
    }

    /// One kebab-case word for logs, such as `bare-lf`; of two values of a field that has one with the
    /// field's name behind a colon.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.fault.word()
    }

    /// The field of one value that has two: one of a fixed list of names.
    #[must_use]
    pub fn field_twice(&self) -> Option<&'static str> {
        match self.fault {
            Fault::FieldTwice(place) => fields::word_of_singleton(place).strip_prefix("field-twice:"),
            _ => None,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault }
    }
}

/// A response head, or a body of either direction, that is not what RFC 9112 says. The connection is never
/// used again. Who is to blame is who sent it: an origin's is a 502 or a cut, a client's becomes a
/// [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed message: {}", .fault.word())]
pub struct Malformed {
    fault: Fault,
}

impl Malformed {
    /// One kebab-case word for logs, such as `chunk-size`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.fault.word()
    }

    /// Whether the sender ended before the message did, rather than sending something wrong.
    #[must_use]
    pub fn is_truncation(&self) -> bool {
        self.fault == Fault::Truncated
    }

    /// The answer to a client whose body this was.
    #[must_use]
    pub fn refusal(self) -> Refusal {
        Refusal { fault: self.fault }
    }
}

impl From<Fault> for Malformed {
    fn from(fault: Fault) -> Self {
        Self { fault }
    }
}
