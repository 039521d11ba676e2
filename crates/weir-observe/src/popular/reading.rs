//! What the counters say at one moment, and how much was counted between two of them.

use std::time::Duration;

use crate::counters::Counters;
use crate::counts::Count;
use crate::latency::Latency;
use crate::record::Outcome;
use crate::snapshot::Snapshot;

/// The counters at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// Since the start.
    pub(super) at: Duration,
    traffic: Traffic,
}

/// What was counted in a span of time.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// How long the span is.
    pub span: Duration,
    /// Finished requests, in the order of [`Outcome::ALL`].
    pub requests: [u64; Outcome::ALL.len()],
    /// Time to the first byte, in the order of [`Outcome::ALL`].
    pub first_byte: [Latency; Outcome::ALL.len()],
    /// Body bytes sent to clients.
    pub client_bytes: u64,
    /// Body bytes received from origins.
    pub origin_bytes: u64,
    /// Requests sent to origins.
    pub origin_requests: u64,
}

impl Reading {
    pub(super) fn of<'c>(at: Duration, workers: impl Iterator<Item = &'c Counters>) -> Reading {
        let mut sum = Snapshot::default();
        workers.for_each(|counters| sum.merge_numbers(counters));
        let traffic = Traffic {
            span: at,
            requests: sum.requests,
            first_byte: sum.first_byte,
            client_bytes: sum.counts[Count::ClientBodyBytes],
            origin_bytes: sum.counts[Count::OriginBodyBytes],
            origin_requests: sum.counts[Count::ForwardedRequests],
        };
        Reading { at, traffic }
    }

    /// What was counted since an earlier reading.
    pub(super) fn since(&self, before: &Reading) -> Traffic {
        let (now, before) = (&self.traffic, &before.traffic);
        Traffic {
            span: now.span.saturating_sub(before.span),
            requests: std::array::from_fn(|at| now.requests[at].saturating_sub(before.requests[at])),
            first_byte: std::array::from_fn(|at| now.first_byte[at].since(&before.first_byte[at])),
            client_bytes: now.client_bytes.saturating_sub(before.client_bytes),
            origin_bytes: now.origin_bytes.saturating_sub(before.origin_bytes),
            origin_requests: now.origin_requests.saturating_sub(before.origin_requests),
        }
    }
}
