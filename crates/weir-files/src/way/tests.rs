//! Paths that are read, and paths that are refused.

use proptest::prelude::*;

use super::{Unfit, Way};
use crate::root::Hidden;

fn check(path: &str, expect: Result<(&[u8], bool), Unfit>) {
    let way = Way::read(path, Hidden::NotServed);
    let way = way.as_ref().map(|way| (way.names(), way.is_folder())).map_err(|unfit| *unfit);
    assert_eq!(way, expect, "{path}");
}

#[test]
fn a_path_is_decoded_once() {
    check("/", Ok((b"", true)));
    check("/a", Ok((b"a", false)));
    check("/a/b.html", Ok((b"a/b.html", false)));
    check("/a/", Ok((b"a", true)));
    check("//a///b//", Ok((b"a/b", true)));
    check("/a%20b", Ok((b"a b", false)));
    check("/%61", Ok((b"a", false)));
    check("/a%252eb", Ok((b"a%2eb", false)));
    check("/%c3%a4", Ok(("ä".as_bytes(), false)));
    check("/a..b/c...", Ok((b"a..b/c...", false)));
    check("/a;b", Ok((b"a;b", false)));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    for path in [
        "/../etc/passwd",
        "/a/../b",
        "/a/..",
        "/%2e%2e/etc/passwd",
        "/%2E%2e/x",
        "/.%2e/x",
        "/..%2fetc",
        "/a%2Fb",
        "/..%5cetc",
        "/..\\etc",
        "/a\\b",
        "/a%5Cb",
        "/..;/etc",
        "/a/..;x=1/b",
        "/.;/a",
        "/%00",
        "/a%00.html",
        "/a%0ab",
        "/a%7f",
        "/./a",
        "/a/%2e/b",
        "/%",
        "/%2",
        "/%zz",
        "/a%u002e",
    ] {
        check(path, Err(Unfit::Ambiguous));
    }
}

#[test]
fn names_with_a_dot_first_are_hidden_but_the_well_known_folder() {
    for path in ["/.git/config", "/a/.htaccess", "/.env", "/...", "/a/.well-known/x", "/.well-known/.secret"]
    {
        check(path, Err(Unfit::Hidden));
    }
    check("/.well-known/security.txt", Ok((b".well-known/security.txt", false)));
    let way = Way::read("/.git/config", Hidden::Served).unwrap();
    assert_eq!(way.names(), b".git/config");
    assert_eq!(Way::read("/..;/a", Hidden::Served), Err(Unfit::Ambiguous));
}

#[test]
fn a_long_path_is_refused() {
    check(&format!("/{}", "a".repeat(5000)), Err(Unfit::TooLong));
    check(&format!("/{}", "%61".repeat(5000)), Err(Unfit::TooLong));
    check(&format!("/.env/{}", "a".repeat(50_000)), Err(Unfit::Hidden));
    check(&format!("/a%2fb/{}", "a".repeat(50_000)), Err(Unfit::Ambiguous));
}

proptest! {
    #[test]
    fn no_way_leads_out(path in "/[a./\\\\%0-9;eEfF52]{0,40}") {
        if let Ok(way) = Way::read(&path, Hidden::Served) {
            prop_assert!(!way.names().starts_with(b"/"));
            for name in way.names().split(|byte| *byte == b'/') {
                prop_assert!(name != b".." && name != b"." && !name.contains(&0));
            }
            // Routes read the same path.
            prop_assert!(!weir_policy::has_dot_segment(&path), "{path}");
        }
    }
}
