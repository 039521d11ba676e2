//! Promises of ways, for any path: no panic; no name of a way leads upwards, is empty or has a NUL; a route
//! reads no dot segment in a path that has a way; where names are hidden, none but the well-known one begins
//! with a dot.

use crate::root::Hidden;
use crate::way::Way;

/// Reads a path.
pub fn way(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else { return };
    for hidden in [Hidden::Served, Hidden::NotServed] {
        let Ok(way) = Way::read(path, hidden) else { continue };
        assert!(!weir_policy::has_dot_segment(path), "a route reads steps upwards in {path:?}");
        for (place, name) in way.names().split(|byte| *byte == b'/').enumerate() {
            assert!(!name.is_empty() || way.names().is_empty(), "an empty name in {path:?}");
            assert!(!matches!(name, b"." | b".."), "a name of dots in {path:?}");
            assert!(!name.iter().any(u8::is_ascii_control), "a control character in {path:?}");
            let is_allowed = !name.starts_with(b".") || (place == 0 && name == b".well-known");
            assert!(hidden == Hidden::Served || is_allowed, "a hidden name in {path:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::fuzz;

    /// What mutations insert, beside bytes of other seeds.
    const WORDS: &[&[u8]] = &[
        b"/",
        b"//",
        b".",
        b"..",
        b"/../",
        b"%2e",
        b"%2F",
        b"%5c",
        b"\\",
        b";",
        b"%00",
        b"%25",
        b"%",
        b"%c0%af",
        b"?",
        b".well-known",
        b"/.",
        b"%u002e",
        b" ",
    ];

    #[test]
    fn no_path_leads_upwards() {
        fuzz("way", WORDS, super::way);
    }
}
