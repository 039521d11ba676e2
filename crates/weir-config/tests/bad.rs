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

/// Thousands of mistakes in a large file are counted, and the first are shown: each one's text is looked
/// for in the whole file.
#[test]
fn of_very_many_mistakes_the_first_are_shown() {
    let text: String = (0..5000).map(|number| format!("wrong-{number} = 1\n")).collect();
    let path = std::env::temp_dir().join(format!("weir-mistakes-{}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let report = weir_config::load_with(&path, &|_: &str| None).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    let count = report.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(count, 100);
    let end = report.lines().next_back().unwrap();
    assert!(end.ends_with("mistakes, of which the first 100 are shown"), "{end}");
}
