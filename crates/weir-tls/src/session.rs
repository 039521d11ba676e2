//! One TLS server connection without I/O, on the unbuffered interface of rustls: records go in, plaintext and
//! records to be sent come out. Between two calls it holds no more than a record that is not whole yet, so
//! that an idle connection costs its keys alone (ADR 0037).

use bytes::{BufMut, BytesMut};
use rustls::server::{Acceptor, ClientHello, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, SignatureScheme};

use crate::Identity;

/// The most bytes of a `ClientHello` and what surrounds it. One with post-quantum keys has 2 KiB.
const HELLO_BYTES_MAX: usize = 32 << 10;
/// What a record adds to its plaintext, at most: header, explicit nonce or content type, and tag.
const RECORD_OVERHEAD: usize = 5 + 8 + 16 + 1;
/// The plaintext of a full record (RFC 8446 §5.1).
pub const RECORD_BYTES_MAX: usize = 16 << 10;
/// The ALPN protocol of a challenge (RFC 8737 §3).
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";
/// A fatal alert in plain text: `unrecognized_name` (RFC 6066 §3, RFC 8446 §6).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Why a handshake or a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The peer broke the protocol, or the two have nothing in common.
    #[error(transparent)]
    Protocol(#[from] rustls::Error),
    /// The first message is longer than any that a client sends.
    #[error("the ClientHello is longer than {HELLO_BYTES_MAX} bytes")]
    HelloTooLong,
    /// No certificate for the requested name.
    #[error("no certificate for the requested name")]
    UnrecognizedName,
    /// The keys are used up, or the connection has ended.
    #[error("the connection can send no more")]
    Exhausted,
}

impl TlsError {
    /// Whether the peer has shown a certificate that is refused.
    pub fn is_of_certificate(&self) -> bool {
        matches!(self, TlsError::Protocol(rustls::Error::InvalidCertificate(_)))
    }

    /// Whether the peer did not speak TLS at all.
    pub fn is_not_tls(&self) -> bool {
        matches!(self, TlsError::Protocol(rustls::Error::InvalidMessage(_)))
    }
}

/// What a client says before a certificate is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The requested name in lower case (SNI).
    pub name: Option<Box<str>>,
    /// Whether the client can verify an ECDSA certificate.
    pub takes_ecdsa: bool,
    /// Whether it is a CA that looks for the answer to its challenge (RFC 8737).
    pub is_challenge: bool,
}

impl Hello {
    fn of(hello: &ClientHello<'_>) -> Hello {
        let takes_scheme = hello.signature_schemes().iter().any(|scheme| {
            matches!(scheme, SignatureScheme::ECDSA_NISTP256_SHA256 | SignatureScheme::ECDSA_NISTP384_SHA384)
        });
        // TLS 1.3 suites do not name a kind of certificate; older ones do.
        let takes_suite = hello.cipher_suites().iter().any(|suite| {
            matches!(
                suite,
                CipherSuite::TLS13_AES_128_GCM_SHA256
                    | CipherSuite::TLS13_AES_256_GCM_SHA384
                    | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
                    | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                    | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
                    | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            )
        });
        Hello {
            name: hello.server_name().map(|name| name.to_ascii_lowercase().into()),
            takes_ecdsa: takes_scheme && takes_suite,
            is_challenge: hello.alpn().is_some_and(|mut names| names.any(|name| name == CHALLENGE_PROTOCOL)),
        }
    }
}

/// A connection whose `ClientHello` has not arrived whole.
#[derive(Default)]
pub struct Opening {
    acceptor: Acceptor,
    records: Vec<u8>,
}

impl Opening {
    /// Adds received bytes; returns what the client says once that is known.
    ///
    /// # Errors
    /// It is no `ClientHello`; `out` has the alert for the peer.
    pub fn add(&mut self, received: &[u8], out: &mut Vec<u8>) -> Result<Option<Hello>, TlsError> {
        self.records.extend_from_slice(received);
        if self.records.len() > HELLO_BYTES_MAX {
            return Err(TlsError::HelloTooLong);
        }
        let mut rest = received;
        while !rest.is_empty() {
            // Reading from memory does not fail.
            if !matches!(self.acceptor.read_tls(&mut rest), Ok(bytes) if bytes > 0) {
                return Err(TlsError::HelloTooLong);
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => return Ok(Some(Hello::of(&accepted.client_hello()))),
                Err((error, mut alert)) => {
                    // Writing to memory does not fail.
                    let _ = alert.write_all(out);
                    return Err(error.into());
                }
            }
        }
        Ok(None)
    }

    /// Begins the session with what the client has sent so far. `protocols`: what may be agreed on (ALPN),
    /// the preferred one first.
    ///
    /// # Errors
    /// The configuration of the identity cannot be used.
    pub fn begin(self, identity: &Identity, protocols: &[&[u8]]) -> Result<Handshake, TlsError> {
        let server = identity.server_for(protocols);
        let tls = UnbufferedServerConnection::new(server)?;
        let session = Session { tls, rest: Vec::new(), peer_closed: false };
        Ok(Handshake { session: Box::new(session), received: self.records })
    }

    /// The alert for a client whose name has no certificate.
    pub fn refuse(out: &mut Vec<u8>) -> TlsError {
        out.extend_from_slice(&UNRECOGNIZED_NAME);
        TlsError::UnrecognizedName
    }
}

/// A session in the middle of its handshake, with records that have not been read yet. Its next step may take
/// a millisecond of CPU.
pub struct Handshake {
    session: Box<Session>,
    received: Vec<u8>,
}

/// What a step of a handshake leads to.
pub enum Step {
    /// The client must send more.
    More(Handshake),
    /// The keys are agreed. The client may have sent application data, which lies in `plain`.
    Done(Box<Session>),
}

impl Handshake {
    /// Adds received bytes.
    pub fn add(&mut self, received: &[u8]) {
        self.received.extend_from_slice(received);
    }

    /// Reads what was received: agrees on keys, signs, verifies. Answers are appended to `out`, application
    /// data to `plain`.
    ///
    /// # Errors
    /// The handshake has failed; `out` has the alert for the peer.
    pub fn step(mut self, plain: &mut BytesMut, out: &mut Vec<u8>) -> Result<Step, TlsError> {
        self.session.read(&mut self.received, plain, out)?;
        if self.session.tls.is_handshaking() {
            self.received.clear();
            return Ok(Step::More(self));
        }
        Ok(Step::Done(self.session))
    }
}

impl Agreed {
    /// What another process has agreed on, by the words that it uses.
    pub fn of_words(version: &str, group: &str, is_resumed: bool) -> Agreed {
        let known = |words: &[&'static str], word: &str| words.iter().copied().find(|known| *known == word);
        Agreed {
            version: known(&["TLSv1.2"], version).unwrap_or("TLSv1.3"),
            suite: "-",
            group: known(&["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"], group).unwrap_or("-"),
            is_resumed,
            is_h2: false,
        }
    }
}

/// What was agreed in a handshake, in the words of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite.
    pub suite: &'static str,
    /// The group of the key exchange: `X25519MLKEM768`. `-` where a session was resumed without one.
    pub group: &'static str,
    /// Whether a session was resumed.
    pub is_resumed: bool,
    /// Whether HTTP/2 was chosen (ALPN).
    pub is_h2: bool,
}

/// An established connection.
pub struct Session {
    tls: UnbufferedServerConnection,
    /// The begin of a record that is not whole.
    rest: Vec<u8>,
    peer_closed: bool,
}

impl Session {
    /// Reads records: plaintext is appended to `plain`, what must be sent to `out`. `received` is used up;
    /// its content is overwritten.
    ///
    /// # Errors
    /// The connection has failed; `out` has the alert for the peer.
    pub fn read(
        &mut self,
        received: &mut [u8],
        plain: &mut BytesMut,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        if self.rest.is_empty() {
            let used = self.process(received, plain, out)?;
            if used < received.len() {
                self.rest.extend_from_slice(&received[used..]);
            }
            return Ok(());
        }
        let mut records = std::mem::take(&mut self.rest);
        records.extend_from_slice(received);
        let used = self.process(&mut records, plain, out)?;
        if used < records.len() {
            records.drain(..used);
            self.rest = records;
        }
        Ok(())
    }

    /// Reads whole records, and returns how many bytes they had.
    fn process(
        &mut self,
        records: &mut [u8],
        plain: &mut BytesMut,
        out: &mut Vec<u8>,
    ) -> Result<usize, TlsError> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(&mut records[used..]);
            let is_waiting = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain.put_slice(record.payload);
                    }
                    false
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(out, |room| data.encode(room));
                    false
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    false
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.peer_closed = true;
                    false
                }
                // Early data is refused: no configuration accepts any.
                Ok(_) => true,
                Err(error) => {
                    self.drain_alerts(&mut records[used + discard..], out);
                    return Err(error.into());
                }
            };
            used += discard;
            if is_waiting {
                return Ok(used);
            }
        }
    }

    /// Appends the alert that rustls has queued with an error, and what is queued before it. `records` are
    /// those behind what was read: rustls may still have places in them. It must not read on behind the
    /// alert.
    fn drain_alerts(&mut self, records: &mut [u8], out: &mut Vec<u8>) {
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut records[used..]);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
            let at = out.len();
            append(out, |room| data.encode(room));
            used += discard;
            if is_alert(&out[at..]) {
                return;
            }
        }
    }

    /// How many bytes [`Session::write`] needs for `plain_bytes` of plaintext, at most.
    pub fn room_for(plain_bytes: usize) -> usize {
        plain_bytes + plain_bytes.div_ceil(RECORD_BYTES_MAX).max(1) * RECORD_OVERHEAD
    }

    /// Encrypts `plain` into `room`, which has at least [`Session::room_for`] bytes; returns how many were
    /// written. What rustls has to send before it (key updates) goes to `before`.
    ///
    /// # Errors
    /// The connection can send no more.
    pub fn write(&mut self, plain: &[u8], room: &mut [u8], before: &mut Vec<u8>) -> Result<usize, TlsError> {
        loop {
            // rustls has places in what is not whole yet: it must see it with every call.
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut self.rest);
            match state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let written = traffic.encrypt(plain, room).map_err(|_| TlsError::Exhausted);
                    self.rest.drain(..discard);
                    return written;
                }
                ConnectionState::EncodeTlsData(mut data) => append(before, |room| data.encode(room)),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.peer_closed = true,
                _ => return Err(TlsError::Exhausted),
            }
            self.rest.drain(..discard);
        }
    }

    /// Appends the alert that says that nothing follows (`close_notify`).
    pub fn close(&mut self, out: &mut Vec<u8>) {
        let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut self.rest);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            append(out, |room| traffic.queue_close_notify(room));
        }
        self.rest.drain(..discard);
    }

    /// Whether the client waits for the last message of the handshake (TLS 1.2).
    pub fn client_waits(&self) -> bool {
        self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_2)
    }

    /// Whether the peer has said that nothing follows.
    pub fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// What was agreed.
    pub fn agreed(&self) -> Agreed {
        let suite = self.tls.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let is_resumed = self.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        let group = self.tls.negotiated_key_exchange_group().and_then(|group| group.name().as_str());
        Agreed {
            version: match self.tls.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            suite: suite.unwrap_or("-"),
            group: group.unwrap_or("-"),
            is_resumed,
            is_h2: self.tls.alpn_protocol() == Some(b"h2"),
        }
    }

    /// The peer's certificate in DER, if it has shown one that was verified.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.tls.peer_certificates()?.first().map(AsRef::as_ref)
    }
}

/// Whether a record is an alert: by its type, or, where TLS 1.3 hides that (RFC 8446 §5.2), by its length.
fn is_alert(record: &[u8]) -> bool {
    const HIDDEN_ALERT_BYTES: usize = 5 + 2 + 1 + 16;
    record.first() == Some(&21) || record.len() == HIDDEN_ALERT_BYTES
}

/// An error that says how much room was missing.
trait Missing {
    fn missing(&self) -> Option<usize>;
}

impl Missing for EncodeError {
    fn missing(&self) -> Option<usize> {
        match self {
            EncodeError::InsufficientSize(size) => Some(size.required_size),
            EncodeError::AlreadyEncoded => None,
        }
    }
}

impl Missing for EncryptError {
    fn missing(&self) -> Option<usize> {
        match self {
            EncryptError::InsufficientSize(size) => Some(size.required_size),
            EncryptError::EncryptExhausted => None,
        }
    }
}

/// Appends what `write` writes into exactly the room that it asks for.
fn append<E: Missing>(out: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, E>) {
    let at = out.len();
    let mut written = write(&mut []);
    if let Err(error) = &written
        && let Some(bytes) = error.missing()
    {
        out.resize(at + bytes, 0);
        written = write(&mut out[at..]);
    }
    out.truncate(at + written.unwrap_or(0));
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("agreed", &self.agreed()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
