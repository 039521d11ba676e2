//! A second HTTP/1.1, small and strict, for both ends of the simulation.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A head: its first line and its fields in lower case.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub line: String,
    pub fields: Vec<(String, String)>,
}

impl Head {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// A connection with its read-ahead.
pub struct Wire {
    pub stream: UnixStream,
    ahead: Vec<u8>,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
    Close,
}

impl Wire {
    pub fn new(stream: UnixStream) -> Wire {
        Wire { stream, ahead: Vec::new() }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    async fn more(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 32 << 10];
        let count = self.stream.read(&mut bytes).await?;
        self.ahead.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// The next head. `None` where the other side has closed between two messages.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(at) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                let bytes: Vec<u8> = self.ahead.drain(..at + 4).collect();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let mut lines = text.trim_end().split("\r\n");
                let line = lines.next().unwrap_or_default().to_owned();
                let field = |line: &str| {
                    let (name, value) = line.split_once(':').unwrap_or((line, ""));
                    (name.to_ascii_lowercase(), value.trim().to_owned())
                };
                return Ok(Some(Head { line, fields: lines.map(field).collect() }));
            }
            if self.more().await? == 0 {
                return if self.ahead.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    /// Up to `max` bytes; at the end of input an error.
    async fn some(&mut self, max: usize) -> io::Result<Vec<u8>> {
        if self.ahead.is_empty() && self.more().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = max.min(self.ahead.len());
        Ok(self.ahead.drain(..count).collect())
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.ahead.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.ahead.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if self.more().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Reads one body piece by piece.
pub struct BodyReader {
    framing: Framing,
    /// Bytes left of the body, or of the chunk.
    left: usize,
    is_done: bool,
    has_chunk: bool,
}

impl BodyReader {
    pub fn new(framing: Framing) -> BodyReader {
        let left = if let Framing::Length(length) = framing { length } else { 0 };
        BodyReader { framing, left, is_done: framing == Framing::Length(0), has_chunk: false }
    }

    /// The next piece, at most `max` bytes; `None` at the clean end. An error where the body is cut.
    pub async fn next(&mut self, wire: &mut Wire, max: usize) -> io::Result<Option<Vec<u8>>> {
        if self.is_done {
            return Ok(None);
        }
        match self.framing {
            Framing::Length(_) => {
                let piece = wire.some(max.min(self.left)).await?;
                self.left -= piece.len();
                self.is_done = self.left == 0;
                Ok(Some(piece))
            }
            Framing::Close => match wire.some(max).await {
                Ok(piece) => Ok(Some(piece)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_done = true;
                    Ok(None)
                }
                Err(error) => Err(error),
            },
            Framing::Chunked => self.next_of_chunk(wire, max).await,
        }
    }

    async fn next_of_chunk(&mut self, wire: &mut Wire, max: usize) -> io::Result<Option<Vec<u8>>> {
        if self.left == 0 {
            if self.has_chunk && !wire.line().await?.is_empty() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.has_chunk = true;
            let line = wire.line().await?;
            self.left = usize::from_str_radix(&line, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            if self.left == 0 {
                while !wire.line().await?.is_empty() {}
                self.is_done = true;
                return Ok(None);
            }
        }
        let piece = wire.some(max.min(self.left)).await?;
        self.left -= piece.len();
        Ok(Some(piece))
    }
}
