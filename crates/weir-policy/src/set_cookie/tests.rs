//! What becomes of the attributes of cookies, by example.

use http::{HeaderMap, HeaderValue, header};

use super::*;

fn rule(cookies: &[&str], add: &[Flag], remove: &[&'static str]) -> FlagRule {
    let cookies = cookies.iter().map(ToString::to_string).collect();
    FlagRule { cookies, add: add.to_vec(), remove: remove.to_vec() }
}

fn given(rules: &[FlagRule], lines: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(header::SET_COOKIE, HeaderValue::from_bytes(line).unwrap());
    }
    set_flags(rules, &mut headers);
    headers.get_all(header::SET_COOKIE).iter().map(|line| line.as_bytes().to_vec()).collect()
}

fn check(rules: &[FlagRule], line: &str, expected: &str) {
    let found = given(rules, &[line.as_bytes()]);
    assert_eq!(found.len(), 1, "{line}");
    assert_eq!(String::from_utf8_lossy(&found[0]), expected, "{line}");
    assert_eq!(given(rules, &[&found[0]]), found, "{line}: a second time changes nothing");
}

#[test]
fn attributes_are_added_once_and_taken_out_in_any_spelling() {
    let rules = [
        rule(&["session*", "sid"], &[Flag::Secure, Flag::HttpOnly, Flag::SameSiteLax], &[]),
        rule(&["open"], &[], &["Secure", "SameSite"]),
        rule(&["both"], &[Flag::SameSiteNone, Flag::Partitioned], &["HttpOnly"]),
        rule(&["*"], &[Flag::SameSiteStrict], &[]),
    ];
    for (line, expected) in [
        ("sid=1", "sid=1; Secure; HttpOnly; SameSite=Lax"),
        ("session_id=1; Path=/; HttpOnly", "session_id=1; Path=/; Secure; HttpOnly; SameSite=Lax"),
        (
            "sid=1; secure ;HTTPONLY; samesite = lax; Path=/",
            "sid=1; secure ;HTTPONLY; samesite = lax; Path=/",
        ),
        ("sid=1; Secure; Secure", "sid=1; Secure; HttpOnly; SameSite=Lax"),
        ("sid=1; SameSite=None; Secure", "sid=1; Secure; HttpOnly; SameSite=Lax"),
        ("sid=1; SameSite=None; SameSite=Lax; x", "sid=1; x; Secure; HttpOnly; SameSite=Lax"),
        ("sid=secure; httponly=0", "sid=secure; Secure; HttpOnly; SameSite=Lax"),
        ("sid=\"a; Secure\"; b=\"", "sid=\"a; Secure\"; b=\"; Secure; HttpOnly; SameSite=Lax"),
        ("sid", "sid; Secure; HttpOnly; SameSite=Lax"),
        ("open=1; Secure; Path=/; SECURE=1; sAMEsite", "open=1; Path=/"),
        ("open=1; SecureX; xSecure", "open=1; SecureX; xSecure"),
        ("open=1; Secure; ;", "open=1"),
        ("both=1; HttpOnly; SameSite", "both=1; SameSite=None; Partitioned"),
        ("Sid=1", "Sid=1; SameSite=Strict"),
        ("=1", "=1; SameSite=Strict"),
        ("a=1, sid=2; Secure", "a=1, sid=2; Secure; SameSite=Strict"),
        (";", "; SameSite=Strict"),
    ] {
        check(&rules, line, expected);
    }
    check(&[], "a=1; Secure", "a=1; Secure");
    check(&rules[..3], "other=1; SameSite=None", "other=1; SameSite=None");
}

#[test]
fn values_are_bytes_and_lines_keep_their_order() {
    let rules = [rule(&["a"], &[Flag::HttpOnly], &[])];
    let lines: [&[u8]; 4] = [b"a=\xc3\xa4\xff", b"b=1", b"a=\t1", b"a=2; HttpOnly"];
    let expected: [&[u8]; 4] = [b"a=\xc3\xa4\xff; HttpOnly", b"b=1", b"a=\t1; HttpOnly", b"a=2; HttpOnly"];
    assert_eq!(given(&rules, &lines), expected);
    assert!(given(&rules, &[]).is_empty());
}

#[test]
fn a_pattern_is_within_one_that_has_all_its_names() {
    for (pattern, other, expected) in [
        ("a", "*", true),
        ("session_*", "session*", true),
        ("session*", "session_*", false),
        ("*", "a", false),
        ("*a*", "*a*", true),
        ("a", "A", false),
    ] {
        assert_eq!(is_within(pattern, other), expected, "{pattern} {other}");
    }
}
