//! Runs the fuzz bodies of this crate over their seeds and over a bounded number of mutations, on any
//! toolchain.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "../../../fuzz/src/tls.rs"]
mod tls;

use std::path::Path;

use weir_testkit::fuzz;

/// Words that mutations insert, beside bytes of other seeds.
const WORDS: &[&[u8]] = &[
    b"-----BEGIN CERTIFICATE-----\n",
    b"-----END CERTIFICATE-----\n",
    b"-----BEGIN PRIVATE KEY-----\n",
    b"-----END PRIVATE KEY-----\n",
    b"-----BEGIN EC PRIVATE KEY-----\n",
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
    b"Proc-Type: 4,ENCRYPTED\n",
    b"\n",
    b"=",
    b"MII",
    b"\0",
    b"\xff",
    b"\x16\x03\x01",
    b"\x16\x03\x03",
    b"\x14\x03\x03\x00\x01\x01",
    b"\x15\x03\x03\x00\x02\x02\x28",
    b"\x01\x00",
    b"\x00\x00",
    b"\x00\x0a",
    b"\x00\x0d",
    b"\x00\x10",
    b"\x00\x2b",
    b"\x00\x33",
    b"\x00\x29",
    b"a.example",
];

#[test]
fn pem_files_keep_their_promises() {
    fuzz("pem_files", WORDS, tls::pem_files);
}

#[test]
fn client_hellos_keep_their_promises() {
    fuzz("client_hello", WORDS, tls::client_hello);
}

/// Files as openssl writes them, in each form of a key.
#[test]
fn the_seeds_of_pem_files_are_what_their_names_say() {
    use std::sync::Arc;
    use weir_tls::{PairError, Pem, Ring, Source, Template};
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
    let template = Template::new(&Arc::new(Ring::new(now)), &[]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/pem_files");
    let of = |name: &str| {
        let text = std::fs::read(folder.join(name)).unwrap();
        template.identity(Pem { chain: &text, key: &text }, Source::Acme, now)
    };
    for name in ["ecdsa", "sec1-key-first", "rsa", "rsa-pkcs1", "ed25519"] {
        assert!(of(name).is_ok(), "{name}: {:?}", of(name));
    }
    for name in ["encrypted", "encrypted-sec1"] {
        assert_eq!(of(name).unwrap_err(), PairError::Encrypted, "{name}");
    }
    assert_eq!(of("ecdsa").unwrap().names.to_string(), "a.example, *.a.example, 192.0.2.1");
}
