//! Which pairs are usable, and what handshakes with them are like.

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, NamedGroup};

use super::{PairError, Part};
use crate::sample::{AUTHORITY, Authority, DAY, Pair, ecdsa, identity, now, shake, template};
use crate::{ClientMode, KeyKind, Source, self_signed};

fn error(pair: &Pair) -> PairError {
    template().identity(pair.pem(), Source::Acme, now()).unwrap_err()
}

#[test]
fn pairs_that_cannot_be_used_say_why() {
    let good = ecdsa(&["a.example"]);
    let other = ecdsa(&["a.example"]);
    let with = |chain: &str, key: &str| Pair { chain: chain.to_owned(), key: key.to_owned() };
    assert_eq!(error(&with(&good.chain, &other.key)), PairError::Unfit);
    assert_eq!(error(&with("", &good.key)), PairError::NoCertificate);
    assert_eq!(error(&with(&good.key, &good.key)), PairError::NoCertificate);
    assert_eq!(error(&with(&good.chain, "")), PairError::NoKey);
    assert_eq!(error(&with(&good.chain, &good.chain)), PairError::NoKey);
    let encrypted = good.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert_eq!(error(&with(&good.chain, &encrypted)), PairError::Encrypted);
    let cut = &good.chain[..good.chain.len() / 2];
    assert!(matches!(error(&with(cut, &good.key)), PairError::NotPem { part: Part::Chain, .. }));
    let cut = &good.key[..good.key.len() / 2];
    assert!(matches!(error(&with(&good.chain, cut)), PairError::NotPem { part: Part::Key, .. }));
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(error(&with(nonsense, &good.key)), PairError::Certificate(_)));
    let nonsense = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(matches!(error(&with(&good.chain, nonsense)), PairError::Key(_)));
}

#[test]
fn a_certificate_must_be_of_this_time_and_for_a_name() {
    let issue = |names: &[&str], days| AUTHORITY.issue(names, &PKCS_ECDSA_P256_SHA256, days);
    assert!(matches!(error(&issue(&["a.example"], (-90, -1))), PairError::Expired(_)));
    assert!(matches!(error(&issue(&["a.example"], (1, 90))), PairError::NotYet(_)));
    assert_eq!(error(&issue(&[], (-1, 90))), PairError::NoNames);
    assert!(error(&issue(&["a.example"], (-90, -1))).to_string().contains("has expired on"));
}

#[test]
fn both_may_be_in_one_file_and_in_any_order() {
    let pair = ecdsa(&["a.example"]);
    for text in
        [format!("{}{}", pair.chain, pair.key), format!("{}{}{}", pair.key, pair.chain, AUTHORITY.pem)]
    {
        let both = Pair { chain: text.clone(), key: text };
        let identity = template().identity(both.pem(), Source::Acme, now()).unwrap();
        assert!(identity.covers("a.example") && !identity.covers("b.example"));
        assert_eq!(identity.key_kind, KeyKind::Ecdsa);
    }
}

#[test]
fn keys_of_three_kinds_shake_hands() {
    for (kind, expected) in [
        (&PKCS_ECDSA_P256_SHA256, KeyKind::Ecdsa),
        (&PKCS_RSA_SHA256, KeyKind::Rsa),
        (&PKCS_ED25519, KeyKind::Ed25519),
    ] {
        let template = template();
        let identity = identity(&template, &AUTHORITY.issue(&["a.example"], kind, (-1, 90)), "a");
        assert_eq!(identity.key_kind, expected);
        for version in [&TLS12, &TLS13] {
            shake(&AUTHORITY.client(&[version], None), &identity, "a.example").unwrap();
        }
    }
}

#[test]
fn the_group_is_post_quantum_where_the_client_can() {
    let identity = identity(&template(), &ecdsa(&["a.example"]), "a");
    let agreed = shake(&AUTHORITY.client(&[&TLS13], None), &identity, "a.example").unwrap();
    assert_eq!(agreed.protocol, None);
    assert_eq!(agreed.group, Some(NamedGroup::X25519MLKEM768));
}

#[test]
fn protocols_are_chosen_in_the_listeners_order() {
    let identity = identity(&template(), &ecdsa(&["a.example"]), "a");
    let mut client = (*AUTHORITY.client(&[&TLS13], None)).clone();
    client.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let client = std::sync::Arc::new(client);
    assert_eq!(shake(&client, &identity, "a.example").unwrap().protocol.unwrap(), b"h2");
    let mut plain = (*identity).clone();
    plain.server = identity.server_for(&[b"http/1.1"]);
    assert_eq!(shake(&client, &plain, "a.example").unwrap().protocol.unwrap(), b"http/1.1");
    assert!(std::sync::Arc::ptr_eq(&identity.server, &identity.server_for(&[b"h2", b"http/1.1"])));
}

#[test]
fn sessions_are_resumed_with_any_certificate_of_the_name() {
    let template = template();
    // Two workers hold the same set; a renewed certificate has another key.
    let first = identity(&template, &ecdsa(&["a.example"]), "a");
    let second = identity(&template, &ecdsa(&["a.example"]), "a");
    for version in [&TLS12, &TLS13] {
        let client = AUTHORITY.client(&[version], None);
        assert_ne!(shake(&client, &first, "a.example").unwrap().kind, HandshakeKind::Resumed);
        assert_eq!(shake(&client, &second, "a.example").unwrap().kind, HandshakeKind::Resumed);
    }
}

#[test]
fn tickets_open_after_an_upgrade_and_not_in_another_server() {
    let before = template();
    let pair = ecdsa(&["a.example"]);
    for version in [&TLS12, &TLS13] {
        let client = AUTHORITY.client(&[version], None);
        let old = identity(&before, &pair, "a");
        shake(&client, &old, "a.example").unwrap();
        let after = template();
        after.ring().import(&before.ring().export()).unwrap();
        let new = identity(&after, &pair, "a");
        assert_eq!(shake(&client, &new, "a.example").unwrap().kind, HandshakeKind::Resumed);
        let stranger = identity(&template(), &pair, "a");
        assert_ne!(shake(&client, &stranger, "a.example").unwrap().kind, HandshakeKind::Resumed);
    }
}

#[test]
fn clients_show_certificates_where_a_site_asks() {
    let template = template();
    let open = identity(&template, &ecdsa(&["a.example"]), "a");
    let ask = |mode| template.client_auth("a.example", mode, AUTHORITY.pem.as_bytes()).unwrap();
    let required = open.with_clients(&ask(ClientMode::Required));
    let optional = open.with_clients(&ask(ClientMode::Optional));
    for version in [&TLS12, &TLS13] {
        let without = AUTHORITY.client(&[version], None);
        let with = AUTHORITY.client(&[version], Some("client"));
        assert!(shake(&without, &required, "a.example").is_err());
        assert!(!shake(&without, &optional, "a.example").unwrap().has_client_certificate);
        assert!(shake(&with, &required, "a.example").unwrap().has_client_certificate);
        let again = shake(&with, &required, "a.example").unwrap();
        assert_eq!((again.kind, again.has_client_certificate), (HandshakeKind::Resumed, true));
    }
}

#[test]
fn a_stranger_is_refused_where_certificates_are_optional_too() {
    let template = template();
    let open = identity(&template, &ecdsa(&["a.example"]), "a");
    let other = Authority::new();
    let auth = template.client_auth("a.example", ClientMode::Optional, other.pem.as_bytes()).unwrap();
    let asking = open.with_clients(&auth);
    assert!(shake(&AUTHORITY.client(&[&TLS13], Some("client")), &asking, "a.example").is_err());
}

/// CVE-2025-23419, and a change of the authorities.
#[test]
fn a_ticket_opens_only_what_asks_for_the_same() {
    let template = template();
    let pair = ecdsa(&["a.example"]);
    let open = identity(&template, &pair, "a");
    let own = AUTHORITY.pem.as_bytes();
    let other = [own, Authority::new().pem.as_bytes()].concat();
    let ask = |site, mode, ca: &[u8]| open.with_clients(&template.client_auth(site, mode, ca).unwrap());
    let optional = ask("a.example", ClientMode::Optional, own);
    let same = ask("a.example", ClientMode::Optional, own);
    let others = [
        ask("a.example", ClientMode::Required, own),
        ask("a.example", ClientMode::Optional, &other),
        ask("b.example", ClientMode::Optional, own),
        (*open).clone(),
    ];
    for version in [&TLS12, &TLS13] {
        for other in &others {
            let client = AUTHORITY.client(&[version], Some("client"));
            shake(&client, &optional, "a.example").unwrap();
            assert_ne!(shake(&client, other, "a.example").unwrap().kind, HandshakeKind::Resumed);
            assert_ne!(shake(&client, &optional, "a.example").unwrap().kind, HandshakeKind::Resumed);
            assert_eq!(shake(&client, &same, "a.example").unwrap().kind, HandshakeKind::Resumed);
        }
    }
}

#[test]
fn a_certificate_of_its_own_is_usable() {
    let names = ["localhost".to_owned(), "*.example".to_owned(), "127.0.0.1".to_owned()];
    let (chain, key) = self_signed(&names, now()).unwrap();
    let own = template().identity_from_der((vec![chain], &key), Source::SelfSigned, now()).unwrap();
    assert!(["localhost", "a.example", "127.0.0.1"].iter().all(|host| own.covers(host)));
    assert!(own.not_after > now() + DAY * 300);
    assert!(self_signed(&["\u{e9}".to_owned()], now()).is_err());
}
