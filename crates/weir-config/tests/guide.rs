//! The configurations in the guide load, each with an upstream and a site around it where it has none, and
//! none has a redirect that leads to itself.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const PAGES: [&str; 11] = [
    "README.md",
    "docs/guide/balancing.md",
    "docs/guide/from-haproxy.md",
    "docs/guide/health.md",
    "docs/guide/origins.md",
    "docs/guide/sessions.md",
    "docs/guide/sites.md",
    "docs/guide/wordpress.md",
    "docs/guide/magento.md",
    "docs/guide/drupal.md",
    "docs/guide/symfony.md",
];

/// The blocks of TOML of a page.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```toml" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

/// A block as a whole file: keys at its top are those of a site.
fn whole(block: &str) -> String {
    let mut text = String::new();
    if !block.contains("[upstream.app]") {
        text.push_str("[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n");
    }
    if !block.contains("[[site]]") {
        text.push_str("[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n");
    }
    text.push_str(block);
    text
}

#[test]
fn every_configuration_in_the_guide_loads() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let keys = folder.join("sessions.key");
    std::fs::write(&keys, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let secret = |_: &str| Some("a secret of the environment".to_owned());
    for page in PAGES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let blocks = blocks(&std::fs::read_to_string(path).unwrap());
        assert!(!blocks.is_empty(), "{page} has no configuration");
        for (number, block) in blocks.iter().enumerate() {
            let file = folder.join(format!("{}-{number}.toml", page.replace('/', "-")));
            std::fs::write(&file, whole(block)).unwrap();
            let loaded = weir_config::load_with(&file, &secret)
                .unwrap_or_else(|mistakes| panic!("{page}:\n{block}\n{mistakes}"));
            let warnings = loaded.warnings();
            assert!(!warnings.iter().any(|text| text.contains("in a circle")), "{page}: {warnings:?}");
        }
    }
}
