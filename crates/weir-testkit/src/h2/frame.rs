//! Frames as values, and a connection that carries them without a thought (RFC 9113 §4, §6).

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::response::{Response, Trouble};
use crate::socket::{Address, Socket};

/// What a client's connection begins with (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes before a frame's payload.
const HEAD_BYTES: usize = 9;

/// The types of frames (RFC 9113 §6).
#[allow(missing_docs)]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flags of frames; which of them a type knows is the RFC's.
#[allow(missing_docs)]
pub mod flag {
    pub const NONE: u8 = 0;
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// The identifiers of settings (RFC 9113 §6.5.2, RFC 8441 §3).
#[allow(missing_docs)]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
}

/// The error codes (RFC 9113 §7).
#[allow(missing_docs)]
pub mod code {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const SETTINGS_TIMEOUT: u32 = 4;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const CONNECT_ERROR: u32 = 10;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
    pub const INADEQUATE_SECURITY: u32 = 12;
    pub const HTTP_1_1_REQUIRED: u32 = 13;
}

/// A frame, right or wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type, one of [`kind`] or unknown.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection. The reserved bit goes out as it is here, and is cleared when read.
    pub stream: u32,
    /// What follows its head.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Any frame.
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Frame {
        Frame { kind, flags, stream, payload: payload.into() }
    }

    /// A whole field block in one frame: END_HEADERS, and more flags.
    pub fn headers(stream: u32, flags: u8, block: impl Into<Vec<u8>>) -> Frame {
        Frame::new(kind::HEADERS, flag::END_HEADERS | flags, stream, block)
    }

    /// A piece of content, with these flags.
    pub fn data(stream: u32, flags: u8, bytes: impl Into<Vec<u8>>) -> Frame {
        Frame::new(kind::DATA, flags, stream, bytes)
    }

    /// RST_STREAM.
    pub fn reset(stream: u32, code: u32) -> Frame {
        Frame::new(kind::RST_STREAM, flag::NONE, stream, code.to_be_bytes())
    }

    /// SETTINGS with these identifiers and values.
    pub fn settings(settings: &[(u16, u32)]) -> Frame {
        let pairs = settings.iter().flat_map(|(id, value)| {
            id.to_be_bytes().into_iter().chain(value.to_be_bytes()).collect::<Vec<u8>>()
        });
        Frame::new(kind::SETTINGS, flag::NONE, 0, pairs.collect::<Vec<u8>>())
    }

    /// The acknowledgement of the peer's settings.
    pub fn settings_ack() -> Frame {
        Frame::new(kind::SETTINGS, flag::ACK, 0, [])
    }

    /// PING, with these flags.
    pub fn ping(flags: u8, opaque: [u8; 8]) -> Frame {
        Frame::new(kind::PING, flags, 0, opaque)
    }

    /// WINDOW_UPDATE of a stream, or of the connection (0).
    pub fn window_update(stream: u32, bytes: u32) -> Frame {
        Frame::new(kind::WINDOW_UPDATE, flag::NONE, stream, bytes.to_be_bytes())
    }

    /// PRIORITY on another stream with a weight of 16.
    pub fn priority(stream: u32, on: u32) -> Frame {
        let mut payload = on.to_be_bytes().to_vec();
        payload.push(15);
        Frame::new(kind::PRIORITY, flag::NONE, stream, payload)
    }

    /// GOAWAY.
    pub fn goaway(last: u32, code: u32) -> Frame {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        Frame::new(kind::GOAWAY, flag::NONE, 0, payload)
    }

    /// Its bytes, with the payload's true length.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_saying(self.payload.len() as u32)
    }

    /// Its bytes with another length in the head.
    pub fn bytes_saying(&self, length: u32) -> Vec<u8> {
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// Whether it has all bits of `flags`.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The 32-bit number at byte `at` of the payload; 0 where there is none.
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self.payload.get(at..at + 4).and_then(|four| four.try_into().ok());
        u32::from_be_bytes(bytes.unwrap_or_default())
    }
}

/// A connection of HTTP/2 that sends frames as told and shows those that come. It answers nothing by itself:
/// no SETTINGS, no PING, no window.
pub struct H2Frames {
    socket: Socket,
    buf: Vec<u8>,
}

impl H2Frames {
    /// Connects over plain TCP, and sends nothing.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(to: impl Into<Address>) -> H2Frames {
        let to = to.into();
        H2Frames::over(to.connect().unwrap_or_else(|why| panic!("connect to {to:?}: {why}")))
    }

    /// Over an open stream, such as one of [`crate::TlsClient`].
    pub fn over(socket: Socket) -> H2Frames {
        H2Frames { socket, buf: Vec::new() }
    }

    /// The stream, to set its options.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// How long one read waits before it is [`Trouble::Silent`].
    pub fn patience(self, longest: Duration) -> H2Frames {
        self.socket.patience(longest).unwrap();
        self
    }

    /// Sends the preface and these settings.
    pub fn begin(&mut self, settings: &[(u16, u32)]) -> bool {
        self.send([PREFACE, &Frame::settings(settings).bytes()].concat())
    }

    /// Sends bytes as they are. False if the peer no longer takes them.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).and_then(|()| self.socket.flush()).is_ok()
    }

    /// Sends one frame. False if the peer no longer takes it.
    pub fn send_frame(&mut self, frame: &Frame) -> bool {
        self.send(frame.bytes())
    }

    /// Sends frames in one write. False if the peer no longer takes them.
    pub fn send_frames(&mut self, frames: &[Frame]) -> bool {
        self.send(frames.iter().flat_map(Frame::bytes).collect::<Vec<u8>>())
    }

    /// The next frame.
    ///
    /// # Errors
    /// The connection has ended ([`Trouble::Closed`], or [`Trouble::Cut`] within a frame), or the patience is
    /// over.
    pub fn recv(&mut self) -> Result<Frame, Trouble> {
        loop {
            if let Some(frame) = self.whole() {
                return Ok(frame);
            }
            let mut piece = [0; 16 * 1024];
            match self.socket.read(&mut piece) {
                Ok(n) if n > 0 => self.buf.extend_from_slice(&piece[..n]),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(Trouble::Silent(Box::default()));
                }
                _ if self.buf.is_empty() => return Err(Trouble::Closed),
                _ => return Err(Trouble::Cut(Box::<Response>::default())),
            }
        }
    }

    /// Reads on to the first frame for which `wanted` holds; `None` where none comes before the connection
    /// ends or the patience is over.
    pub fn find(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        std::iter::from_fn(|| self.recv().ok()).find(wanted)
    }

    /// Reads on to a GOAWAY, and says its code; `None` where none comes.
    pub fn goaway(&mut self) -> Option<u32> {
        self.find(|frame| frame.kind == kind::GOAWAY).map(|frame| frame.number(4))
    }

    /// Reads on to a reset of this stream, and says its code; `None` where none comes.
    pub fn reset_of(&mut self, stream: u32) -> Option<u32> {
        self.find(|frame| frame.kind == kind::RST_STREAM && frame.stream == stream)
            .map(|frame| frame.number(0))
    }

    fn whole(&mut self) -> Option<Frame> {
        let head = self.buf.get(..HEAD_BYTES)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        if self.buf.len() < HEAD_BYTES + length {
            return None;
        }
        let payload = self.buf[HEAD_BYTES..HEAD_BYTES + length].to_vec();
        self.buf.drain(..HEAD_BYTES + length);
        Some(Frame { kind, flags, stream, payload })
    }
}
