//! Where the frames end that an origin sends over a WebSocket (RFC 6455 §5.2), by their heads alone. It must
//! not look at what they carry.
//!
//! States: *within* a frame's head or what follows it, *between* two frames; *unknown* for ever, where a byte
//! was seen that a server does not send.

use super::Carries;

/// The longest head of a frame without a mask.
const HEAD_BYTES_MAX: usize = 10;
/// The first byte: whether it is the last frame of its message, and what extensions may mean. Of these one
/// is in use, for compression (RFC 7692).
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x30;
/// The second byte.
const MASKED: u8 = 0x80;
const SHORT_MAX: u8 = 125;
/// Opcodes.
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PONG: u8 = 10;

/// What is known of the frames that have passed.
#[derive(Debug)]
pub(super) struct Frames(State);

#[derive(Debug)]
enum State {
    Unknown,
    Known { place: Within, message: Message, has_closed: bool },
}

/// How far a frame has passed.
#[derive(Clone, Copy, Debug)]
enum Within {
    /// So many bytes of its head; none between two frames.
    Head([u8; HEAD_BYTES_MAX], usize),
    /// All but so many bytes, at least one.
    Rest(u64),
}

/// Whether a message has begun that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    None,
    Begun,
}

impl Frames {
    pub(super) fn of(carries: Carries) -> Frames {
        Frames(match carries {
            Carries::Other => State::Unknown,
            Carries::WebSocket => State::Known {
                place: Within::Head([0; HEAD_BYTES_MAX], 0),
                message: Message::None,
                has_closed: false,
            },
        })
    }

    /// Whether it is plain so far that frames pass.
    pub(super) fn are_known(&self) -> bool {
        matches!(self.0, State::Known { .. })
    }

    /// Whether the next byte begins a frame.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.0, State::Known { place: Within::Head(_, 0), .. })
    }

    /// Whether a frame has passed after which none may follow.
    pub(super) fn have_closed(&self) -> bool {
        matches!(self.0, State::Known { has_closed: true, .. })
    }

    /// Notes bytes that pass.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.are_known() {
            let step = self.step(bytes);
            bytes = &bytes[step..];
        }
    }

    /// How many of these bytes are left of the frame under way; none where it does not end within them.
    pub(super) fn left_of(&self, bytes: &[u8]) -> Option<usize> {
        let State::Known { place, message, has_closed } = self.0 else { return None };
        let mut ahead = Frames(State::Known { place, message, has_closed });
        let mut passed = 0;
        while !ahead.is_between() {
            if passed == bytes.len() || !ahead.are_known() {
                return None;
            }
            passed += ahead.step(&bytes[passed..]);
        }
        Some(passed)
    }

    /// Takes a byte of a head, or what is there of a frame's rest. Returns how much: at least a byte.
    fn step(&mut self, bytes: &[u8]) -> usize {
        let State::Known { place, message, has_closed } = &mut self.0 else { return bytes.len() };
        match place {
            Within::Rest(left) => {
                let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                if *left == 0 {
                    *place = Within::Head([0; HEAD_BYTES_MAX], 0);
                }
                taken
            }
            Within::Head(head, length) => {
                head[*length] = bytes[0];
                *length += 1;
                match read(&head[..*length], *message) {
                    Read::More => {}
                    Read::Frame { rest, message: then, closes } => {
                        *message = then;
                        *has_closed |= closes;
                        *place = match rest {
                            0 => Within::Head([0; HEAD_BYTES_MAX], 0),
                            rest => Within::Rest(rest),
                        };
                    }
                    Read::None => self.0 = State::Unknown,
                }
                1
            }
        }
    }
}

/// What the bytes of a head say.
enum Read {
    /// It is longer.
    More,
    /// It is whole: so many bytes follow.
    Frame { rest: u64, message: Message, closes: bool },
    /// It is none that a server sends.
    None,
}

fn read(head: &[u8], message: Message) -> Read {
    let first = head[0];
    let (is_last, opcode) = (first & FIN != 0, first & 0x0f);
    let is_control = (CLOSE..=PONG).contains(&opcode);
    let is_fit = match opcode {
        CONTINUATION => message == Message::Begun,
        TEXT | BINARY => message == Message::None,
        _ => is_control && is_last,
    };
    if !is_fit || first & RESERVED != 0 {
        return Read::None;
    }
    let Some(&second) = head.get(1) else { return Read::More };
    if second & MASKED != 0 || (is_control && second > SHORT_MAX) {
        return Read::None;
    }
    let lengths = match second {
        ..=SHORT_MAX => 0,
        126 => 2,
        _ => 8,
    };
    let Some(length) = head.get(2..2 + lengths) else { return Read::More };
    let rest = match lengths {
        0 => u64::from(second),
        _ => length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    };
    if rest > i64::MAX as u64 {
        return Read::None;
    }
    let message = match (is_control, is_last) {
        (true, _) => message,
        (false, true) => Message::None,
        (false, false) => Message::Begun,
    };
    Read::Frame { rest, message, closes: opcode == CLOSE }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of a server.
    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![first];
        match length {
            0..=125 => bytes.push(length as u8),
            126..=0xffff => {
                bytes.push(126);
                bytes.extend((length as u16).to_be_bytes());
            }
            _ => {
                bytes.push(127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        // It looks like heads.
        bytes.extend(std::iter::repeat_n(0x88, length));
        bytes
    }

    fn passed(bytes: &[u8]) -> Frames {
        let mut frames = Frames::of(Carries::WebSocket);
        frames.pass(bytes);
        frames
    }

    #[test]
    fn what_a_server_does_not_send_is_not_taken_for_frames() {
        let begun = [0x01, 0, 0x89, 0];
        for bytes in [
            &b"round 0 of HTTP/1"[..],
            &[0x81, 0x80],                // masked
            &[0x83],                      // no such opcode
            &[0x8b, 0],                   // nor this
            &[0xa1, 0],                   // a reserved bit
            &[0x80, 0],                   // it continues nothing
            &[0x08, 0],                   // a control frame in pieces
            &[0x88, 126, 0, 126],         // one that is too long
            &[0x01, 0, 0x89, 0, 0x81, 0], // a message within another
            &[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let mut frames = passed(bytes);
            assert!(!frames.are_known() && !frames.is_between(), "{bytes:?}");
            frames.pass(&frame(0x81, 3));
            assert!(!frames.is_between() && frames.left_of(&frame(0x81, 3)).is_none(), "{bytes:?}");
        }
        assert!(!Frames::of(Carries::Other).are_known());
        assert!(passed(&begun).is_between());
        assert!(!passed(&begun).have_closed() && passed(&frame(0x88, 2)).have_closed());
        // Compressed.
        assert!(passed(&frame(0xc1, 9)).is_between());
    }

    proptest! {
        #[test]
        fn the_ends_of_frames_are_found_however_they_are_cut(
            lengths in proptest::collection::vec(prop_oneof![0_usize..200, 65_500_usize..65_600], 1..6),
            cuts in proptest::collection::vec(1_usize..400, 1..40),
        ) {
            let frames: Vec<Vec<u8>> = lengths.iter().map(|length| frame(0x82, *length)).collect();
            let mut ends = vec![0];
            frames.iter().for_each(|frame| ends.push(ends[ends.len() - 1] + frame.len()));
            let all = frames.concat();
            let (mut seen, mut at) = (Frames::of(Carries::WebSocket), 0);
            let mut cuts = cuts.iter().cycle();
            while at < all.len() {
                prop_assert_eq!(seen.is_between(), ends.contains(&at));
                let next = ends.iter().find(|end| **end >= at).unwrap() - at;
                prop_assert_eq!(seen.left_of(&all[at..]), Some(next));
                prop_assert_eq!(seen.left_of(&all[at..at + next / 2]).is_some(), next / 2 == next);
                let to = (at + cuts.next().unwrap() * 37).min(all.len());
                seen.pass(&all[at..to]);
                at = to;
            }
            prop_assert!(seen.is_between());
        }
    }
}
