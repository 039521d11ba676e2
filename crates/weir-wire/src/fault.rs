//! What is wrong with a message: a word for each fault, and the status that a client gets for it.

use http::StatusCode;
use thiserror::Error;

use crate::fields;

/// One fault. Both directions share the list.
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
    /// The field's position in the list of fields of one value.
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
    HostDiffers,
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
    ConnectionField,
    SpaceAround,
    Pseudo,
    ProtocolUnknown,
    ChunkSize,
    ChunkExtension,
    ChunkExtensionsLarge,
    ChunkEnd,
    Truncated,
}

impl Fault {
    /// The status that a client gets, and the word for logs.
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
            Self::HostDiffers => (BAD, "host-not-authority"),
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
            Self::ConnectionField => (BAD, "connection-field"),
            Self::SpaceAround => (BAD, "space-around-value"),
            Self::Pseudo => (BAD, "pseudo-field"),
            Self::ProtocolUnknown => (StatusCode::NOT_IMPLEMENTED, "protocol-unknown"),
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

/// A refused request head. It is answered with [`Refusal::status`], and the connection is closed, since
/// nobody knows where the next request begins. The client is always to blame.
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

    /// A kebab-case word for logs, such as `bare-lf`. For two values of a field of one value, the field's
    /// name follows behind a colon.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.fault.word()
    }

    /// The field of one value that has two; its name is from a fixed list.
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

/// A response head, or a body in either direction, that violates RFC 9112. The connection is never used
/// again. The sender is to blame: an origin's fault is a 502 or a cut, a client's becomes a [`Refusal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed message: {}", .fault.word())]
pub struct Malformed {
    fault: Fault,
}

impl Malformed {
    /// A kebab-case word for logs, such as `chunk-size`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.fault.word()
    }

    /// Whether the sender stopped before the message's end, rather than sending something wrong.
    #[must_use]
    pub fn is_truncation(&self) -> bool {
        self.fault == Fault::Truncated
    }

    /// The answer to a client that sent this body.
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
