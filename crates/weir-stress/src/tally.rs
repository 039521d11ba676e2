//! What happened during a load, counted.

use std::sync::Arc;

use hdrhistogram::Histogram;
use rustls::HandshakeKind;

use crate::recorder::Recorder;

/// What was wrong with a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No connection was made.
    Connect,
    /// TLS could not begin.
    Handshake,
    /// The server did not take the request.
    Send,
    /// The connection ended before the response's head was whole.
    Closed,
    /// The connection ended before the body was whole.
    Short,
    /// A head or a chunked body that cannot be read.
    Broken,
    /// More bytes than the response declares.
    Surplus,
    /// Another status than the expected one.
    Status,
    /// Another length than the expected one.
    Length,
    /// Other bytes than the expected ones.
    Content,
    /// Another range than the requested one.
    Range,
    /// Not complete within the timeout.
    Timeout,
    /// A version that the origin no longer had for longer than it may be kept, or never had.
    Old,
    /// Another field than the expected one.
    Field,
    /// What the server says of itself is not what was counted.
    Count,
    /// A program that is a module reported it, or broke its protocol.
    Program,
}

impl Fault {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 16] = [
        Self::Connect,
        Self::Handshake,
        Self::Send,
        Self::Closed,
        Self::Short,
        Self::Broken,
        Self::Surplus,
        Self::Status,
        Self::Length,
        Self::Content,
        Self::Range,
        Self::Timeout,
        Self::Old,
        Self::Field,
        Self::Count,
        Self::Program,
    ];

    /// Its word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Send => "send",
            Self::Closed => "closed",
            Self::Short => "short",
            Self::Broken => "broken",
            Self::Surplus => "surplus",
            Self::Status => "status",
            Self::Length => "length",
            Self::Content => "content",
            Self::Range => "range",
            Self::Timeout => "timeout",
            Self::Old => "old",
            Self::Field => "field",
            Self::Count => "count",
            Self::Program => "program",
        }
    }
}

/// The counts of one turn, or of several added up.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Whole responses.
    pub(crate) requests: u64,
    /// Bytes of content.
    pub(crate) bytes: u64,
    pub(crate) connections: u64,
    /// TLS handshakes that went on with an earlier session.
    pub(crate) resumed: u64,
    /// From the beginning of a connection until it could carry a request, its TLS included.
    pub(crate) connect_ns: Histogram<u64>,
    pub(crate) handshake_ns: Histogram<u64>,
    pub(crate) faults: [u64; Fault::ALL.len()],
    pub(crate) first_fault: Option<String>,
    pub(crate) statuses: Vec<u64>,
    pub(crate) first_byte_ns: Histogram<u64>,
    pub(crate) total_ns: Histogram<u64>,
    /// Requests that were due, and had no response at the end.
    pub(crate) unanswered: u64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    recorder: Option<Arc<Recorder>>,
}

/// An empty histogram of nanoseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    // Two digits: every figure is within 1 %, and the table stays in the CPU's cache. Invariant: the
    // histogram accepts these constant bounds (a test of its own covers them).
    #[expect(clippy::expect_used, reason = "constant bounds")]
    Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("the bounds are valid")
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            requests: 0,
            bytes: 0,
            connections: 0,
            resumed: 0,
            connect_ns: histogram(),
            handshake_ns: histogram(),
            faults: [0; Fault::ALL.len()],
            first_fault: None,
            statuses: vec![0; 1000],
            first_byte_ns: histogram(),
            total_ns: histogram(),
            unanswered: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            recorder: None,
        }
    }

    /// One that tells `recorder` what happens, too.
    pub(crate) fn recorded(recorder: Option<Arc<Recorder>>) -> Self {
        Self { recorder, ..Self::new() }
    }

    pub(crate) fn fault(&mut self, fault: Fault, detail: impl FnOnce() -> String) {
        self.faults[fault as usize] += 1;
        if let Some(recorder) = &self.recorder {
            recorder.fault();
        }
        if self.first_fault.is_none() {
            self.first_fault = Some(format!("{}: {}", fault.word(), detail()));
        }
    }

    /// Counts a completed handshake.
    pub(crate) fn handshake(&mut self, took_ns: u64, kind: Option<HandshakeKind>) {
        self.handshake_ns.saturating_record(took_ns.max(1));
        self.resumed += u64::from(kind == Some(HandshakeKind::Resumed));
    }

    /// Counts a whole response of so many bytes of content.
    pub(crate) fn response(&mut self, status: u16, bytes: u64, first_byte_ns: u64, total_ns: u64) {
        if let Some(recorder) = &self.recorder {
            recorder.response(bytes, first_byte_ns, total_ns);
        }
        self.requests += 1;
        self.bytes += bytes;
        self.statuses[usize::from(status).min(999)] += 1;
        self.first_byte_ns.saturating_record(first_byte_ns.max(1));
        self.total_ns.saturating_record(total_ns.max(1));
    }

    /// Counts a request that has waited so long, and had no response at the end.
    pub(crate) fn unanswered(&mut self, waited_ns: u64) {
        self.unanswered += 1;
        self.first_byte_ns.saturating_record(waited_ns);
        self.total_ns.saturating_record(waited_ns);
    }

    /// Adds what was wrong in a load that does not count.
    pub(crate) fn add_faults(&mut self, other: &Self) {
        self.faults.iter_mut().zip(other.faults).for_each(|(mine, theirs)| *mine += theirs);
        self.first_fault = self.first_fault.take().or_else(|| other.first_fault.clone());
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.add_faults(other);
        self.statuses.iter_mut().zip(&other.statuses).for_each(|(mine, theirs)| *mine += theirs);
        // Equal bounds: adding cannot fail.
        let _ = self.connect_ns.add(&other.connect_ns);
        let _ = self.handshake_ns.add(&other.handshake_ns);
        let _ = self.first_byte_ns.add(&other.first_byte_ns);
        let _ = self.total_ns.add(&other.total_ns);
        self.unanswered += other.unanswered;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }
}
