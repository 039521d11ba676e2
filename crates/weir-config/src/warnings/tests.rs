//! Where warnings point to.

use crate::sample::good;

#[test]
fn a_warning_names_the_line_of_its_key() {
    let text = "[upstream.a]\norigins = [\"http://a\"]\n[defaults]\nvary = { ignore = [\"User-Agent\"] }\n\
                [[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n[[site.route]]\nprefix = \"/b\"\n\
                [[site.route]]\nprefix = \"/a\"\nttl = \"1m\"\nkey.query = \"none\"\n";
    let check = |inner: &str, lines: &[u32]| {
        let text = text.replace("upstream = \"a\"", &format!("upstream = \"a\"\n{inner}"));
        let warnings = good(&text).warnings();
        let found: Vec<u32> =
            warnings.iter().filter_map(|text| text.split(':').nth(1)?.parse().ok()).collect();
        assert_eq!(found, lines, "{warnings:?}");
    };
    // That of `[defaults]` is said once.
    check("ttl = \"1s\"", &[4, 14]);
    check("ignore = [\"no-store\"]", &[8, 4, 14]);
    check("ttl = \"1s\"\nrefresh = { query = [\"a\"] }", &[4, 9, 15]);
}

#[test]
fn fields_for_everybody_are_warned_of() {
    let text = "[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n";
    for (allow, family) in [
        ("\"0.0.0.0/0\"", Some("IPv4")),
        ("\"10.0.0.0/8\", \"::/0\"", Some("IPv6")),
        ("\"0.0.0.0/1\", \"128.0.0.0/1\"", Some("IPv4")),
        ("\"::/1\"", Some("IPv6")),
        ("\"2000::/3\"", Some("IPv6")),
        ("\"10.0.0.0/8\", \"fd00::/8\", \"unix\"", None),
        ("\"0.0.0.0/1\"", None),
    ] {
        let warnings = good(&format!("{text}[debug]\nallow = [{allow}]\n")).warnings();
        let found: Vec<_> = warnings.iter().filter(|text| text.contains("Weir-Debug")).collect();
        assert_eq!(found.len(), usize::from(family.is_some()), "{allow}: {warnings:?}");
        if let Some(family) = family {
            assert_eq!(found[0].split(':').nth(1), Some("7"), "{allow}: {found:?}");
            assert!(found[0].contains(family), "{allow}: {found:?}");
        }
    }
}
