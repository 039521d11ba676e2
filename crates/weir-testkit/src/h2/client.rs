//! A client of HTTP/2 that keeps the rules and holds the server to them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::frame::{Frame, H2Frames, code, flag, kind, setting};
use super::hpack::{self, Decoder};
use crate::response::{Head, Response, Trouble};
use crate::socket::{Address, Socket};

/// Windows before any setting or update (RFC 9113 §6.9.2).
const WINDOW: i64 = 65_535;
/// Fields that HTTP/2 does not have (RFC 9113 §8.2.2).
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"];

/// Whether a message goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It does: END_STREAM is not set.
    Open,
    /// This was its last frame.
    Stream,
}

impl End {
    fn flag(self) -> u8 {
        if self == End::Stream { flag::END_STREAM } else { flag::NONE }
    }
}

/// A GOAWAY (RFC 9113 §6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// The last stream that the server has looked at or may look at.
    pub last: u32,
    /// Why.
    pub code: u32,
}

/// Who opens the windows of what is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Windows {
    /// The client does, at each DATA frame.
    Opened,
    /// The test does.
    Held,
}

/// One stream of the client's.
#[derive(Debug)]
struct Stream {
    response: Response,
    /// How much of the body the caller has taken piece by piece.
    taken: usize,
    received: u64,
    /// What the server may still send.
    receives: i64,
    /// What the client may still send.
    sends: i64,
    state: State,
    /// What the client has still to say.
    own: Own,
    to_head: bool,
    since: Instant,
}

/// The client's side of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// The request had no content: its head has ended it.
    Head,
    /// It has, or had, content.
    Content,
    /// The client has reset the stream.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Reset(u32),
}

/// A connection of a client.
pub struct H2Client {
    frames: H2Frames,
    scheme: &'static str,
    decoder: Decoder,
    streams: BTreeMap<u32, Stream>,
    next: u32,
    windows: Windows,
    sends: i64,
    receives: i64,
    /// The window that new streams of the server's begin with, and the longest frame that it may send.
    own: (i64, usize),
    /// The server's settings as far as they have come.
    settings: Option<BTreeMap<u16, u32>>,
    goaway: Option<GoAway>,
    /// A field block that is not whole: its stream, its first frame's flags, its bytes.
    block: Option<(u32, u8, Vec<u8>)>,
    pongs: usize,
}

impl H2Client {
    /// Connects over plain TCP, with prior knowledge (RFC 9113 §3.3).
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(to: impl Into<Address>) -> H2Client {
        let to = to.into();
        H2Client::over(to.connect().unwrap_or_else(|why| panic!("connect to {to:?}: {why}")))
    }

    /// Over an open stream; over TLS, the scheme of its requests is https.
    pub fn over(socket: Socket) -> H2Client {
        H2Client::with(socket, &[])
    }

    /// As [`H2Client::over`], with these settings.
    pub fn with(socket: Socket, settings: &[(u16, u32)]) -> H2Client {
        let scheme = if socket.session().is_some() { "https" } else { "http" };
        let said = |id: u16| settings.iter().find(|(said, _)| *said == id).map(|(_, value)| *value as usize);
        let mut frames = H2Frames::over(socket);
        frames.begin(settings);
        H2Client {
            frames,
            scheme,
            decoder: Decoder::new(said(setting::HEADER_TABLE_SIZE).unwrap_or(4096)),
            streams: BTreeMap::new(),
            next: 1,
            windows: Windows::Opened,
            sends: WINDOW,
            receives: WINDOW,
            own: (
                said(setting::INITIAL_WINDOW_SIZE).map_or(WINDOW, |bytes| bytes as i64),
                said(setting::MAX_FRAME_SIZE).unwrap_or(16_384),
            ),
            settings: None,
            goaway: None,
            block: None,
            pongs: 0,
        }
    }

    /// The frames below: what is sent there is the caller's own affair.
    pub fn frames(&mut self) -> &mut H2Frames {
        &mut self.frames
    }

    /// How long one read waits before it is [`Trouble::Silent`].
    pub fn patience(self, longest: Duration) -> H2Client {
        H2Client { frames: self.frames.patience(longest), ..self }
    }

    /// From now on no window is opened but by [`H2Client::open`].
    pub fn hold_windows(&mut self) {
        self.windows = Windows::Held;
    }

    /// Lets the server send more on a stream, or on the connection (0).
    pub fn open(&mut self, stream: u32, bytes: u32) {
        match self.streams.get_mut(&stream) {
            Some(stream) => stream.receives += i64::from(bytes),
            None => self.receives += i64::from(bytes),
        }
        self.frames.send_frame(&Frame::window_update(stream, bytes));
    }

    /// Sends a whole request without content, and returns its stream.
    pub fn ask(&mut self, method: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> u32 {
        self.send_head(method, host, target, headers, End::Stream)
    }

    /// Sends the head of a request whose content follows, and returns its stream.
    pub fn begin(&mut self, method: &str, host: &str, target: &str, headers: &[(&str, &str)]) -> u32 {
        self.send_head(method, host, target, headers, End::Open)
    }

    fn send_head(
        &mut self,
        method: &str,
        host: &str,
        target: &str,
        headers: &[(&str, &str)],
        end: End,
    ) -> u32 {
        let scheme = self.scheme;
        let first = [(":method", method), (":scheme", scheme), (":authority", host), (":path", target)];
        self.send_fields(&[&first[..], headers].concat(), end)
    }

    /// Sends these fields, pseudo-fields among them, as the head of a new stream, and returns it.
    pub fn send_fields<T: AsRef<[u8]>>(&mut self, fields: &[(T, T)], end: End) -> u32 {
        let id = self.next;
        self.next += 2;
        let sends = self.setting(setting::INITIAL_WINDOW_SIZE).map_or(WINDOW, i64::from);
        let stream = Stream {
            response: Response::default(),
            taken: 0,
            received: 0,
            receives: self.own.0,
            sends,
            state: State::Open,
            own: if end == End::Stream { Own::Head } else { Own::Content },
            to_head: fields
                .iter()
                .any(|(name, value)| name.as_ref() == b":method" && value.as_ref() == b"HEAD"),
            since: Instant::now(),
        };
        self.streams.insert(id, stream);
        let literal = |(name, value): &(T, T)| hpack::literal(name, value);
        self.send_block(id, end.flag(), &fields.iter().flat_map(literal).collect::<Vec<u8>>());
        id
    }

    /// Sends a field block, in CONTINUATION frames where it is long.
    fn send_block(&mut self, id: u32, flags: u8, block: &[u8]) {
        let longest = self.setting(setting::MAX_FRAME_SIZE).unwrap_or(16_384) as usize;
        let mut pieces: Vec<Frame> =
            block.chunks(longest).map(|piece| Frame::new(kind::CONTINUATION, 0, id, piece)).collect();
        if let Some(first) = pieces.first_mut() {
            (first.kind, first.flags) = (kind::HEADERS, flags);
        }
        if let Some(last) = pieces.last_mut() {
            last.flags |= flag::END_HEADERS;
        }
        self.frames.send_frames(&pieces);
    }

    /// Sends content, as fast as the server's windows let it.
    ///
    /// # Errors
    /// The stream was reset, or the connection has ended.
    pub fn data(&mut self, id: u32, mut bytes: &[u8], end: End) -> Result<(), Trouble> {
        loop {
            let stream = &self.streams[&id];
            if let State::Reset(code) = stream.state {
                return Err(Trouble::Reset(code, Box::new(stream.response.clone())));
            }
            let longest = i64::from(self.setting(setting::MAX_FRAME_SIZE).unwrap_or(16_384));
            let room = stream.sends.min(self.sends).min(longest).max(0) as usize;
            if room == 0 && !bytes.is_empty() {
                self.pump()?;
                continue;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            let flags = if rest.is_empty() { end.flag() } else { flag::NONE };
            if !self.frames.send_frame(&Frame::data(id, flags, now)) {
                // What the server has said before it left is worth more than that it did.
                while self.pump().is_ok() {}
                return Err(self.lost(id));
            }
            self.sends -= now.len() as i64;
            self.streams.entry(id).and_modify(|stream| stream.sends -= now.len() as i64);
            bytes = rest;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Ends a request with trailer fields.
    pub fn trailers(&mut self, id: u32, fields: &[(&str, &str)]) {
        self.send_block(id, flag::END_STREAM, &hpack::literals(fields.iter().copied()));
    }

    /// The next stream has this number: those before it were begun by frames of the caller's.
    pub fn skip_to(&mut self, id: u32) {
        self.next = id;
    }

    /// Resets a stream.
    pub fn reset(&mut self, id: u32, code: u32) {
        self.streams.entry(id).and_modify(|stream| {
            (stream.state, stream.own) = (State::Reset(code), Own::Left);
        });
        self.frames.send_frame(&Frame::reset(id, code));
    }

    /// Sends a GET and reads its response.
    ///
    /// # Panics
    /// No whole response comes.
    pub fn get(&mut self, host: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        let id = self.ask("GET", host, target, headers);
        self.recv(id).unwrap_or_else(|why| panic!("GET {target} of {host} over HTTP/2: {why}"))
    }

    /// The whole response of a stream. What comes on others meanwhile is kept for their turn.
    ///
    /// # Errors
    /// None came whole.
    pub fn recv(&mut self, id: u32) -> Result<Response, Trouble> {
        while self.streams[&id].state == State::Open {
            self.pump_for(id)?;
        }
        let stream = self.streams.remove(&id).expect("a stream of the client's");
        match stream.state {
            State::Reset(code) => Err(Trouble::Reset(code, Box::new(stream.response))),
            _ => Ok(stream.response),
        }
    }

    /// The final head of a stream's response. The stream goes on.
    ///
    /// # Errors
    /// None came.
    pub fn recv_head(&mut self, id: u32) -> Result<Head, Trouble> {
        loop {
            let stream = &self.streams[&id];
            match stream.state {
                _ if stream.response.head.status != 0 => return Ok(stream.response.head.clone()),
                State::Reset(code) => {
                    return Err(Trouble::Reset(code, Box::new(stream.response.clone())));
                }
                _ => self.pump_for(id)?,
            }
        }
    }

    /// The interim heads that have come on a stream.
    pub fn interim(&self, id: u32) -> Vec<Head> {
        self.streams[&id].response.interim.clone()
    }

    /// At least one byte of a stream's content that was not taken before; empty at its end.
    ///
    /// # Errors
    /// The stream was reset, or the connection has ended.
    pub fn recv_some(&mut self, id: u32) -> Result<Vec<u8>, Trouble> {
        loop {
            let stream = self.streams.get_mut(&id).expect("a stream of the client's");
            let piece = stream.response.body[stream.taken..].to_vec();
            stream.taken += piece.len();
            match stream.state {
                _ if !piece.is_empty() => return Ok(piece),
                State::Ended => return Ok(piece),
                State::Reset(code) => {
                    return Err(Trouble::Reset(code, Box::new(stream.response.clone())));
                }
                State::Open => self.pump_for(id)?,
            }
        }
    }

    /// How many bytes of content the server lets a stream send now.
    pub fn room(&self, id: u32) -> usize {
        self.streams[&id].sends.min(self.sends).max(0) as usize
    }

    /// How many bytes of content the server may send on a stream, or on the connection (0).
    pub fn window(&self, id: u32) -> i64 {
        self.streams.get(&id).map_or(self.receives, |stream| stream.receives)
    }

    /// The bytes of content that have come on a stream.
    pub fn received(&self, id: u32) -> u64 {
        self.streams[&id].received
    }

    /// Whether a stream has come to its end, or was reset.
    pub fn is_over(&self, id: u32) -> bool {
        self.streams[&id].state != State::Open
    }

    /// Whether the server has said that this stream, or the connection, broke the rules.
    pub fn is_blamed(&self, id: u32) -> bool {
        let of_stream = self.streams.get(&id).is_some_and(|s| s.state == State::Reset(code::PROTOCOL_ERROR));
        of_stream || self.goaway.is_some_and(|said| said.code != code::NO_ERROR)
    }

    /// Sends a PING and waits for its answer: what the server sent before is then here.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn ping(&mut self) -> Result<(), Trouble> {
        let seen = self.pongs;
        self.frames.send_frame(&Frame::ping(flag::NONE, *b"testkit!"));
        while self.pongs == seen {
            self.pump()?;
        }
        Ok(())
    }

    /// What the server has said of a setting so far.
    pub fn setting(&self, id: u16) -> Option<u32> {
        self.settings.as_ref().and_then(|settings| settings.get(&id).copied())
    }

    /// The server's last GOAWAY so far.
    pub fn goaway(&self) -> Option<GoAway> {
        self.goaway
    }

    /// Waits for a GOAWAY.
    ///
    /// # Errors
    /// None came.
    pub fn await_goaway(&mut self) -> Result<GoAway, Trouble> {
        loop {
            if let Some(said) = self.goaway {
                return Ok(said);
            }
            self.pump()?;
        }
    }

    /// Waits until the server has closed the connection. False if the patience is over first.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.pump() {
                Ok(()) => {}
                Err(Trouble::Silent(_)) => return false,
                Err(_) => return true,
            }
        }
    }

    fn lost(&self, id: u32) -> Trouble {
        let stream = &self.streams[&id];
        match stream.state {
            State::Reset(code) => Trouble::Reset(code, Box::new(stream.response.clone())),
            _ if stream.response.head.status == 0 => Trouble::Closed,
            _ => Trouble::Cut(Box::new(stream.response.clone())),
        }
    }

    /// As [`H2Client::pump`], for a call that waits for this stream.
    fn pump_for(&mut self, id: u32) -> Result<(), Trouble> {
        if self.goaway.is_some_and(|said| said.last < id) {
            return Err(Trouble::Closed);
        }
        self.pump().map_err(|why| match why {
            Trouble::Closed | Trouble::Cut(_) => self.lost(id),
            Trouble::Silent(_) => Trouble::Silent(Box::new(self.streams[&id].response.clone())),
            other => other,
        })
    }

    /// Reads one frame and does what it asks for.
    ///
    /// # Errors
    /// None came, or one that must not come.
    pub fn pump(&mut self) -> Result<(), Trouble> {
        let frame = self.frames.recv()?;
        let wrong = |what: &str| Err(Trouble::Malformed(format!("{what}: {frame:?}")));
        if self.settings.is_none() && (frame.kind != kind::SETTINGS || frame.has(flag::ACK)) {
            return wrong("a server begins with SETTINGS");
        }
        if self.block.is_some() != (frame.kind == kind::CONTINUATION) {
            return wrong("a field block in pieces");
        }
        if frame.payload.len() > self.own.1 {
            return wrong("a frame over the limit");
        }
        match frame.kind {
            kind::DATA => self.on_data(frame),
            kind::HEADERS | kind::CONTINUATION => self.on_block(frame),
            kind::RST_STREAM if frame.payload.len() == 4 => match self.streams.get_mut(&frame.stream) {
                Some(stream) => stream.on_reset(frame.number(0)),
                None => Ok(()),
            },
            kind::SETTINGS if frame.has(flag::ACK) => Ok(()),
            kind::SETTINGS if frame.stream == 0 => self.on_settings(&frame),
            kind::PING if frame.payload.len() == 8 && frame.has(flag::ACK) => {
                self.pongs += 1;
                Ok(())
            }
            kind::PING if frame.payload.len() == 8 => {
                self.frames.send_frame(&Frame { flags: flag::ACK, ..frame });
                Ok(())
            }
            kind::GOAWAY if frame.stream == 0 => {
                let (last, code) = (frame.number(0) & 0x7fff_ffff, frame.number(4));
                if self.goaway.is_some_and(|before| before.last < last) {
                    return wrong("a GOAWAY takes streams back");
                }
                self.goaway = Some(GoAway { last, code });
                Ok(())
            }
            kind::WINDOW_UPDATE if frame.number(0) > 0 => self.on_window(&frame),
            kind::PUSH_PROMISE..=kind::CONTINUATION | kind::RST_STREAM | kind::SETTINGS => {
                wrong("must not come")
            }
            _ => Ok(()),
        }
    }

    fn on_settings(&mut self, frame: &Frame) -> Result<(), Trouble> {
        let before = self.setting(setting::INITIAL_WINDOW_SIZE).map_or(WINDOW, i64::from);
        let settings = self.settings.get_or_insert_default();
        for pair in frame.payload.chunks(6) {
            let &[a, b, c, d, e, f] = pair else {
                return Err(Trouble::Malformed(format!("settings {:?}", frame.payload)));
            };
            settings.insert(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]));
        }
        let after = self.setting(setting::INITIAL_WINDOW_SIZE).map_or(WINDOW, i64::from);
        self.streams.values_mut().for_each(|stream| stream.sends += after - before);
        self.frames.send_frame(&Frame::settings_ack());
        Ok(())
    }

    fn on_window(&mut self, frame: &Frame) -> Result<(), Trouble> {
        let bytes = i64::from(frame.number(0));
        let window = match self.streams.get_mut(&frame.stream) {
            Some(stream) => &mut stream.sends,
            None if frame.stream == 0 => &mut self.sends,
            None => return Ok(()),
        };
        *window += bytes;
        if *window > 0x7fff_ffff {
            return Err(Trouble::Malformed(format!("a window of {window}")));
        }
        Ok(())
    }

    fn on_data(&mut self, frame: Frame) -> Result<(), Trouble> {
        let length = frame.payload.len() as i64;
        self.receives -= length;
        if self.receives < 0 {
            return Err(Trouble::Malformed("more than the connection's window".to_owned()));
        }
        if self.windows == Windows::Opened && length > 0 {
            self.open(0, length as u32);
        }
        // A stream that the client has reset, or whose response was taken, may still have frames under way.
        let Some(stream) = self.streams.get_mut(&frame.stream) else { return Ok(()) };
        if stream.own == Own::Left {
            return Ok(());
        }
        if stream.state != State::Open || stream.response.head.status == 0 {
            let what = "DATA before the head, after the end or after a reset";
            return Err(Trouble::Malformed(format!("{what}: {frame:?}")));
        }
        stream.receives -= length;
        if stream.receives < 0 {
            return Err(Trouble::Malformed("more than the stream's window".to_owned()));
        }
        let content = unpadded(&frame)?;
        stream.received += content.len() as u64;
        stream.response.chunks.push(content.len());
        stream.response.body.extend_from_slice(content);
        let ends = frame.has(flag::END_STREAM);
        if ends {
            return stream.end();
        }
        if self.windows == Windows::Opened && length > 0 {
            self.open(frame.stream, length as u32);
        }
        Ok(())
    }

    fn on_block(&mut self, mut frame: Frame) -> Result<(), Trouble> {
        let (id, flags, block) = match self.block.take() {
            Some((id, flags, mut block)) => {
                if id != frame.stream {
                    return Err(Trouble::Malformed(format!("another stream's CONTINUATION: {frame:?}")));
                }
                block.append(&mut frame.payload);
                (id, flags, block)
            }
            None => {
                let skipped = if frame.has(flag::PRIORITY) { 5 } else { 0 };
                let block = unpadded(&frame)?.get(skipped..).unwrap_or_default().to_vec();
                (frame.stream, frame.flags, block)
            }
        };
        if !frame.has(flag::END_HEADERS) {
            self.block = Some((id, flags, block));
            return Ok(());
        }
        let fields = self.decoder.read(&block).map_err(Trouble::Malformed)?;
        let fields = fields.into_iter().map(text).collect::<Result<Vec<_>, String>>();
        let fields = fields.map_err(Trouble::Malformed)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if stream.own == Own::Left {
            return Ok(());
        }
        stream.on_fields(fields, flags & flag::END_STREAM != 0)
    }
}

impl Stream {
    fn on_fields(&mut self, mut fields: Vec<(String, String)>, ends: bool) -> Result<(), Trouble> {
        let wrong = |what: &str, fields: &[_]| Err(Trouble::Malformed(format!("{what}: {fields:?}")));
        if self.state != State::Open {
            return wrong("HEADERS after the end or after a reset", &fields);
        }
        let is_trailers = self.response.head.status != 0;
        let status = match fields.first() {
            Some((name, _)) if name == ":status" && !is_trailers => fields.remove(0).1,
            _ if is_trailers => String::new(),
            _ => return wrong("no status", &fields),
        };
        if let Some((name, _)) =
            fields.iter().find(|(name, _)| name.starts_with(':') || OF_CONNECTIONS.contains(&name.as_str()))
        {
            return wrong(&format!("{name} must not come"), &fields);
        }
        if is_trailers {
            if !ends {
                return wrong("trailers that do not end the stream", &fields);
            }
            self.response.trailers = fields;
            return self.end();
        }
        let Ok(status @ 100..=599) = status.parse() else {
            return wrong(&format!("status {status:?}"), &fields);
        };
        let head = Head { version: "HTTP/2".to_owned(), status, headers: fields };
        if status < 200 {
            if ends || status == 101 {
                return wrong("an interim response", &head.headers);
            }
            self.response.interim.push(head);
            return Ok(());
        }
        self.response.head = head;
        self.response.first_byte = self.since.elapsed();
        if ends { self.end() } else { Ok(()) }
    }

    /// A stream is ended or reset. After its end a reset may only tell to send no more (RFC 9113 §8.1).
    fn on_reset(&mut self, code: u32) -> Result<(), Trouble> {
        match self.state {
            _ if self.own == Own::Left => {}
            State::Open => self.state = State::Reset(code),
            State::Ended if code == code::NO_ERROR && self.own == Own::Content => {}
            _ => return Err(Trouble::Malformed(format!("a reset with {code} after the end or a reset"))),
        }
        Ok(())
    }

    /// Its content must have had the length that was said (RFC 9113 §8.1.1).
    fn end(&mut self) -> Result<(), Trouble> {
        self.state = State::Ended;
        self.response.whole = self.since.elapsed();
        let said = self.response.header("content-length");
        let has_content = !self.to_head && self.response.head.status != 304;
        match said {
            Some(said) if has_content && said != self.received.to_string() => {
                Err(Trouble::Malformed(format!("{} bytes of {said}", self.received)))
            }
            _ => Ok(()),
        }
    }
}

/// A frame's payload without its padding (RFC 9113 §6.1).
fn unpadded(frame: &Frame) -> Result<&[u8], Trouble> {
    if !frame.has(flag::PADDED) {
        return Ok(&frame.payload);
    }
    let (&padding, rest) = frame.payload.split_first().ok_or(Trouble::Malformed("no padding".to_owned()))?;
    let content = rest.len().checked_sub(usize::from(padding)).and_then(|length| rest.get(..length));
    content.ok_or(Trouble::Malformed(format!("padding of {padding} in {} bytes", rest.len())))
}

/// A field as text, if HTTP/2 allows it (RFC 9113 §8.2.1).
fn text((name, value): (Vec<u8>, Vec<u8>)) -> Result<(String, String), String> {
    let (name, value) = (String::from_utf8_lossy(&name), String::from_utf8_lossy(&value));
    let letter = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase() || "!#$%&'*+-.^_`|~".contains(c);
    let is_name = name.strip_prefix(':').unwrap_or(&name).chars().all(letter) && !name.is_empty();
    if !is_name || value.contains(['\r', '\n', '\0']) || value.trim_matches([' ', '\t']) != value {
        return Err(format!("field {name:?}: {value:?}"));
    }
    Ok((name.into_owned(), value.into_owned()))
}
