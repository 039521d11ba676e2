//! Patterns, by hand and against the plainest way to match them.

use super::{fits, path_fits};
use proptest::prelude::*;

#[test]
fn fits_names() {
    for (pattern, text, expect) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("", "", true),
        ("*", "", true),
        ("utm_*", "utm_source", true),
        ("utm_*", "ut", false),
        ("*a*b", "xaxbxb", true),
        ("*a*b", "xaxbxc", false),
        ("a*a", "a", false),
        ("wp-*-user", "wp-1/2-user", true),
    ] {
        assert_eq!(fits(pattern, text.as_bytes()), expect, "{pattern} {text}");
    }
}

#[test]
fn fits_paths() {
    for (pattern, path, expect) in [
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/**", "/a/b/c", true),
        ("/**/x", "/a/b/x", true),
        ("/**/x", "/x", false),
        ("/*/c", "/a/b/c", false),
        ("/**/*.js", "/a/b/c.js", true),
        ("/*.js", "/a/c.js", false),
        ("**a*b**c", "a/ab/c", true),
    ] {
        assert_eq!(path_fits(pattern, path), expect, "{pattern} {path}");
    }
}

/// Tries every possibility.
fn plain(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', ..] => {
            let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
            let reach = text.iter().position(|byte| *byte == b'/' && stars == 1).unwrap_or(text.len());
            (0..=reach).any(|taken| plain(&pattern[stars..], &text[taken..]))
        }
        [first, rest @ ..] => text.first() == Some(first) && plain(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn agrees_with_trying_everything(pattern in "[ab/*]{0,8}", path in "[ab/]{0,10}") {
        prop_assert_eq!(path_fits(&pattern, &path), plain(pattern.as_bytes(), path.as_bytes()));
    }
}
