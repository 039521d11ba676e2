//! What errors say of the origin.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Bound, ExchangeError};

#[test]
fn what_is_no_answer_at_all() {
    let source = Arc::new(io::Error::other("x"));
    let host: Arc<str> = "a.example".into();
    for error in [
        ExchangeError::Lookup { host: host.clone(), source: source.clone() },
        ExchangeError::LookupTimeout { host },
        ExchangeError::Refused { source: source.clone() },
        ExchangeError::Unroutable { source: source.clone() },
        ExchangeError::Connect { source: source.clone() },
        ExchangeError::ConnectTimeout,
        ExchangeError::Certificate { source: source.clone() },
        ExchangeError::Alert { source: source.clone() },
        ExchangeError::Tls { source },
        ExchangeError::Terminated,
        ExchangeError::Incomplete,
        ExchangeError::FirstByteTimeout,
        ExchangeError::ReadTimeout,
        ExchangeError::WriteTimeout,
    ] {
        assert!(error.is_no_answer(), "{error:?}");
    }
    for error in [
        ExchangeError::Malformed { reason: "bare-lf" },
        ExchangeError::HeadTooLarge { reason: "head-too-large" },
        ExchangeError::Upgrade,
        ExchangeError::Busy { bound: Bound::Connections, retry_after: Duration::from_secs(1) },
        ExchangeError::BodyAborted,
    ] {
        assert!(!error.is_no_answer(), "{error:?}");
    }
}
