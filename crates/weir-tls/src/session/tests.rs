//! Sessions without I/O, against the buffered client of rustls: all that a peer may send must end in words.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::BytesMut;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets};

use super::{Opening, Session, Step, TlsError};
use crate::Identity;
use crate::sample::{AUTHORITY, Authority, ecdsa, identity, template};

/// What the client has to send, and what it makes of what it gets.
fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

fn given(client: &mut ClientConnection, mut bytes: &[u8]) -> Result<(), rustls::Error> {
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

fn client(config: ClientConfig) -> ClientConnection {
    ClientConnection::new(config.into(), ServerName::try_from("a.example").unwrap()).unwrap()
}

fn config(version: &'static rustls::SupportedProtocolVersion, own: Option<&str>) -> ClientConfig {
    (*AUTHORITY.client(&[version], own)).clone()
}

/// A handshake, with records cut into pieces of `piece` bytes.
fn shake(client: &mut ClientConnection, identity: &Identity, piece: usize) -> Result<Box<Session>, TlsError> {
    let (mut out, mut plain) = (Vec::new(), BytesMut::new());
    let mut opening = Opening::default();
    let hello = sent(client);
    let mut known = None;
    for bytes in hello.chunks(piece) {
        if let Some(hello) = opening.add(bytes, &mut out)? {
            known = Some(hello);
        }
    }
    assert_eq!(known.unwrap().name.as_deref(), Some("a.example"));
    let mut step = opening.begin(identity, &[b"http/1.1"])?.step(&mut plain, &mut out)?;
    loop {
        // The client may refuse what it gets.
        let _ = given(client, &std::mem::take(&mut out));
        let answer = sent(client);
        for bytes in answer.chunks(piece) {
            match step {
                Step::More(mut handshake) => {
                    handshake.add(bytes);
                    step = handshake.step(&mut plain, &mut out)?;
                }
                Step::Done(ref mut session) => session.read(&mut bytes.to_vec(), &mut plain, &mut out)?,
            }
        }
        if let Step::Done(session) = step {
            given(client, &out).unwrap();
            assert!(!client.is_handshaking());
            return Ok(session);
        }
    }
}

fn write(session: &mut Session, plain: &[u8]) -> Vec<u8> {
    let (mut before, mut room) = (Vec::new(), vec![0; Session::room_for(plain.len())]);
    let bytes = session.write(plain, &mut room, &mut before).unwrap();
    before.extend_from_slice(&room[..bytes]);
    before
}

#[test]
fn records_may_come_in_any_pieces() {
    use std::io::{Read, Write};
    let identity = identity(&template(), &ecdsa(&["a.example"]), "a");
    for version in rustls::ALL_VERSIONS {
        for piece in [1, 7, 100, usize::MAX] {
            let mut client = client(config(version, None));
            let mut session = shake(&mut client, &identity, piece).unwrap();
            client.writer().write_all(b"question").unwrap();
            let (mut plain, mut out) = (BytesMut::new(), Vec::new());
            for bytes in sent(&mut client).chunks(piece) {
                session.read(&mut bytes.to_vec(), &mut plain, &mut out).unwrap();
            }
            assert_eq!(&plain[..], b"question");
            given(&mut client, &write(&mut session, b"answer")).unwrap();
            let mut answer = [0; 6];
            client.reader().read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"answer");
            session.close(&mut out);
            given(&mut client, &out).unwrap();
            assert_eq!(client.reader().read(&mut answer).unwrap(), 0, "an end, and no cut");
        }
    }
}

/// rustls has places in what it has read: each call must show it the same bytes.
#[test]
fn a_client_that_is_refused_is_told_in_words() {
    let template = template();
    let open = identity(&template, &ecdsa(&["a.example"]), "a");
    let other = Authority::new();
    let auth = template.client_auth("a", crate::ClientMode::Required, other.pem.as_bytes()).unwrap();
    let asking = open.with_clients(&auth);
    for version in rustls::ALL_VERSIONS {
        for own in [None, Some("stranger")] {
            for piece in [1, 50, usize::MAX] {
                let refused = shake(&mut client(config(version, own)), &asking, piece).unwrap_err();
                assert!(matches!(refused, TlsError::Protocol(_)), "{refused}");
            }
        }
    }
}

#[test]
fn half_a_message_and_then_nonsense_is_an_error() {
    let identity = identity(&template(), &ecdsa(&["a.example"]), "a");
    let mut client = client(config(&rustls::version::TLS12, None));
    let (mut out, mut plain) = (Vec::new(), BytesMut::new());
    let mut opening = Opening::default();
    opening.add(&sent(&mut client), &mut out).unwrap();
    let step = opening.begin(&identity, &[]).unwrap().step(&mut plain, &mut out).unwrap();
    let Step::More(mut handshake) = step else { panic!("too early") };
    handshake.add(&[22, 3, 3, 0, 2, 16, 0]);
    let Step::More(mut handshake) = handshake.step(&mut plain, &mut out).unwrap() else {
        panic!("too early")
    };
    handshake.add(&[99, 3, 3, 0, 1, 0]);
    out.clear();
    assert!(handshake.step(&mut plain, &mut out).is_err());
    assert_eq!(out[0], 21, "an alert");
}

/// A record of TLS 1.3 with a part of a handshake message, as no client of rustls would send it.
fn part_of_a_key_update(secrets: ConnectionTrafficSecrets, number: u64) -> Vec<u8> {
    let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else { panic!("another suite") };
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref()).unwrap());
    let mut nonce: [u8; 12] = iv.as_ref().try_into().unwrap();
    nonce.iter_mut().rev().zip(number.to_le_bytes()).for_each(|(byte, number)| *byte ^= number);
    // The first two bytes of a KeyUpdate, and the kind of what is inside.
    let mut sealed = vec![24, 0, 22];
    let header = [23, 3, 3, 0, sealed.len() as u8 + 16];
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(header), &mut sealed)
        .unwrap();
    [&header[..], &sealed].concat()
}

#[test]
fn an_answer_goes_out_in_the_middle_of_a_handshake_message() {
    let identity = identity(&template(), &ecdsa(&["a.example"]), "a");
    let known = config(&rustls::version::TLS13, None);
    let mut provider = rustls::crypto::CryptoProvider::clone(known.crypto_provider());
    provider.cipher_suites.retain(|suite| suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(AUTHORITY.roots())
        .with_no_client_auth();
    config.enable_secret_extraction = true;
    let mut client = client(config);
    let mut session = shake(&mut client, &identity, usize::MAX).unwrap();
    let (number, secrets) = client.dangerous_extract_secrets().unwrap().tx;
    let (mut plain, mut out) = (BytesMut::new(), Vec::new());
    session.read(&mut part_of_a_key_update(secrets, number), &mut plain, &mut out).unwrap();
    assert!(!write(&mut session, b"answer").is_empty());
    session.close(&mut out);
    assert!(!out.is_empty());
}

/// What happens to the bytes of a client on their way.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
}

impl Damage {
    fn any() -> impl Strategy<Value = Damage> {
        let at = any::<usize>;
        let records = vec![vec![22, 3, 3, 0, 2, 16, 0], vec![21, 3, 3, 0, 2, 1, 0], vec![20, 3, 3, 0, 1, 1]];
        let record = proptest::sample::select(records);
        prop_oneof![
            (at(), 1u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
            (at(), proptest::collection::vec(any::<u8>(), 1..40))
                .prop_map(|(at, with)| Damage::Insert(at, with)),
            record.prop_map(|with| Damage::Insert(0, with)),
            (at(), 1usize..80).prop_map(|(at, count)| Damage::Remove(at, count)),
            (at(), 1usize..80).prop_map(|(at, count)| Damage::Repeat(at, count)),
        ]
    }

    fn done_to(&self, bytes: &mut Vec<u8>) {
        let place = |at: &usize| at % (bytes.len() + 1);
        match self {
            Damage::Flip(at, bits) => {
                let at = place(at).min(bytes.len().saturating_sub(1));
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
            }
            Damage::Insert(at, with) => {
                let at = place(at);
                bytes.splice(at..at, with.iter().copied());
            }
            Damage::Remove(at, count) => {
                let at = place(at);
                bytes.drain(at..bytes.len().min(at + count));
            }
            Damage::Repeat(at, count) => {
                let at = place(at);
                let again = bytes[at..bytes.len().min(at + count)].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}

/// A connection whose bytes from the client are damaged from the flight `damaged_at` on; answers go out in
/// between, as a server's do.
fn damaged(
    client: &mut ClientConnection,
    identity: &Identity,
    (damage, damaged_at): (&Damage, usize),
    piece: usize,
) -> Result<(), TlsError> {
    use std::io::Write;
    let (mut out, mut plain) = (Vec::new(), BytesMut::new());
    let mut opening = Opening::default();
    let mut step = None;
    for flight in 0..4 {
        if !client.is_handshaking() {
            client.writer().write_all(&[7; 300]).unwrap();
            if flight == 3 {
                client.send_close_notify();
            }
        }
        let mut bytes = sent(client);
        if flight == damaged_at {
            damage.done_to(&mut bytes);
        }
        for bytes in bytes.chunks(piece) {
            step = match step {
                None => match opening.add(bytes, &mut out)? {
                    Some(_) => {
                        let begun = std::mem::take(&mut opening).begin(identity, &[])?;
                        Some(begun.step(&mut plain, &mut out)?)
                    }
                    None => None,
                },
                Some(Step::More(mut handshake)) => {
                    handshake.add(bytes);
                    Some(handshake.step(&mut plain, &mut out)?)
                }
                Some(Step::Done(mut session)) => {
                    session.read(&mut bytes.to_vec(), &mut plain, &mut out)?;
                    if !session.is_peer_closed() {
                        out.extend_from_slice(&write(&mut session, b"answer"));
                    }
                    Some(Step::Done(session))
                }
            };
        }
        // The client may refuse what it gets.
        let _ = given(client, &std::mem::take(&mut out));
    }
    if let Some(Step::Done(mut session)) = step {
        session.close(&mut out);
    }
    Ok(())
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(512))]

    /// No peer makes a worker panic: rustls asserts what it expects of its caller.
    #[test]
    fn damaged_bytes_end_in_words(
        damage in Damage::any(),
        damaged_at in 0usize..4,
        piece in prop_oneof![1usize..40, 40usize..4000],
        (is_old, own) in (any::<bool>(), any::<bool>()),
    ) {
        let version = if is_old { &rustls::version::TLS12 } else { &rustls::version::TLS13 };
        let mut client = client(config(version, own.then_some("client")));
        let identity = if own { &ASKING.1 } else { &ASKING.0 };
        // Whether it ends well depends on the damage.
        let _ = damaged(&mut client, identity, (&damage, damaged_at), piece);
    }
}

/// An identity that asks clients for nothing, and one that asks for certificates.
static ASKING: std::sync::LazyLock<(Identity, Identity)> = std::sync::LazyLock::new(|| {
    let template = template();
    let open = identity(&template, &ecdsa(&["a.example"]), "a");
    let auth = template.client_auth("a", crate::ClientMode::Required, AUTHORITY.pem.as_bytes()).unwrap();
    let asking = open.with_clients(&auth);
    ((*open).clone(), asking)
});
