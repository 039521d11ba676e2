//! The ways in which a path with dots may be read.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{has_dot_segment, read_path};
use super::{Readings, TooMany, readings};

fn check(path: &str, expect: &[&str], has_marked_dots: bool) {
    let Readings { paths, has_marked_dots: found } = readings(path).unwrap().unwrap();
    let paths: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(paths, expect.iter().copied().collect(), "{path}");
    assert_eq!(found, has_marked_dots, "{path}");
}

#[test]
fn a_path_with_dots_is_read_in_each_way() {
    check("/admin/../x", &["/admin/../x", "/x"], false);
    check("/admin/..", &["/admin/..", "/"], false);
    check("/a/./b", &["/a/./b", "/a/b"], false);
    check("/../a", &["/../a", "/a"], false);
    check("/admin/..;/x", &["/admin/../x", "/x", "/admin/..;/x"], true);
    check("/admin/..;a=1/x", &["/admin/../x", "/x", "/admin/..;a=1/x"], true);
    check("/admin/%2e%2E/x", &["/admin/../x", "/x", "/admin/%2E%2E/x"], false);
    check("/admin/..\\x", &["/admin/../x", "/x", "/admin/..\\x"], true);
    check("/admin/..%5cx", &["/admin/../x", "/x", "/admin/..\\x"], true);
    check("/admin/..%3bx", &["/admin/..", "/", "/admin/..;x"], true);
    check("/admin/..%2fx", &["/admin/../x", "/x", "/admin/..%2Fx"], false);
    check("/admin//../x", &["/admin/../x", "/x", "/admin//../x", "/admin/x"], false);
    // A `;` may swallow what others take for a slash.
    check(
        "/;\\b/admin/x",
        &["/admin/x", "/b/admin/x", "//admin/x", "//b/admin/x", "/;\\b/admin/x", "/;/b/admin/x"],
        false,
    );
    // And what stands before the `;` may be a slash all the same.
    let found = readings("/%5c;%5cb/admin/x").unwrap().unwrap().paths;
    assert!(found.contains(&"/admin/x".to_owned()), "{found:?}");
    check("/a;b%2fc", &["/a", "/a/c", "/a;b/c", "/a;b%2Fc"], false);
    check("/%61dmin;b/../x", &["/admin/../x", "/x", "/admin;b/../x"], false);
}

#[test]
fn a_path_without_dots_is_read_in_one_way_and_no_path_in_a_thousand() {
    for path in ["/", "/a/b", "/a;b/c", "/a//b", "/a%2fb", "/a\\b", "/...", "/a..b", "/%252e%252e/"] {
        assert_eq!(readings(path), Ok(None), "{path}");
    }
    assert_eq!(readings("/a%2fb\\c%5cd;e%3b/../f"), Err(TooMany));
    assert_eq!(readings("/a//b%2fc;d/../f").unwrap().unwrap().paths.len(), 32);
    // What several readings cost is bounded, however long a path may be.
    for (path, longest) in [("/../", 32 << 10), ("/a%2fb/../", 16 << 10), ("/a//b%2fc;d/../", 2 << 10)] {
        let of = |characters: usize| {
            let own = path.len() - 2 * path.matches('%').count();
            readings(&format!("{path}{}", "x".repeat(characters - own)))
        };
        assert!(of(longest).unwrap().is_some(), "{path}");
        assert_eq!(of(longest + 1), Err(TooMany), "{path}");
    }
}

#[test]
fn a_path_may_begin_with_a_host() {
    let of = |path: &str| readings(path).unwrap().unwrap().paths;
    assert_eq!(of("//x/admin/y"), ["/x/admin/y", "/admin/y"]);
    assert_eq!(of("/\\x/admin/y"), ["/x/admin/y", "/admin/y"]);
    assert_eq!(of("///x//admin/y"), ["/x/admin/y", "/admin/y"]);
    assert_eq!(of("//x\\y/admin/z"), ["/x/y/admin/z", "/y/admin/z", "/admin/z"]);
    assert_eq!(of("//x"), ["/x", "/"]);
    assert!(of("//x/a/../admin/y").contains(&"/admin/y".to_owned()));
    assert_eq!(readings("/a//x/admin/y"), Ok(None));
}

proptest! {
    /// What routes compare of other paths is one of the readings here.
    #[test]
    fn the_reading_of_routes_is_among_them(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "/", "a", "..", ".", "%2e", "%2F", ";", "%3b", "\\", "%5c", "//", "%61", "%",
            ]),
            0..12),
    ) {
        let path = format!("/{}", pieces.concat());
        match readings(&path) {
            Ok(None) => prop_assert!(!has_dot_segment(&path)),
            Err(TooMany) => {}
            Ok(Some(readings)) => {
                prop_assert!(readings.paths.iter().all(|path| path.starts_with('/')), "{:?}", readings);
                let read = read_path(&path);
                // It ends a folder with one slash, whatever its dots left behind.
                let same = |path: &String| path.trim_end_matches('/') == read.trim_end_matches('/');
                prop_assert!(readings.paths.iter().any(same), "{} is not in {:?}", read, readings);
            }
        }
    }
}
