//! What is wrong with a message: one word a fault, and the status it costs a client.

use http::StatusCode;
use thiserror::Error;

macro_rules! faults {
    ($($name:ident $status:ident $word:literal,)+) => {
        /// One way to be wrong. Both directions share the list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault { $($name,)+ }

        impl Fault {
            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)+ }
            }

            pub(crate) fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

faults! {
    BareLf BAD_REQUEST "bare-lf",
    BareCr BAD_REQUEST "bare-cr",
    Nul BAD_REQUEST "nul",
    Control BAD_REQUEST "control-byte",
    EmptyLines BAD_REQUEST "empty-lines",
    LeadingWhitespace BAD_REQUEST "leading-whitespace",
    ObsFold BAD_REQUEST "obs-fold",
    NoColon BAD_REQUEST "no-colon",
    SpaceBeforeColon BAD_REQUEST "space-before-colon",
    FieldName BAD_REQUEST "field-name",
    Lookalike BAD_REQUEST "lookalike-name",
    StartLine BAD_REQUEST "start-line",
    MethodToken BAD_REQUEST "method",
    MethodRefused METHOD_NOT_ALLOWED "method-refused",
    VersionForm BAD_REQUEST "version",
    VersionUnsupported HTTP_VERSION_NOT_SUPPORTED "version-unsupported",
    StatusCode BAD_REQUEST "status-code",
    TargetForm BAD_REQUEST "target",
    TargetBytes BAD_REQUEST "target-bytes",
    TargetFragment BAD_REQUEST "target-fragment",
    TargetScheme BAD_REQUEST "target-scheme",
    HostMissing BAD_REQUEST "host-missing",
    HostTwice BAD_REQUEST "host-twice",
    HostForm BAD_REQUEST "host",
    HostUserinfo BAD_REQUEST "host-userinfo",
    HostPort BAD_REQUEST "host-port",
    HostMismatch BAD_REQUEST "host-mismatch",
    LineLong URI_TOO_LONG "line-too-long",
    HeadLarge REQUEST_HEADER_FIELDS_TOO_LARGE "head-too-large",
    FieldsMany REQUEST_HEADER_FIELDS_TOO_LARGE "too-many-fields",
    LengthForm BAD_REQUEST "content-length",
    LengthTwice BAD_REQUEST "content-length-twice",
    LengthAndCoding BAD_REQUEST "length-and-coding",
    CodingForm BAD_REQUEST "transfer-encoding",
    CodingNotChunked BAD_REQUEST "not-ending-in-chunked",
    CodingChunkedTwice BAD_REQUEST "chunked-twice",
    CodingOnHttp10 BAD_REQUEST "transfer-encoding-on-1.0",
    CodingUnknown NOT_IMPLEMENTED "transfer-coding-unknown",
    ContentOnGet BAD_REQUEST "content-on-get",
    ConnectionForm BAD_REQUEST "connection",
    ConnectionNames BAD_REQUEST "connection-names-needed-field",
    ExpectUnknown EXPECTATION_FAILED "expect",
    InterimFraming BAD_REQUEST "interim-with-content",
    ChunkSize BAD_REQUEST "chunk-size",
    ChunkExtension BAD_REQUEST "chunk-extension",
    ChunkExtensionsLarge BAD_REQUEST "chunk-extensions-too-large",
    ChunkEnd BAD_REQUEST "chunk-end",
    Truncated BAD_REQUEST "truncated",
}

/// A request head that Weir does not take. It is answered with [`Refusal::status`] and the connection is closed:
/// where the next request would begin is not known. The blame is always the client's.
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

    /// One kebab-case word for logs, such as `bare-lf`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.fault.word()
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self { fault }
    }
}

/// A response head, or a body of either direction, that is not what RFC 9112 says. The connection is never used
/// again. Who is to blame is who sent it: an origin's is a 502 or a cut, a client's becomes a [`Refusal`].
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
