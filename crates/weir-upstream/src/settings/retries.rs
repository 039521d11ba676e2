//! When a request is sent again.

/// When a request is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// After what.
    pub on: Vec<RetryOn>,
    /// How often, those aside that reached no origin.
    pub times: u32,
    /// How many may be sent again, in percent of the requests of the last ten seconds.
    pub budget_percent: u8,
    /// A second request is sent once this share of the answers came sooner, in thousandths; `None`: never.
    pub hedge_per_mille: Option<u16>,
}

/// What a request is sent again after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// No connection.
    Connect,
    /// The connection ended before a byte of a response.
    Closed,
    /// No response in time.
    Timeout,
    /// A response of this status.
    BadGateway,
    /// A response of this status.
    Unavailable,
    /// A response of this status.
    GatewayTimeout,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            on: vec![RetryOn::Connect, RetryOn::Closed],
            times: 1,
            budget_percent: 20,
            hedge_per_mille: None,
        }
    }
}

impl RetryOn {
    /// All, in the order of their counts.
    pub(crate) const ALL: [RetryOn; 6] = [
        RetryOn::Connect,
        RetryOn::Closed,
        RetryOn::Timeout,
        RetryOn::BadGateway,
        RetryOn::Unavailable,
        RetryOn::GatewayTimeout,
    ];

    /// The status that is meant, if one is.
    pub(crate) fn of_status(status: http::StatusCode) -> Option<RetryOn> {
        match status.as_u16() {
            502 => Some(RetryOn::BadGateway),
            503 => Some(RetryOn::Unavailable),
            504 => Some(RetryOn::GatewayTimeout),
            _ => None,
        }
    }

    /// The word for the configuration, logs and metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            RetryOn::Connect => "connect",
            RetryOn::Closed => "closed",
            RetryOn::Timeout => "timeout",
            RetryOn::BadGateway => "502",
            RetryOn::Unavailable => "503",
            RetryOn::GatewayTimeout => "504",
        }
    }
}
