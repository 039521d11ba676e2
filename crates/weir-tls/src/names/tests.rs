//! Which hosts the names in a certificate cover.

use super::Names;

#[test]
fn a_wildcard_stands_for_one_label() {
    let names = Names::new(
        ["WWW.Example.com.", "*.example.net", "f*.example.org", "*", "", "a..b"],
        vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
    );
    for host in [
        "www.example.com",
        "WWW.EXAMPLE.COM",
        "www.example.com.",
        "a.example.net",
        "192.0.2.1",
        "[2001:db8::1]",
    ] {
        assert!(names.cover(host), "{host}");
    }
    for host in [
        "example.com",
        "a.www.example.com",
        "example.net",
        "a.b.example.net",
        "foo.example.org",
        "f*.example.org",
        "192.0.2.2",
        "2001:db8::2",
        "",
        "*",
    ] {
        assert!(!names.cover(host), "{host}");
    }
    assert_eq!(names.to_string(), "www.example.com, *.example.net, 192.0.2.1, 2001:db8::1");
}
