//! What errors say of the origin.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Bound, OriginError};

#[test]
fn what_is_no_answer_at_all() {
    let source = Arc::new(io::Error::other("x"));
    let host: Arc<str> = "a.example".into();
    for error in [
        OriginError::Lookup { host: host.clone(), source: source.clone() },
        OriginError::LookupTimeout { host },
        OriginError::Refused { source: source.clone() },
        OriginError::Unroutable { source: source.clone() },
        OriginError::Connect { source: source.clone() },
        OriginError::ConnectTimeout,
        OriginError::Certificate { source: source.clone() },
        OriginError::Alert { source: source.clone() },
        OriginError::Tls { source },
        OriginError::Terminated,
        OriginError::Incomplete,
        OriginError::FirstByteTimeout,
        OriginError::ReadTimeout,
        OriginError::WriteTimeout,
    ] {
        assert!(error.is_no_answer(), "{error:?}");
    }
    for error in [
        OriginError::Malformed { reason: "bare-lf" },
        OriginError::HeadTooLarge { reason: "head-too-large" },
        OriginError::Upgrade,
        OriginError::Busy { bound: Bound::Connections, retry_after: Duration::from_secs(1) },
        OriginError::BodyAborted,
    ] {
        assert!(!error.is_no_answer(), "{error:?}");
    }
}
