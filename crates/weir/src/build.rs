//! How this program was built: its profile and its features. Nothing else asks cargo for them; what a build
//! lacks is said in the words of this file.

use std::path::Path;
use std::sync::LazyLock;

use weir_config::{Loaded, Mistakes, Part};

/// The name of cargo's profile: `first` (of `make run`), `release`, `dist` (of what is shipped), `debug`.
pub(crate) const PROFILE: &str = env!("WEIR_PROFILE");

/// The profile of what is shipped.
pub(crate) const SHIPPED: &str = "dist";

/// A part of the program that a build may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// `resolve = "each"`.
    Dns,
    /// The screen of `weir top`.
    Screen,
    /// `[pick.NAME] script = …`.
    Script,
    /// The catalogue of volumes.
    Rocksdb,
}

impl Feature {
    const ALL: [Feature; 4] = [Feature::Dns, Feature::Screen, Feature::Script, Feature::Rocksdb];

    /// Its name, as cargo knows it.
    fn name(self) -> &'static str {
        match self {
            Feature::Dns => "dns",
            Feature::Screen => "screen",
            Feature::Script => "script",
            Feature::Rocksdb => "rocksdb",
        }
    }

    fn is_there(self) -> bool {
        match self {
            Feature::Dns => cfg!(feature = "dns"),
            Feature::Screen => cfg!(feature = "screen"),
            Feature::Script => cfg!(feature = "script"),
            Feature::Rocksdb => cfg!(feature = "rocksdb"),
        }
    }

    /// That the program lacks it, and what builds one that does not.
    pub(crate) fn lack(self) -> String {
        let what = match self {
            Feature::Dns => "DNS lookups of its own",
            Feature::Screen => "a screen",
            Feature::Script => "scripts",
            Feature::Rocksdb => "RocksDB",
        };
        format!("this program was built without {what}: `make build`")
    }

    /// The part of it that a configuration may need.
    fn needed(self) -> Option<Part> {
        match self {
            Feature::Dns => Some(Part::Dns),
            Feature::Script => Some(Part::Scripts),
            Feature::Screen | Feature::Rocksdb => None,
        }
    }
}

/// What `weir --version` says behind the name: the version, the profile, and which features are there.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let named = |word: &str, is_there: bool| {
            let names = Feature::ALL.into_iter().filter(|feature| feature.is_there() == is_there);
            let names: Vec<&str> = names.map(Feature::name).collect();
            if names.is_empty() { String::new() } else { format!("\n{word} {}", names.join(", ")) }
        };
        let (with, without) = (named("with", true), named("without", false));
        format!("{}\nprofile {PROFILE}{with}{without}", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Whether this program can do what a configuration wants.
///
/// # Errors
/// A mistake at each place that wants what the program was built without.
pub(crate) fn fits(loaded: &Loaded) -> Result<(), Mistakes> {
    let lacked = Feature::ALL.into_iter().filter(|feature| !feature.is_there());
    let lacked: Vec<_> = lacked.filter_map(|feature| Some((feature.needed()?, feature.lack()))).collect();
    loaded.fits(&lacked)
}

/// Reads a configuration that is to be put in force.
///
/// # Errors
/// All its mistakes at once; if there are none, what it wants and this program was built without.
pub(crate) fn load(file: &Path) -> Result<Loaded, Mistakes> {
    let loaded = weir_config::load(file)?;
    fits(&loaded)?;
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_profile_and_each_feature() {
        let lines: Vec<&str> = version().lines().collect();
        assert_eq!((lines[0], lines[1]), (env!("CARGO_PKG_VERSION"), &*format!("profile {PROFILE}")));
        assert!(!PROFILE.is_empty() && PROFILE != "unknown", "{PROFILE}");
        for feature in Feature::ALL {
            let word = if feature.is_there() { "with " } else { "without " };
            let line = lines.iter().find(|line| line.starts_with(word)).unwrap();
            assert!(line[word.len()..].split(", ").any(|name| name == feature.name()), "{lines:?}");
        }
    }

    #[test]
    fn a_lack_is_said_with_what_builds_it() {
        let said = Feature::Script.lack();
        assert_eq!(said, "this program was built without scripts: `make build`");
    }
}
