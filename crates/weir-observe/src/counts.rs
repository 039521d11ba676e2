//! The counters of a worker, one row each: its name in the metrics, and what it means. The metrics, `weir
//! status` and the guide's page are printed from these rows. To count something new, add a row and call
//! [`super::Counters::count`] or [`super::Counters::count_site`] where it happens. It must not know who
//! counts.

use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// The description of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its metric, without `_total`; empty where it is only half of a [`Level`].
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// The words after the number in `weir status`, shown where the number is not 0. Empty: the counter is
    /// not shown there.
    pub said: &'static str,
}

/// An enum of counters from its rows. It makes no decision.
macro_rules! rows {
    ($(#[$doc:meta])* $of:ident { $($variant:ident: $name:literal, $help:literal, $said:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $of { $(#[doc = $help] $variant,)* }

        impl $of {
            /// All of them, in the order of their discriminants.
            pub const ALL: &'static [$of] = &[$($of::$variant),*];

            /// Its description.
            pub fn row(self) -> Row {
                match self {
                    $($of::$variant => Row { name: $name, help: $help, said: $said },)*
                }
            }
        }
    };
}

rows! {
    /// What a worker counts over all sites.
    Count {
        TlsAgreed: "weir_tls_handshakes_full", "TLS handshakes that agreed on new keys.", "";
        TlsResumed: "weir_tls_handshakes_resumed", "TLS handshakes that resumed a session.", "";
        TlsFailed: "weir_tls_handshakes_failed", "TLS handshakes that failed.", "";
        TlsLate: "weir_tls_handshakes_late", "TLS handshakes that did not end in time.", "";
        ClientBodyBytes: "weir_client_body_bytes", "Body bytes sent to clients.", "";
        CachedBodyBytes: "weir_cached_body_bytes", "Body bytes sent to clients that came from the cache.", "";
        OriginBodyBytes: "weir_origin_body_bytes", "Body bytes received from origins.", "";
        ForwardedRequests: "weir_forwarded_requests", "Requests sent to origins.", "";
        ForwardedRetries:
            "weir_forwarded_retries",
            "Requests to origins that were tried again.",
            "retried at an origin";
        Stored: "weir_responses_stored", "Responses that were stored.", "";
        Collapsed:
            "weir_requests_collapsed",
            "Requests that read the fill of another (RFC 9211, collapsed).",
            "";
        Fills: "weir_fills", "Transfers from an origin into the cache.", "";
        FillsEnded: "", "Fills that ended whole.", "";
        FillsFailed:
            "weir_fills_failed",
            "Transfers from an origin into the cache that did not end whole.",
            "";
        Cut: "", "Responses that Weir or the origin ended early.", "";
        ClientGone: "", "Responses whose client left early.", "";
        RequestsBegun: "", "Requests whose head was read.", "";
        RequestsEnded: "", "Requests that have ended.", "";
        ConnectionsAccepted: "weir_connections_accepted", "Connections of clients accepted.", "";
        ConnectionsClosed: "", "Accepted connections that have ended.", "";
        ConnectionsRefused:
            "weir_connections_refused",
            "Connections of clients turned away.",
            "connections turned away";
        ConnectionsDisplaced:
            "weir_connections_displaced",
            "Idle connections of clients closed to make room for others.",
            "idle connections closed for others";
        Http2Connections: "weir_http2_connections", "Connections of clients that began HTTP/2.", "";
        Http2ConnectionsClosed: "", "HTTP/2 connections that have ended.", "";
        Http2Streams: "weir_http2_streams", "Streams that clients began on HTTP/2 connections.", "";
        Http2StreamsClosed: "", "HTTP/2 streams that have ended.", "";
        Http2StreamsRefused:
            "weir_http2_streams_refused",
            "HTTP/2 streams refused before any work, as their connection or client held too much memory.",
            "HTTP/2 streams refused for memory";
        FloodsOfResets:
            "weir_http2_floods_resets",
            "HTTP/2 connections ended, or clients of proxies refused, for too many resets.",
            "HTTP/2 connections ended for resets";
        FloodsOfMadeResets:
            "weir_http2_floods_made_resets",
            "HTTP/2 connections ended, or clients of proxies refused, for resets that they caused.",
            "HTTP/2 connections ended for streams it had to reset";
        FloodsOfFrames:
            "weir_http2_floods_frames",
            "HTTP/2 connections ended because of too many frames without head or body.",
            "HTTP/2 connections ended for idle frames";
        FloodsOfHeads:
            "weir_http2_floods_heads",
            "HTTP/2 connections ended because heads did not end, or were far too large.",
            "HTTP/2 connections ended for heads";
        TunnelsOpened: "weir_tunnels_opened", "Upgraded connections that became tunnels.", "";
        TunnelsClosed: "", "Tunnels that have ended.", "";
        Purges: "weir_purges", "Purges by requests of clients.", "";
        PurgesRefused:
            "weir_purges_refused",
            "Requests for a purge that were refused: the client may not, or they name nothing.",
            "requests for a purge refused";
        PurgesWidened:
            "weir_purges_widened",
            "Purges by requests that took more than they say: unread patterns, or no room for so many marks.",
            "purges wider than asked for";
        Panics: "weir_panics", "Requests and fills that panicked: please report them.", "panics";
        LogDropped:
            "weir_log_lines_dropped",
            "Lines of the access log dropped.",
            "log lines dropped";
        UpstreamLogDropped:
            "weir_upstream_log_lines_dropped",
            "Lines of the upstream log dropped.",
            "upstream log lines dropped";
        Events: "weir_events", "Events written.", "";
        EventsDropped: "weir_events_dropped", "Events dropped.", "events dropped";
    }
}

rows! {
    /// What a worker counts of each site.
    SiteCount {
        ClientBodyBytes: "weir_site_client_body_bytes", "Body bytes sent to clients, by site.", "";
        ClientBytes:
            "weir_site_client_bytes",
            "Bytes written to clients by site: heads, interim responses, framing, bodies; without TLS.",
            "";
        OriginRequests:
            "weir_site_origin_requests",
            "Requests written to origins by site, each retry and range counted.",
            "";
        OriginBytes:
            "weir_site_origin_bytes",
            "Bytes read from origins by site: heads, framing and bodies, without TLS.",
            "";
        SendStallCuts:
            "weir_site_send_stall_cuts",
            "Responses cut because the client took no byte for limits.send_stall, by site.",
            "cut for send_stall";
    }
}

/// Something that exists now: how many have begun, less how many have ended. A connection may end on another
/// worker than it began on, so only the sums over all workers are meaningful.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Its metric.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    begun: Count,
    ended: &'static [Count],
}

impl Level {
    /// Fills under way.
    pub const FILLS: Level = level(
        "weir_fills_running",
        "Fills under way.",
        Count::Fills,
        &[Count::FillsEnded, Count::FillsFailed],
    );
    /// Requests under way.
    pub const REQUESTS: Level =
        level("weir_requests_running", "Requests under way.", Count::RequestsBegun, &[Count::RequestsEnded]);
    /// Open connections of clients.
    pub const CONNECTIONS: Level = level(
        "weir_connections_open",
        "Open connections of clients.",
        Count::ConnectionsAccepted,
        &[Count::ConnectionsClosed],
    );
    /// Open tunnels.
    pub const TUNNELS: Level =
        level("weir_tunnels_open", "Open tunnels.", Count::TunnelsOpened, &[Count::TunnelsClosed]);
    /// Open HTTP/2 connections.
    pub const HTTP2_CONNECTIONS: Level = level(
        "weir_http2_connections_open",
        "Open connections of clients that speak HTTP/2.",
        Count::Http2Connections,
        &[Count::Http2ConnectionsClosed],
    );
    /// HTTP/2 streams under way.
    pub const HTTP2_STREAMS: Level = level(
        "weir_http2_streams_open",
        "HTTP/2 streams under way.",
        Count::Http2Streams,
        &[Count::Http2StreamsClosed],
    );
    /// All of them.
    pub const ALL: [Level; 6] = [
        Level::REQUESTS,
        Level::CONNECTIONS,
        Level::HTTP2_CONNECTIONS,
        Level::HTTP2_STREAMS,
        Level::TUNNELS,
        Level::FILLS,
    ];

    /// How many there are, from the sums of all workers.
    pub fn now(&self, counts: &Counts) -> u64 {
        let ended: u64 = self.ended.iter().map(|ended| counts[*ended]).sum();
        counts[self.begun].saturating_sub(ended)
    }
}

const fn level(name: &'static str, help: &'static str, begun: Count, ended: &'static [Count]) -> Level {
    Level { name, help, begun, ended }
}

/// As many numbers as there are rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums<const N: usize>([u64; N]);

/// The sums of [`Count`].
pub type Counts = Sums<{ Count::ALL.len() }>;
/// The sums of [`SiteCount`].
pub type SiteCounts = Sums<{ SiteCount::ALL.len() }>;

impl<const N: usize> Default for Sums<N> {
    fn default() -> Self {
        Sums([0; N])
    }
}

impl<const N: usize> Sums<N> {
    pub(super) fn add(&mut self, cells: &Cells<N>) {
        for (sum, cell) in self.0.iter_mut().zip(&cells.0) {
            *sum += cell.load(Ordering::Relaxed);
        }
    }
}

impl Index<Count> for Counts {
    type Output = u64;

    fn index(&self, count: Count) -> &u64 {
        &self.0[count as usize]
    }
}

impl IndexMut<Count> for Counts {
    fn index_mut(&mut self, count: Count) -> &mut u64 {
        &mut self.0[count as usize]
    }
}

impl Index<SiteCount> for SiteCounts {
    type Output = u64;

    fn index(&self, count: SiteCount) -> &u64 {
        &self.0[count as usize]
    }
}

impl IndexMut<SiteCount> for SiteCounts {
    fn index_mut(&mut self, count: SiteCount) -> &mut u64 {
        &mut self.0[count as usize]
    }
}

/// The cells of the rows. Only one thread writes them.
#[derive(Debug)]
pub(super) struct Cells<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Cells<N> {
    fn default() -> Self {
        Cells([const { AtomicU64::new(0) }; N])
    }
}

impl<const N: usize> Cells<N> {
    pub(super) fn add(&self, row: usize, by: u64) {
        bump(&self.0[row], by);
    }
}

/// Adds to a cell that only one thread writes.
pub(super) fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
