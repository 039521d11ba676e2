//! Which build measures, for reports: one that is not optimized is itself what is measured.

use std::sync::LazyLock;

/// The name of cargo's profile.
pub const PROFILE: &str = env!("WEIR_PROFILE");

/// The profile of what is shipped.
const SHIPPED: &str = "dist";

/// What `--version` says behind the name: the version, and the profile in a line of its own, as `weir` does.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{}\nprofile {PROFILE}", env!("CARGO_PKG_VERSION")));
    &VERSION
}

/// Whether this is a build like the shipped one.
pub(crate) fn is_shipped() -> bool {
    PROFILE == SHIPPED
}

/// The program, its version and its profile, in a line for people.
pub(crate) fn line() -> String {
    let program = format!("weir stress {}, profile {PROFILE}", env!("CARGO_PKG_VERSION"));
    match warning() {
        None => program,
        Some(warning) => format!("{program}; {warning}"),
    }
}

/// What figures of this build are worth, where it is not the shipped one.
pub fn warning() -> Option<&'static str> {
    let why = "it measures itself as well: this is not the shipped build, which `make trained` makes";
    (!is_shipped()).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_profile_and_warns_of_others_than_the_shipped_one() {
        assert!(!PROFILE.is_empty() && PROFILE != "unknown", "{PROFILE}");
        assert!(line().contains(&format!(", profile {PROFILE}")), "{}", line());
        assert!(version().ends_with(&format!("\nprofile {PROFILE}")), "{}", version());
        assert_eq!(line().contains("not the shipped build"), PROFILE != SHIPPED, "{}", line());
    }
}
