//! The scripts in `examples/picks` pass their samples and the tests beside them.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use weir_script::{Program, Source, trial, usual_origins};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/picks");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rhai"));
    found.sort();
    found
}

fn source(path: &Path) -> Source {
    let file = path.file_name().unwrap().to_str().unwrap().into();
    Source { file, text: std::fs::read_to_string(path).unwrap().into() }
}

#[test]
fn all_of_them_are_there() {
    let names: Vec<String> =
        scripts().iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let expected = ["brute_force", "canary", "energy", "least_cpu", "nearest_zone", "sessions", "tenants"];
    assert_eq!(names, expected);
}

#[test]
fn their_samples_pass() {
    for path in scripts() {
        let program = Program::compile(source(&path), &[]).unwrap_or_else(|mistake| panic!("{mistake}"));
        program.sample(&usual_origins()).unwrap_or_else(|mistake| panic!("{mistake}"));
    }
}

#[test]
fn their_tests_pass() {
    for path in scripts() {
        let tests = std::fs::read_to_string(path.with_extension("rhai.tests.toml")).unwrap();
        let outcomes = trial::tests(&source(&path), &tests).unwrap_or_else(|why| panic!("{path:?}: {why}"));
        assert!(outcomes.len() >= 4, "{path:?} has {} tests", outcomes.len());
        for outcome in outcomes {
            assert_eq!(outcome.failed, None, "{path:?}: {}", outcome.name);
        }
    }
}

#[test]
fn a_test_can_fail() {
    let text = "fn pick(request, client, origins, state) { origins.least(\"cpu\") }";
    let source = Source { file: "a.rhai".into(), text: text.into() };
    let tests = "[[test]]\nname = \"none\"\nexpect = \"http://a.example:80\"\n";
    let outcomes = trial::tests(&source, tests).unwrap();
    let failed = outcomes[0].failed.as_deref();
    assert_eq!(failed, Some("expected http://a.example:80, but it said nothing"));
    for (tests, why) in [
        ("", "no `[[test]]`"),
        ("[[test]]\nname = \"a\"\nexpct = 1", "unknown field"),
        ("[[test]]\nname = \"a\"", "neither `expect` nor `one_of`"),
        ("[[test]]\nname = \"a\"\nkind = \"hit\"\nexpect = \"nothing\"", "a `pass` or a `fill`"),
        ("[[test]]\nname = \"a\"\nclient = \"x\"\nexpect = \"nothing\"", "no address"),
    ] {
        let error = trial::tests(&source, tests).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
