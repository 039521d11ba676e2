//! Why a request gets no response of an origin, or no more of one, and why there is no upstream.

use std::time::Duration;

use http::StatusCode;
use weir_client::{Blame, Bound, ExchangeError, SetupError};

use crate::choice::decider::Denial;

/// Why there is no response, or no more of one.
///
/// Clone, so that each request that waits for a fill can be given it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The exchange with the origin has failed, or did not begin.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// No origin may be asked: all are drained or in maintenance.
    #[error("no origin takes requests")]
    NoOrigin,
    /// A script or a distributor refuses the request.
    #[error("the request is denied")]
    Denied(Denial),
}

impl OriginError {
    /// All connections are in use, or as many streams are open as may be.
    pub fn busy(bound: Bound, retry_after: Duration) -> OriginError {
        ExchangeError::Busy { bound, retry_after }.into()
    }

    /// What the exchange says, or what is said where none began.
    fn said<T>(&self, exchange: fn(&ExchangeError) -> T, no_origin: T, denied: fn(&Denial) -> T) -> T {
        match self {
            Self::Exchange(error) => exchange(error),
            Self::NoOrigin => no_origin,
            Self::Denied(denial) => denied(denial),
        }
    }

    /// The status of the response to the client, where nothing was sent yet.
    pub fn status(&self) -> StatusCode {
        self.said(ExchangeError::status, StatusCode::SERVICE_UNAVAILABLE, |denial| denial.status)
    }

    /// The error type for `Proxy-Status` (RFC 9209 §2.3).
    pub fn proxy_status(&self) -> &'static str {
        self.said(ExchangeError::proxy_status, "destination_unavailable", |_| "http_request_denied")
    }

    /// A short word for logs and `Cache-Status` details.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exchange(error) => error.word(),
            Self::NoOrigin => "no-origin",
            Self::Denied(_) => "pick-denied",
        }
    }

    /// Who has to act.
    pub fn blame(&self) -> Blame {
        self.said(ExchangeError::blame, Blame::Local, |_| Blame::Client)
    }

    /// As [`ExchangeError::is_before_request`].
    pub fn is_before_request(&self) -> bool {
        self.said(ExchangeError::is_before_request, true, |_| false)
    }

    /// As [`ExchangeError::is_no_answer`].
    pub fn is_no_answer(&self) -> bool {
        self.said(ExchangeError::is_no_answer, true, |_| false)
    }

    /// Seconds for `Retry-After`; only where all connections are in use, or a denial names them.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.said(ExchangeError::retry_after_s, None, |denial| denial.retry_after_s.map(u64::from))
    }
}

/// Why an upstream cannot be made of its settings. Always the configuration's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// An origin cannot be spoken to as they say.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// No origin, or backups only.
    #[error("upstream {name} has no primary origin")]
    NoPrimary {
        /// The upstream.
        name: String,
    },
    /// A weight of 0 or above 1,000, or a limit of 0.
    #[error("upstream {name}: {what} must be {range}")]
    Range {
        /// The upstream.
        name: String,
        /// The setting.
        what: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// A cookie of Weir's own without a key.
    #[error("upstream {name}: its affinity has no key; is its key_file readable?")]
    NoKey {
        /// The upstream.
        name: String,
    },
}

impl UpstreamError {
    /// Who has to act.
    pub fn blame(&self) -> Blame {
        Blame::Config
    }
}
