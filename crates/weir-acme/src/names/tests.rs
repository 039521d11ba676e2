//! Which hosts which CA can issue for, in a table.

use super::*;
use crate::settings::{AuthoritySettings, LETS_ENCRYPT, Settings};

const OWN_CA: &str = "https://ca.corp.internal:9000/acme/acme/directory";

#[test]
fn a_public_ca_issues_for_public_names() {
    for host in ["example.com", "www.example.com", "a-b.c_d.example.org", "xn--bcher-kva.de", "localhost.com"]
    {
        assert_eq!(Name::orderable(host, LETS_ENCRYPT), Ok(Name::Dns(host.to_owned())), "{host}");
    }
    for host in [
        "localhost",
        "intranet",
        "app.localhost",
        "db.internal",
        "www.test",
        "printer.local",
        "a.invalid",
        "a.example",
        "a.onion",
        "nas.home.arpa",
        "a.123",
    ] {
        assert_eq!(Name::orderable(host, LETS_ENCRYPT), Err(Unorderable::NotPublic), "{host}");
        // A CA of one's own may.
        assert!(Name::orderable(host, OWN_CA).is_ok(), "{host}");
    }
}

#[test]
fn a_public_ca_issues_for_public_addresses() {
    for (host, address) in [("93.184.215.14", "93.184.215.14"), ("[2606:4700::1]", "2606:4700::1")] {
        let name = Name::orderable(host, LETS_ENCRYPT).unwrap();
        assert_eq!(name.to_string(), address);
        assert_eq!(name.host(), host);
    }
    for host in [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[fe80::1]",
        "[fd00::1]",
        "[2001:db8::1]",
        "[::ffff:8.8.8.8]",
    ] {
        assert_eq!(Name::orderable(host, LETS_ENCRYPT), Err(Unorderable::PrivateAddress), "{host}");
        assert!(Name::orderable(host, OWN_CA).is_ok(), "{host}");
    }
}

#[test]
fn no_ca_issues_for_what_is_no_name() {
    for host in ["*", "*.example.com"] {
        assert_eq!(Name::orderable(host, OWN_CA), Err(Unorderable::Wildcard), "{host}");
    }
    let long_label = "a".repeat(64) + ".example.com";
    let long_name = ["a".repeat(60).as_str(); 5].join(".");
    for host in ["", ".", "a..b", "-a.com", "a-.com", "a b.com", "a/../b", "../a", &long_label, &long_name] {
        assert_eq!(Name::orderable(host, OWN_CA), Err(Unorderable::Malformed), "{host}");
    }
}

#[test]
fn an_address_is_named_by_the_reverse_zone() {
    let server_name = |host| Name::of(host).unwrap().server_name();
    assert_eq!(server_name("www.Example.com"), "www.example.com");
    assert_eq!(server_name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
    assert_eq!(
        server_name("[2001:db8::1]"),
        "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
    );
}

#[test]
fn each_host_goes_to_a_ca_that_can() {
    let authorities = [LETS_ENCRYPT, OWN_CA].map(AuthoritySettings::at).into();
    let settings = Settings { authorities, hosts: Vec::new(), challenges: Vec::new() };
    assert_eq!(settings.able("www.example.com"), Ok(vec![0, 1]));
    assert_eq!(settings.able("db.internal"), Ok(vec![1]));
    assert_eq!(settings.able("*.example.com"), Err(Unorderable::Wildcard));
    let profile =
        |host: &str| settings.authorities[0].profile_for(&Name::of(host).unwrap()).map(str::to_owned);
    assert_eq!(profile("93.184.215.14").as_deref(), Some("shortlived"));
    assert_eq!(profile("www.example.com"), None);
    assert_eq!(settings.authorities[1].profile_for(&Name::of("10.0.0.1").unwrap()), None);
}
