//! The checked-in reference and schema are those of the model. `WEIR_REWRITE=1 cargo test -p weir-config`
//! rewrites them.

use std::path::Path;

/// Compares a checked-in file with what it should be, or rewrites it.
fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(name);
    if std::env::var_os("WEIR_REWRITE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} is not current: run WEIR_REWRITE=1 cargo test -p weir-config");
}

#[test]
fn the_reference_is_current() {
    check("reference.md", &super::markdown());
}

#[test]
fn the_schema_is_current() {
    check("weir.schema.json", &super::json_schema());
}

#[test]
fn every_key_is_explained() {
    for line in super::markdown().lines().filter(|line| line.starts_with("| `")) {
        let meaning = line.trim_end_matches('|').rsplit(" | ").next().unwrap();
        assert!(meaning.trim().len() > 5, "{line}");
    }
}
