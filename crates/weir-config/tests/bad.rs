//! What `weir check` prints about files full of mistakes, word for word. `WEIR_REWRITE=1` rewrites what is
//! expected.

#![allow(clippy::unwrap_used)]

use std::path::Path;

/// Loads `tests/files/NAME/weir.toml` and compares the report with `tests/files/NAME.stderr`.
fn check(name: &str) {
    let folder = Path::new("tests/files");
    let no_environment = |_: &str| None;
    let mistakes = weir_config::load_with(&folder.join(name).join("weir.toml"), &no_environment).unwrap_err();
    let report = mistakes.to_string();
    let golden = folder.join(format!("{name}.stderr"));
    if std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(&golden, &report).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(report == expected, "the report on {name} has changed:\n{report}");
}

#[test]
fn every_mistake_is_reported_at_once() {
    check("bad");
}

#[test]
fn nginx_in_other_brackets_is_answered_with_the_words_of_weir() {
    check("nginx");
}

#[test]
fn errors_of_syntax_are_reported_with_what_else_is_wrong() {
    check("syntax");
}

#[test]
fn words_of_other_proxies_and_wrong_brackets_are_answered_with_the_right_form() {
    check("neighbours");
}
