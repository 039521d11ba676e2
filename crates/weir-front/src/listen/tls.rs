//! A connection over TLS: a socket and a session. Between two calls it holds no plaintext that is not asked
//! for, and of the records to be sent only those that the kernel has not taken. Records are made and read in
//! buffers of the thread, so that an idle connection has none.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_tls::{RECORD_BYTES_MAX, Session, TlsError};

use super::Plain;

/// The most bytes of one read: a full record.
const READ_BYTES: usize = 17 << 10;
/// The most plaintext of one write.
const WRITE_BYTES: usize = 64 << 10;

/// Records up to this length that wait go out with the next ones: tickets with the first response.
const RIDE_ALONG_BYTES: usize = 4 << 10;

/// What a thread's connections share: nothing in it outlives a call.
struct Scratch {
    received: Box<[u8]>,
    records: Box<[u8]>,
    gathered: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        received: vec![0; READ_BYTES].into(),
        records: vec![0; Session::room_for(WRITE_BYTES + RECORD_BYTES_MAX)].into(),
        gathered: Vec::with_capacity(RECORD_BYTES_MAX),
    });
}

/// A connection over TLS whose handshake is over.
#[derive(Debug)]
pub struct Tls {
    socket: Plain,
    session: Session,
    /// Records that the kernel has not taken.
    unsent: BytesMut,
    /// Plaintext for readers that take less than a record.
    ahead: BytesMut,
}

impl Tls {
    /// Joins a socket and its session; `unsent` is what the handshake has still to send.
    pub fn new(socket: Plain, session: Session, unsent: &[u8]) -> Tls {
        Tls { socket, session, unsent: BytesMut::from(unsent), ahead: BytesMut::new() }
    }

    /// The socket beneath.
    pub fn socket(&self) -> &Plain {
        &self.socket
    }

    /// Whether the kernel has taken all records.
    pub fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// How many bytes wait for the kernel.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.len()
    }

    /// Gives the kernel what it takes of the records that wait.
    ///
    /// # Errors
    /// `WouldBlock` if some still wait.
    pub fn try_flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.socket.try_write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.unsent.advance(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An idle connection keeps no buffer.
        self.unsent = BytesMut::new();
        Ok(())
    }

    /// As [`Tls::try_flush`], where it is no matter that some records wait.
    fn flush_what_goes(&mut self) -> io::Result<()> {
        match self.try_flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    /// Reads what is there behind the content of `buffer`. `Ok(0)` is the end of the input.
    fn try_read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let bytes = self.ahead.len();
            buffer.extend_from_slice(&std::mem::take(&mut self.ahead));
            return Ok(bytes);
        }
        let before = buffer.len();
        while buffer.len() == before {
            if self.session.is_peer_closed() {
                return Ok(0);
            }
            let mut answers = Vec::new();
            let (received, read) = SCRATCH.with_borrow_mut(|scratch| {
                let bytes = self.socket.try_read(&mut scratch.received)?;
                let read = self.session.read(&mut scratch.received[..bytes], buffer, &mut answers);
                io::Result::Ok((bytes, read))
            })?;
            if !answers.is_empty() {
                self.unsent.extend_from_slice(&answers);
                self.flush_what_goes()?;
            }
            read.map_err(broken)?;
            if received == 0 {
                return Ok(0);
            }
        }
        Ok(buffer.len() - before)
    }

    /// Polls for plaintext, which it appends to `buffer`. `Ok(0)` is the end of the input.
    pub fn poll_read_buf(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        loop {
            if self.ahead.is_empty() {
                ready!(self.socket.poll_readable(cx))?;
            }
            match self.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Encrypts as many bytes of the slices as the kernel may take now, and sends the records. Records that
    /// the kernel does not take wait for [`Tls::try_flush`]; until then no further bytes are taken.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is taken.
    pub fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.unsent.len() > RIDE_ALONG_BYTES {
            self.try_flush()?;
        }
        let mut before = Vec::new();
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { records, gathered, .. } = scratch;
            let (mut taken, mut filled) = (0, 0);
            let mut seal = |plain: &[u8], filled: &mut usize| -> io::Result<()> {
                let bytes =
                    self.session.write(plain, &mut records[*filled..], &mut before).map_err(broken)?;
                *filled += bytes;
                Ok(())
            };
            gathered.clear();
            for slice in slices {
                let mut rest = &slice[..slice.len().min(WRITE_BYTES - taken)];
                taken += rest.len();
                if !gathered.is_empty() || rest.len() < RECORD_BYTES_MAX {
                    let (copied, behind) = rest.split_at(rest.len().min(RECORD_BYTES_MAX - gathered.len()));
                    gathered.extend_from_slice(copied);
                    rest = behind;
                    if gathered.len() == RECORD_BYTES_MAX {
                        seal(gathered, &mut filled)?;
                        gathered.clear();
                    }
                }
                let whole = rest.len() - rest.len() % RECORD_BYTES_MAX;
                if whole > 0 {
                    seal(&rest[..whole], &mut filled)?;
                }
                gathered.extend_from_slice(&rest[whole..]);
                if taken == WRITE_BYTES {
                    break;
                }
            }
            if !gathered.is_empty() {
                seal(gathered, &mut filled)?;
            }
            if !before.is_empty() || !self.unsent.is_empty() {
                self.unsent.extend_from_slice(&before);
                self.unsent.extend_from_slice(&records[..filled]);
                return Ok(taken);
            }
            let sent = match self.socket.try_write(&records[..filled]) {
                Ok(bytes) => bytes,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    0
                }
                Err(error) => return Err(error),
            };
            if sent < filled {
                self.unsent.extend_from_slice(&records[sent..filled]);
            }
            Ok(taken)
        })
    }
}

fn broken(error: TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl AsyncRead for Tls {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ahead.is_empty() {
            let mut ahead = BytesMut::new();
            ready!(this.poll_read_buf(cx, &mut ahead))?;
            this.ahead = ahead;
        }
        let bytes = this.ahead.len().min(buffer.remaining());
        buffer.put_slice(&this.ahead[..bytes]);
        this.ahead.advance(bytes);
        if this.ahead.is_empty() {
            this.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tls {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            match this.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(this.socket.poll_writable(cx))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            match this.try_flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(this.socket.poll_writable(cx))?;
                }
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut notice = Vec::new();
        this.session.close(&mut notice);
        this.unsent.extend_from_slice(&notice);
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
