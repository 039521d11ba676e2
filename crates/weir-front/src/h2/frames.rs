//! Frame heads in a stream of bytes (RFC 9113 §4.1), scanned beneath the crate `h2`, which shows no frames.
//! It must not judge them: `floods` does.

/// The length of a frame's head.
const HEAD_BYTES: usize = 9;
/// The bytes at the beginning of a payload that are kept: the codes of RST_STREAM and GOAWAY are in them.
const OPENING_BYTES: usize = 8;

/// The types of frames that are told apart (RFC 9113 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    ResetStream,
    GoAway,
    Continuation,
    /// PRIORITY, SETTINGS, PING, WINDOW_UPDATE, and types that nobody knows.
    Other,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    flags: u8,
    /// The number of its stream; 0 for the connection.
    pub(super) stream: u32,
    /// The length of its payload.
    pub(super) payload_bytes: usize,
}

impl Frame {
    fn of(head: &[u8; HEAD_BYTES]) -> Frame {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = *head;
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Headers,
            3 => Kind::ResetStream,
            7 => Kind::GoAway,
            9 => Kind::Continuation,
            _ => Kind::Other,
        };
        Frame {
            kind,
            flags,
            stream: u32::from_be_bytes([s3, s2, s1, s0]) & (u32::MAX >> 1),
            payload_bytes: u32::from_be_bytes([0, l2, l1, l0]) as usize,
        }
    }

    /// Its length with its head.
    pub(super) fn bytes(&self) -> usize {
        HEAD_BYTES + self.payload_bytes
    }

    /// Whether it belongs to a head or to trailers.
    pub(super) fn is_of_fields(&self) -> bool {
        matches!(self.kind, Kind::Headers | Kind::Continuation)
    }

    /// Whether it ends a head or trailers.
    pub(super) fn ends_fields(&self) -> bool {
        const END_HEADERS: u8 = 4;
        self.is_of_fields() && self.flags & END_HEADERS != 0
    }
}

/// What a scan comes across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The head of a frame is there.
    Begun(Frame),
    /// All of a frame is there. The code is that of RST_STREAM or GOAWAY.
    Ended(Frame, Code),
}

/// The error code of a frame that has one (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) u32);

/// The scan of one direction of a connection.
#[derive(Debug)]
pub(super) struct Scan {
    /// Bytes to pass before the first frame.
    preface: usize,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// The frame whose payload is being passed, and how much of that was passed.
    within: Option<(Frame, usize)>,
    opening: [u8; OPENING_BYTES],
}

impl Scan {
    /// A scan that begins behind a preface of so many bytes.
    pub(super) fn behind(preface: usize) -> Scan {
        Scan { preface, head: [0; HEAD_BYTES], head_bytes: 0, within: None, opening: [0; OPENING_BYTES] }
    }

    /// The frame whose payload has begun and not ended, and how much of that has passed.
    pub(super) fn within(&self) -> Option<(Frame, usize)> {
        self.within
    }

    /// Passes bytes up to the next event. Returns how many were passed; without an event, all.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> (usize, Option<Event>) {
        let mut at = self.preface.min(bytes.len());
        self.preface -= at;
        let Some((frame, passed)) = self.within else {
            let more = (HEAD_BYTES - self.head_bytes).min(bytes.len() - at);
            self.head[self.head_bytes..self.head_bytes + more].copy_from_slice(&bytes[at..at + more]);
            self.head_bytes += more;
            at += more;
            if self.head_bytes < HEAD_BYTES {
                return (at, None);
            }
            let frame = Frame::of(&self.head);
            self.head_bytes = 0;
            self.within = Some((frame, 0));
            return (at, Some(Event::Begun(frame)));
        };
        let more = (frame.payload_bytes - passed).min(bytes.len() - at);
        if passed < OPENING_BYTES {
            let kept = more.min(OPENING_BYTES - passed);
            self.opening[passed..passed + kept].copy_from_slice(&bytes[at..at + kept]);
        }
        at += more;
        if passed + more < frame.payload_bytes {
            self.within = Some((frame, passed + more));
            return (at, None);
        }
        self.within = None;
        let [o0, o1, o2, o3, o4, o5, o6, o7] = self.opening;
        let code = match frame.kind {
            Kind::GoAway => u32::from_be_bytes([o4, o5, o6, o7]),
            _ => u32::from_be_bytes([o0, o1, o2, o3]),
        };
        (at, Some(Event::Ended(frame, Code(code))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    proptest! {
        #[test]
        fn frames_are_found_however_their_bytes_are_split(
            frames in prop::collection::vec((0_u8..12, any::<u8>(), 0_u32..9, 0_usize..40), 0..12),
            cuts in prop::collection::vec(1_usize..30, 1..40),
        ) {
            let mut bytes = vec![b'P'; 24];
            let mut expected = Vec::new();
            for (kind, flags, stream, length) in &frames {
                let payload: Vec<u8> = (0..*length as u8).collect();
                bytes.extend(frame(*kind, *flags, *stream, &payload));
                expected.push((*stream, *length, flags & 4 != 0 && matches!(kind, 1 | 9)));
            }
            let mut scan = Scan::behind(24);
            let (mut begun, mut ended) = (Vec::new(), Vec::new());
            let mut rest = bytes.as_slice();
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (mut now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                rest = later;
                loop {
                    let (passed, event) = scan.pass(now);
                    now = &now[passed..];
                    match event {
                        Some(Event::Begun(frame)) => begun.push(frame),
                        Some(Event::Ended(frame, _)) => {
                            ended.push((frame.stream, frame.payload_bytes, frame.ends_fields()));
                        }
                        None => break,
                    }
                }
                prop_assert!(now.is_empty());
            }
            prop_assert_eq!(begun.len(), frames.len());
            prop_assert_eq!(ended, expected);
        }
    }

    #[test]
    fn codes_are_read_from_resets_and_farewells() {
        let codes = |bytes: &[u8]| {
            let mut scan = Scan::behind(0);
            let (at, _) = scan.pass(bytes);
            let (_, event) = scan.pass(&bytes[at..]);
            match event {
                Some(Event::Ended(_, Code(code))) => code,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(codes(&frame(3, 0, 1, &[0, 0, 0, 8])), 8);
        assert_eq!(codes(&frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11, b'x'])), 11);
    }
}
