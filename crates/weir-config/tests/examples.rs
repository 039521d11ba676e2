//! Every example loads, and `weir check --show` has something to say about it.

#![allow(clippy::unwrap_used)]

use std::path::Path;

#[test]
fn every_example_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        count += 1;
        let no_environment = |_: &str| None;
        let loaded = weir_config::load_with(&path, &no_environment)
            .unwrap_or_else(|mistakes| panic!("{}:\n{mistakes}", path.display()));
        assert!(weir_config::show(&loaded).contains("otherwise"), "{}", path.display());
    }
    assert!(count >= 11, "only {count} examples");
}
