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
