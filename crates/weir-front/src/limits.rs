//! The limits of clients, and when a client is cut off.

use std::time::{Duration, Instant};

/// How large and how slow the content of one request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentLimits {
    /// Its bytes: 413.
    pub bytes_max: u64,
    /// The least rate after the first ten seconds, in bytes a second: 408. 0: none.
    pub rate_min: u64,
}

/// The least rate of content is demanded after this time.
const RATE_GRACE: Duration = Duration::from_secs(10);

impl ContentLimits {
    /// When the next byte of content that began at `begun` must be here for its rate not to fall below the
    /// least, once so many bytes were received.
    pub(crate) fn due(&self, begun: Instant, received: u64) -> Instant {
        let covered_s = received.checked_div(self.rate_min).unwrap_or(u64::from(u32::MAX));
        begun + RATE_GRACE + Duration::from_secs(covered_s.min(u64::from(u32::MAX)))
    }
}

/// How long, how large and how slow a client's requests may be. `docs/guide` has the status of each limit.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// The limits of request line, head and fields.
    pub head: weir_wire::Limits,
    /// Bytes of a request body.
    pub body_bytes_max: u64,
    /// The time from the first byte of a head to its last: 408.
    pub head_time_max: Duration,
    /// The time between two requests.
    pub idle_time_max: Duration,
    /// The least rate of a request body after the first ten seconds, in bytes a second: 408.
    pub body_rate_min: u64,
    /// The time without progress in sending.
    pub send_stall_max: Duration,
    /// The least rate, in bytes a second, of a client whose response holds an origin's connection.
    pub read_rate_min: u64,
    /// How many bytes of a request's body are held back before an origin's connection is taken.
    pub body_hold_bytes: usize,
    /// The time from the end of the client's side to the end of the request, while the client takes nothing
    /// of the response.
    pub half_close_max: Duration,
    /// The most connections of all clients. Above it, the longest idle are closed.
    pub connections_max: usize,
    /// The most connections of one client, or requests of one that a trusted proxy names. Further ones are
    /// refused.
    pub per_client_max: usize,
    /// The time without a byte in either direction of a tunnel, or on an event stream.
    pub tunnel_idle_max: Duration,
}

/// How long a client takes nothing before its body lets go of what others could use: 100 ms.
pub(crate) const LET_GO_AFTER: Duration = Duration::from_millis(100);
/// How often it is asked to let go of more, as long as it could: 1 s.
pub(crate) const LET_GO_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Memory that a connection holds beyond what each is reckoned with is charged in pieces of 32 KiB.
pub const CHARGE_BYTES: usize = 32 << 10;

impl ClientLimits {
    /// Those of content, where a request's site says nothing else.
    pub fn content(&self) -> ContentLimits {
        ContentLimits { bytes_max: self.body_bytes_max, rate_min: self.body_rate_min }
    }
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            head: weir_wire::Limits::default(),
            body_bytes_max: 10 << 30,
            head_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(60),
            body_rate_min: 256,
            send_stall_max: Duration::from_secs(60),
            read_rate_min: 256,
            body_hold_bytes: 64 << 10,
            half_close_max: Duration::from_secs(2),
            connections_max: usize::MAX,
            per_client_max: usize::MAX,
            tunnel_idle_max: Duration::from_secs(3600),
        }
    }
}
