//! Which certificate a client gets.

use std::sync::Arc;

use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};

use super::Set;
use crate::sample::{AUTHORITY, ecdsa, identity, now, template};
use crate::{Certificates, ClientMode, Identity, SiteClients, Source, Template};

/// A certificate that is called `label`.
fn file(template: &Template, label: &str, names: &[&str]) -> Arc<Identity> {
    identity(template, &ecdsa(names), label)
}

fn rsa(template: &Template, label: &str, names: &[&str]) -> Arc<Identity> {
    identity(template, &AUTHORITY.issue(names, &PKCS_RSA_SHA256, (-1, 90)), label)
}

fn default(identity: &Arc<Identity>) -> Arc<Identity> {
    Arc::new(Identity::clone(identity).as_default())
}

fn label(identity: Option<&Arc<Identity>>) -> String {
    identity.map_or("-".to_owned(), |identity| identity.source.to_string())
}

#[track_caller]
fn check(set: &Set, expect: &[(Option<&str>, bool, &str)]) {
    for (name, takes_ecdsa, expected) in expect {
        assert_eq!(label(set.choose(*name, *takes_ecdsa)), *expected, "{name:?} {takes_ecdsa}");
    }
}

#[test]
fn an_exact_name_comes_before_a_wildcard_and_ecdsa_before_rsa() {
    let template = template();
    let set = Set::new(
        vec![
            file(&template, "wild", &["*.example.com"]),
            rsa(&template, "exact-rsa", &["www.example.com"]),
            rsa(&template, "both-rsa", &["both.example.com"]),
            file(&template, "both", &["both.example.com", "192.0.2.1"]),
        ],
        Vec::new(),
    );
    check(
        &set,
        &[
            (Some("a.example.com"), true, "wild"),
            (Some("A.Example.COM."), true, "wild"),
            // An ECDSA certificate that the client says it cannot take is better than none.
            (Some("a.example.com"), false, "wild"),
            (Some("www.example.com"), true, "exact-rsa"),
            (Some("both.example.com"), true, "both"),
            (Some("both.example.com"), false, "both-rsa"),
            (Some("example.com"), true, "-"),
            (Some("a.b.example.com"), true, "-"),
            (None, true, "-"),
        ],
    );
    assert_eq!(label(set.choose_for_address("192.0.2.1".parse().unwrap(), true)), "both");
    assert_eq!(label(set.choose_for_address("::ffff:192.0.2.1".parse().unwrap(), true)), "both");
    assert_eq!(label(set.choose_for_address("192.0.2.2".parse().unwrap(), true)), "-");
    assert_eq!(label(set.covering("x.example.com")), "wild");
    assert_eq!(label(set.covering("*.example.com")), "wild");
    assert_eq!(label(set.covering("192.0.2.1")), "both");
    assert_eq!(label(set.covering("example.com")), "-");
}

#[test]
fn the_default_is_given_only_where_no_other_is() {
    let template = template();
    let set = Set::new(
        vec![file(&template, "a", &["a.example"]), default(&file(&template, "default", &["d.example"]))],
        Vec::new(),
    );
    check(
        &set,
        &[
            (Some("a.example"), true, "a"),
            (Some("d.example"), true, "default"),
            (Some("other.example"), true, "default"),
            (None, true, "default"),
        ],
    );
    assert_eq!(label(set.choose_for_address("192.0.2.2".parse().unwrap(), true)), "default");
    assert!(set.covering("other.example").is_none());
    assert!(set.choose(None, true).unwrap().covers("other.example"));
    assert!(!set.choose(Some("a.example"), true).unwrap().covers("other.example"));
}

#[test]
fn files_win_and_then_the_longer_validity() {
    let template = template();
    let days = |label: &str, days| {
        identity(&template, &AUTHORITY.issue(&["a.example"], &PKCS_ECDSA_P256_SHA256, (-1, days)), label)
    };
    let acme = template.identity(ecdsa(&["a.example", "b.example"]).pem(), Source::Acme, now()).unwrap();
    let mut list = vec![Arc::new(acme), days("short", 20), days("long", 80)];
    for _ in 0..list.len() {
        list.rotate_left(1);
        let set = Set::new(list.clone(), Vec::new());
        check(&set, &[(Some("a.example"), true, "long"), (Some("b.example"), true, "acme")]);
    }
}

#[test]
fn a_file_of_rsa_wins_over_one_of_another_source() {
    let template = template();
    let acme = template.identity(ecdsa(&["a.example", "b.example"]).pem(), Source::Acme, now()).unwrap();
    let mut list = vec![Arc::new(acme), rsa(&template, "rsa", &["a.example"])];
    for _ in 0..list.len() {
        list.rotate_left(1);
        let set = Set::new(list.clone(), Vec::new());
        check(&set, &[(Some("a.example"), true, "rsa"), (Some("b.example"), true, "acme")]);
    }
}

#[test]
fn a_set_chooses_for_the_site_that_asks_for_client_certificates() {
    let template = template();
    let auth =
        |site: &str| template.client_auth(site, ClientMode::Required, AUTHORITY.pem.as_bytes()).unwrap();
    let hosts = |hosts: &[&str]| hosts.iter().map(ToString::to_string).collect();
    let sites = vec![
        SiteClients { hosts: hosts(&["www.example.com"]), auth: None },
        SiteClients { hosts: hosts(&["api.example.com"]), auth: Some(auth("api")) },
        SiteClients { hosts: hosts(&["*.in.example.com"]), auth: Some(auth("in")) },
        SiteClients { hosts: hosts(&["free.in.example.com"]), auth: None },
        SiteClients { hosts: hosts(&["192.0.2.1", "[2001:db8::1]"]), auth: Some(auth("addresses")) },
        SiteClients { hosts: hosts(&["192.0.2.2"]), auth: None },
        SiteClients { hosts: hosts(&["*"]), auth: Some(auth("rest")) },
    ];
    let set = Set::new(
        vec![
            file(&template, "com", &["*.example.com"]),
            file(&template, "in", &["*.in.example.com", "b.a.in.example.com"]),
            default(&file(&template, "rest", &["rest.example"])),
            file(&template, "addresses", &["192.0.2.1", "2001:db8::1"]),
        ],
        sites,
    );
    for (name, certificate, site) in [
        (Some("www.example.com"), "com", None),
        (Some("api.example.com"), "com", Some("api")),
        (Some("API.example.com"), "com", Some("api")),
        (Some("x.in.example.com"), "in", Some("in")),
        (Some("b.a.in.example.com"), "in", Some("in")),
        (Some("free.in.example.com"), "in", None),
        (Some("else.example.com"), "com", Some("rest")),
        (Some("rest.example"), "rest", Some("rest")),
        (None, "rest", Some("rest")),
    ] {
        let identity = set.choose(name, true);
        assert_eq!(label(identity), certificate, "{name:?}");
        assert_eq!(identity.unwrap().client_auth.as_ref().map(|auth| &*auth.site), site, "{name:?}");
    }
    for (address, certificate, site) in [
        ("192.0.2.1", "addresses", Some("addresses")),
        ("::ffff:192.0.2.1", "addresses", Some("addresses")),
        ("2001:db8::1", "addresses", Some("addresses")),
        ("192.0.2.2", "rest", None),
        ("192.0.2.3", "rest", Some("rest")),
    ] {
        let identity = set.choose_for_address(address.parse().unwrap(), true);
        assert_eq!(label(identity), certificate, "{address}");
        assert_eq!(identity.unwrap().client_auth.as_ref().map(|auth| &*auth.site), site, "{address}");
    }
}

#[test]
fn challenges_stay_when_the_set_changes() {
    let template = template();
    let held = Certificates::default();
    assert!(held.current().choose(Some("a.example"), true).is_none());
    let answer = file(&template, "answer", &["a.example"]);
    held.challenge("A.example", &answer);
    held.replace(&Set::new(vec![file(&template, "a", &["a.example"])], Vec::new()));
    check(&held.current(), &[(Some("a.example"), true, "a")]);
    assert_eq!(label(held.current().challenge(Some("a.example"))), "answer");
    assert_eq!(label(held.current().challenge(None)), "-");
    held.withdraw("a.example");
    assert_eq!(label(held.current().challenge(Some("a.example"))), "-");
    check(&held.clone().current(), &[(Some("a.example"), true, "a")]);
}
