//! Who is warned that a GET is fetched for all.

use crate::sample::good;

const TWO: &str = "origins = [{ url = \"http://a\", id = \"a\" }, { url = \"http://b\", id = \"b\" }]\n";
const SUFFIX: &str = "affinity = { by = \"suffix\", cookie = \"JSESSIONID\" }";

/// What is warned of with these lines of the upstream and of the site.
fn warned(upstream: &str, site: &str) -> Vec<String> {
    let text =
        format!("[upstream.app]\n{TWO}{upstream}\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n{site}\n");
    good(&text).warnings().into_iter().filter(|text| text.contains("fetched for all")).collect()
}

#[test]
fn sessions_without_a_bypass_are_warned_of() {
    let found = warned(SUFFIX, "");
    assert!(found.len() == 1 && found[0].starts_with("weir.toml:3: the upstream app: a GET"), "{found:?}");
    for site in [
        "bypass = { cookies = [\"JSESSIONID\"] }",
        "bypass = { headers = [\"Authorization\"] }",
        "bypass = { paths = [\"/**\"] }",
        // One route tells them: the others are for files.
        "[[site.route]]\nprefix = \"/a/\"\n[[site.route]]\nbypass = { cookies = [\"JSESSIONID\"] }",
    ] {
        assert_eq!(warned(SUFFIX, site), [""; 0], "{site}");
    }
    // What only passes has its client.
    let posts = format!(
        "[upstream.app]\n{TWO}{SUFFIX}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
         method = [\"POST\"]\nupstream = \"app\"\n[[site.route]]\nanswer = {{}}\n"
    );
    assert!(!good(&posts).warnings().iter().any(|text| text.contains("fetched for all")));
    assert_eq!(warned(SUFFIX, "bypass = { methods = [\"POST\"] }").len(), 1);
    for decided in ["bypass = true", "bypass = false"] {
        let upstream = format!("affinity = {{ by = \"suffix\", cookie = \"JSESSIONID\", {decided} }}");
        assert_eq!(warned(&upstream, ""), [""; 0], "{decided}");
    }
    assert_eq!(warned("affinity = { by = \"hash\", of = \"cookie:sid\" }", ""), [""; 0]);
}

#[test]
fn picks_by_the_client_are_warned_of() {
    for pick in
        ["\"client_address\"", "[\"client_address\", \"latency\"]", "{ hash = { of = \"cookie:sid\" } }"]
    {
        let found = warned(&format!("pick = {pick}"), "");
        let is_good = found.len() == 1 && found[0].starts_with("weir.toml:3: the upstream app: `pick`");
        assert!(is_good, "{pick}: {found:?}");
        assert_eq!(warned(&format!("pick = {pick}"), "bypass = { paths = [\"/**\"] }"), [""; 0]);
        assert_eq!(warned(&format!("pick = {pick}"), "pick = \"random\""), [""; 0]);
    }
    for pick in ["\"latency\"", "[\"latency\", \"client_address\"]", "{ hash = { of = \"uri\" } }"] {
        assert_eq!(warned(&format!("pick = {pick}"), ""), [""; 0], "{pick}");
    }
}
