//! Operators have removed what a later file has alone: it is used all the same, and Weir says so.

use weir_testkit::Setup;

use super::changes::{answers, named, origins, shown};
use crate::server::{server, setup};

#[test]
fn a_reload_that_leaves_only_removed_origins_uses_them_and_says_so() {
    let (a, b) = (named("a"), named("b"));
    let (both, alone) = (server(&[&a, &b]).text(), server(&[&a]).text());
    let mut weir = Setup::run_config(setup(), &both);
    origins(&weir, &["remove", "main", &a.url(), "--keep"]);
    assert_eq!(answers(&weir, 4), "bbbb");
    weir.rewrite_config(&alone);
    let reloaded = weir.reload();
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert!(format!("{reloaded:?}").contains("used all the same"), "{reloaded:?}");
    for _ in 0..2 {
        weir.await_stderr("the origins that were removed at run time are used all the same");
        assert_eq!(answers(&weir, 4), "aaaa");
        let listed = shown(&weir, &a.url());
        assert_eq!(listed["state"], "ready", "{listed}");
        assert!(origins(&weir, &[]).contains("removed, but no other origin is left"));
        // A start says the same as a reload.
        weir.restart();
    }
    // With another one it stays out, as the operator said.
    weir.rewrite_config(&both);
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(answers(&weir, 4), "bbbb");
    weir.rewrite_config(&alone);
    assert_eq!(weir.reload().code, Some(0));
    origins(&weir, &["add", "main", &a.url(), "--keep"]);
    assert!(!format!("{:?}", weir.reload()).contains("all the same"));
    assert_eq!(answers(&weir, 4), "aaaa");
}

#[test]
fn what_is_added_has_the_limits_of_the_file() {
    let a = named("a");
    let weir = server(&[&a]).start();
    let long = format!("http://{}:80", "a".repeat(254));
    let socket = format!("unix:/{}", "a".repeat(103));
    for (origin, why) in [
        (long.as_str(), "at most 253"),
        (&socket, "at most 103"),
        ("unix:/run/a\nb", "control characters"),
        ("http://a\u{1b}[2J", "a character that no host has"),
    ] {
        let output = weir.command(&["origins", "add", "main", origin]);
        assert_ne!(output.code, Some(0), "{origin:?}: {output:?}");
        assert!(output.stderr.contains(why), "{origin:?}: {output:?}");
    }
    let longest = format!("http://{}:80", vec!["a".repeat(63); 3].join("."));
    origins(&weir, &["add", "main", &longest]);
    assert!(origins(&weir, &[]).contains(&longest));
}
