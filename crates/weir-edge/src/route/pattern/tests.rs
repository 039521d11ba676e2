//! What `pattern` must do, by example.

use super::*;

/// The meaning of a glob, with no regard to time.
fn naive(pattern: &[u8], path: &[u8]) -> bool {
    match pattern {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|taken| naive(rest, &path[taken..])),
        [b'*', rest @ ..] => {
            let reach = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=reach).any(|taken| naive(rest, &path[taken..]))
        }
        [first, rest @ ..] => path.first() == Some(first) && naive(rest, &path[1..]),
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    PathPattern::compile(&PathRule::Glob(pattern.to_owned())).fits(path)
}

#[test]
fn globs() {
    for (pattern, path, expected) in [
        ("/img/*.png", "/img/a.png", true),
        ("/img/*.png", "/img/.png", true),
        ("/img/*.png", "/img/a/b.png", false),
        ("/img/**.png", "/img/a/b.png", true),
        ("/**/*.jpg", "/a/b/c.jpg", true),
        ("/**/*.jpg", "/c.jpg", false),
        ("**", "*", true),
        ("/a/**", "/a/", true),
        ("/a/**", "/a", false),
        ("/a*", "/a", true),
        ("/a", "/a", true),
        ("/a", "/a/", false),
        ("/*/b/*/d", "/a/b/c/d", true),
        ("/*/b/*/d", "/a/b/c/c/d", false),
    ] {
        assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        assert_eq!(naive(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
    }
}

/// All texts of up to `length` of these letters.
fn words(letters: &[char], length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|word| letters.iter().map(move |letter| format!("{word}{letter}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn every_short_glob_means_what_it_says() {
    let paths: Vec<String> = words(&['a', 'b', '/'], 5);
    for pattern in words(&['a', '/', '*'], 6).iter().filter(|pattern| !pattern.contains("***")) {
        let compiled = PathPattern::compile(&PathRule::Glob(pattern.clone()));
        for path in &paths {
            let path = format!("/{path}");
            let expected = match pattern.as_str() {
                "/**" | "**" => true,
                pattern => naive(pattern.as_bytes(), path.as_bytes()),
            };
            assert_eq!(compiled.fits(&path), expected, "{pattern} {path}");
        }
    }
}

#[test]
fn no_pattern_takes_long() {
    let path = "/".to_owned() + &"a".repeat(8000);
    for pattern in ["/**a**a**a**a**a**a**b", "/*a*a*a*a*a*a*a*b", "/**a*a**a*a**a*ab*a"] {
        assert!(!fits(pattern, &path));
    }
}
