//! Promises of TLS towards clients that hold for any bytes: no panic; a pair of files that is taken covers
//! its own names; what a client says before it gets a certificate does not depend on how its bytes are cut;
//! bytes of a handshake end in words.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use weir_tls::{Hello, Identity, Opening, Pem, Ring, Set, Source, Step, Template, self_signed};

/// The hosts of the certificate that handshakes are made with.
const HOSTS: [&str; 2] = ["a.example", "*.a.example"];

/// A time within the validity of the seeds' certificates.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

static TEMPLATE: LazyLock<Template> =
    LazyLock::new(|| Template::new(&Arc::new(Ring::new(now())), &[b"h2", b"http/1.1"]));

static SET: LazyLock<Set> = LazyLock::new(|| {
    let (chain, key) = self_signed(&HOSTS.map(str::to_owned), now()).expect("names of certificates");
    let identity = TEMPLATE.identity_from_der((vec![chain], &key), Source::SelfSigned, now());
    Set::new(vec![Arc::new(identity.expect("a pair").as_default())], Vec::new())
});

/// Reads any bytes as a file that has both chain and key, and as the authorities of clients.
pub fn pem_files(data: &[u8]) {
    let taken = TEMPLATE.identity(Pem { chain: data, key: data }, Source::Acme, now());
    match taken {
        Ok(identity) => covers_its_names(&identity),
        Err(error) => assert!(!error.to_string().is_empty(), "an error without words"),
    }
    // Whether they are authorities is another question.
    let _ = TEMPLATE.client_auth("site", weir_tls::ClientMode::Optional, data);
}

fn covers_its_names(identity: &Identity) {
    assert!(identity.not_before <= identity.not_after && identity.not_after > now(), "it is not valid");
    assert!(!identity.names.is_empty(), "it is for no name");
    for name in identity.names.dns() {
        let host = name.replace('*', "any");
        assert!(identity.covers(&host), "{name} does not cover {host}");
        let set = Set::new(vec![Arc::new(identity.clone())], Vec::new());
        assert!(set.choose(Some(&host), true).is_some(), "{host} is not chosen");
    }
}

/// Reads any bytes as the start of a client's connection, whole and in pieces.
pub fn client_hello(data: &[u8]) {
    let whole = said(data, data.len().max(1));
    for piece in [1, 7] {
        let cut = said(data, piece);
        match (&whole, &cut) {
            (Some(whole), Some(cut)) => {
                assert_eq!(whole.0, cut.0, "pieces of {piece} bytes say something else")
            }
            (None, None) => {}
            _ => panic!("pieces of {piece} bytes are judged otherwise"),
        }
    }
    let Some((hello, opening)) = whole else { return };
    let set = &*SET;
    let Some(identity) = set.choose(hello.name.as_deref(), hello.takes_ecdsa) else { return };
    let (mut plain, mut out) = (BytesMut::new(), Vec::new());
    let Ok(handshake) = opening.begin(identity, &[b"h2", b"http/1.1"]) else { return };
    let Ok(Step::More(mut handshake)) = handshake.step(&mut plain, &mut out) else { return };
    // The same again is no answer that a client could give.
    handshake.add(data);
    if let Ok(Step::Done(_)) = handshake.step(&mut plain, &mut out) {
        panic!("a handshake is complete without the client's keys");
    }
}

/// What the bytes say, if they are a whole `ClientHello`, and the connection they open.
fn said(data: &[u8], piece: usize) -> Option<(Hello, Opening)> {
    let mut opening = Opening::default();
    let mut out = Vec::new();
    let mut pieces = data.chunks(piece);
    let hello = pieces.find_map(|bytes| match opening.add(bytes, &mut out) {
        Ok(None) => None,
        Ok(Some(hello)) => Some(Some(hello)),
        Err(_) => Some(None),
    })??;
    Some((hello, opening))
}
