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
    check("weir.schema.json", &crate::schema::text());
}

#[test]
fn every_key_is_explained() {
    for line in super::markdown().lines().filter(|line| line.starts_with("| `")) {
        let meaning = line.trim_end_matches('|').rsplit(" | ").next().unwrap();
        assert!(meaning.trim().len() > 5, "{line}");
    }
}

/// The examples of the reference: what stands in backticks behind `Example:`.
fn examples() -> Vec<String> {
    let page = super::markdown().replace("\\|", "|");
    let rest = page.split("Example: `").skip(1);
    rest.map(|rest| rest.split('`').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_example_loads_as_a_key_of_a_site() {
    let examples = examples();
    assert!(examples.len() >= 2, "{examples:?}");
    for example in examples {
        crate::sample::good(&format!(
            "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n\
             [[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n{example}\n"
        ));
    }
}
