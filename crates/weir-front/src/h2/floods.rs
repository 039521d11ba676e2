//! The bounds on what a client may make its connection do without getting on (RFC 9113 §10.5). A client that
//! passes one is told ENHANCE_YOUR_CALM, and its connection ends. It must not know how frames are read.
//!
//! The connection of a trusted proxy has many clients. What is reset on it is noted until the stream ends,
//! and counts for the client that the proxy names (`named`). Idle frames are the proxy's own.
//!
//! Two levels rise with what costs Weir and brings nobody anything, and sink with time and with what does:
//! - *resets*: streams that the client reset, and streams that it made Weir reset ("rapid reset",
//!   CVE-2023-44487; "MadeYouReset", CVE-2025-8671), against streams that ended whole;
//! - *idle bytes*: frames without head or body, against the bytes of heads and bodies in both directions.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weir_observe::Count;

use super::frames::{Code, Frame, Kind};
use crate::message::Trust;

/// Resets in a minute beyond the streams that ended whole.
pub(super) const RESETS_MAX: f64 = 100.0;
/// Bytes of frames without head or body in a minute, beyond those with.
const IDLE_BYTES_MAX: f64 = 65_536.0;
/// How far what went well counts in advance, in the same units.
const CREDIT: f64 = 1.0;
/// The least that a frame without head or body is counted as: it costs more than its bytes.
const IDLE_FRAME_BYTES_MIN: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);
/// The most resets that are noted. Those of streams that had ended before are never asked for.
const NOTED_MAX: usize = 256;

/// What a client has overdone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// It reset streams.
    Resets,
    /// It made Weir reset streams.
    MadeResets,
    /// It sent frames that carry neither head nor body.
    Frames,
    /// Its heads have no end.
    Heads,
}

impl Flood {
    /// The counter of its kind.
    pub(super) fn count(self) -> Count {
        match self {
            Flood::Resets => Count::FloodsOfResets,
            Flood::MadeResets => Count::FloodsOfMadeResets,
            Flood::Frames => Count::FloodsOfFrames,
            Flood::Heads => Count::FloodsOfHeads,
        }
    }

    /// The flood that frames of this kind make.
    pub(super) fn by(kind: Kind) -> Flood {
        match kind {
            Kind::Headers | Kind::Continuation => Flood::Heads,
            Kind::ResetStream => Flood::Resets,
            Kind::Data | Kind::GoAway | Kind::Other => Flood::Frames,
        }
    }

    /// The word for logs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Flood::Resets => "resets",
            Flood::MadeResets => "made-resets",
            Flood::Frames => "frames",
            Flood::Heads => "heads",
        }
    }
}

/// A level that sinks by its bound in a minute.
#[derive(Debug)]
pub(super) struct Level {
    level: f64,
    bound: f64,
    at: Instant,
}

impl Level {
    pub(super) fn new(bound: f64, at: Instant) -> Level {
        Level { level: 0.0, bound, at }
    }

    /// Raises it. True if it has passed its bound.
    pub(super) fn raise(&mut self, by: f64, now: Instant) -> bool {
        self.height(now);
        self.level += by;
        self.level > self.bound
    }

    /// Whether it has passed its bound and has not sunk since.
    pub(super) fn is_passed(&mut self, now: Instant) -> bool {
        self.height(now) > self.bound
    }

    /// Where it is, after it has sunk.
    pub(super) fn height(&mut self, now: Instant) -> f64 {
        let sunk = self.bound * now.saturating_duration_since(self.at).as_secs_f64() / MINUTE.as_secs_f64();
        self.at = now;
        if self.level > 0.0 {
            self.level = (self.level - sunk).max(0.0);
        }
        self.level
    }

    pub(super) fn lower(&mut self, by: f64) {
        self.level = (self.level - by).max(-CREDIT * self.bound);
    }
}

/// What is made of resets.
#[derive(Debug)]
enum Resets {
    /// They count for the connection's client.
    Counted(Level),
    /// They wait for their streams to end, each with the stream's number.
    Noted(VecDeque<(u32, Flood)>),
}

/// The levels of one connection.
#[derive(Debug)]
pub(super) struct Floods {
    resets: Resets,
    idle_bytes: Level,
}

impl Floods {
    pub(super) fn new(trust: Trust, now: Instant) -> Floods {
        let resets = match trust {
            Trust::Untrusted => Resets::Counted(Level::new(RESETS_MAX, now)),
            Trust::Trusted => Resets::Noted(VecDeque::new()),
        };
        Floods { resets, idle_bytes: Level::new(IDLE_BYTES_MAX, now) }
    }

    fn reset(&mut self, stream: u32, how: Flood, now: Instant) -> Option<Flood> {
        match &mut self.resets {
            Resets::Counted(level) => level.raise(1.0, now).then_some(how),
            Resets::Noted(noted) => {
                if noted.len() == NOTED_MAX {
                    noted.pop_front();
                }
                noted.push_back((stream, how));
                None
            }
        }
    }

    /// How a stream of a trusted proxy was reset, if it was.
    pub(super) fn take_reset(&mut self, stream: u32) -> Option<Flood> {
        let Resets::Noted(noted) = &mut self.resets else { return None };
        let at = noted.iter().position(|(noted, _)| *noted == stream)?;
        noted.remove(at).map(|(_, how)| how)
    }

    /// Notes that a frame of the client has begun.
    pub(super) fn received(&mut self, frame: &Frame, now: Instant) -> Option<Flood> {
        match frame.kind {
            Kind::Headers => self.idle_bytes.lower(frame.bytes() as f64),
            Kind::Data if frame.payload_bytes > 0 => self.idle_bytes.lower(frame.payload_bytes as f64),
            Kind::ResetStream => return self.reset(frame.stream, Flood::Resets, now),
            Kind::Data | Kind::Continuation | Kind::GoAway | Kind::Other => {
                let bytes = frame.bytes().max(IDLE_FRAME_BYTES_MIN);
                return self.idle_bytes.raise(bytes as f64, now).then_some(Flood::Frames);
            }
        }
        None
    }

    /// Notes a frame that was sent.
    pub(super) fn sent(&mut self, frame: &Frame, code: Code, now: Instant) -> Option<Flood> {
        match frame.kind {
            Kind::Data => self.idle_bytes.lower(frame.payload_bytes as f64),
            Kind::ResetStream if is_clients_fault(code) => {
                return self.reset(frame.stream, Flood::MadeResets, now);
            }
            _ => {}
        }
        None
    }

    /// Notes that a stream ended whole.
    pub(super) fn finished(&mut self) {
        if let Resets::Counted(level) = &mut self.resets {
            level.lower(1.0);
        }
    }
}

/// Whether a stream is reset with this code for a fault of the client (RFC 9113 §7).
fn is_clients_fault(Code(code): Code) -> bool {
    const PROTOCOL_ERROR: u32 = 1;
    const FLOW_CONTROL_ERROR: u32 = 3;
    const STREAM_CLOSED: u32 = 5;
    const FRAME_SIZE_ERROR: u32 = 6;
    matches!(code, PROTOCOL_ERROR | FLOW_CONTROL_ERROR | STREAM_CLOSED | FRAME_SIZE_ERROR)
}
