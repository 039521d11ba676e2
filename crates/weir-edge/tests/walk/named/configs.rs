//! Random configs: which site has a host, and how its keys name URLs.

use std::fmt::Write;

use weir_testkit::Origin;

/// The hosts of the sites.
const SITES: [&[&str]; 6] = [
    &["\"a.test\", \"b.test\""],
    &["\"b.test\", \"a.test\""],
    &["\"a.test\"", "\"b.test\""],
    &["\"a.test\"", "\"*\""],
    &["\"*.test\""],
    &["\"*.test\"", "\"b.test\""],
];

const QUERIES: [&str; 8] = [
    "{ drop = [] }",
    "\"none\"",
    "{ keep = [] }",
    "{ sort = true }",
    "{ drop = [\"utm_*\"] }",
    "{ drop = [\"utm_*\"], sort = true }",
    "{ keep = [\"page\", \"id\"] }",
    "{ keep = [\"p*\"], sort = true }",
];

/// What `/docs/**` becomes.
const TARGETS: [&str; 9] = [
    "/{map.lang}/docs/{1}",
    "/{map.lang}/{map.place}/{1}?{query}",
    "/{header.X-Tenant | default 'none'}/docs/{1}",
    "/t/{cookie.shop}/{map.lang}/{1}",
    "/doc?lang={map.lang}&p={1}",
    "/doc?p={1}&{query}",
    "/all/{map.bypath}/{1}",
    "/m/{map.many}/{1}",
    "/one",
];

/// A config that has no mistakes.
pub(super) fn config(random: &mut fastrand::Rng, origin: &Origin) -> String {
    let mut text = format!(
        "[admin]\nlisten = \"{{admin}}\"\n[[listen]]\naddress = \"{{listen}}\"\n\
         [upstream.main]\norigins = [\"{}\"]\n\
         [map.lang]\nof = \"{{header.X-Lang}}\"\n\
         rules = [[\"en\", \"en\"], [\"~^d\", \"de\"]]\ndefault = \"en\"\n\
         [map.place]\nof = \"{{client.address}}\"\n\
         rules = [[\"192.0.2.0/24\", \"office\"]]\ndefault = \"home\"\n\
         [map.bypath]\nof = \"{{path}}\"\nrules = [[\"~/a$\", \"a\"]]\ndefault = \"other\"\n\
         [map.many]\nof = \"{{header.X-Lang}}\"\nrules = [{}]\ndefault = \"none\"\n",
        origin.url(),
        (0..70).map(|number| format!("[\"x{number}\", \"{number}\"], ")).collect::<String>()
            + "[\"en\", \"en\"]",
    );
    for hosts in SITES[random.usize(..SITES.len())] {
        let query = QUERIES[random.usize(..QUERIES.len())];
        let _ = writeln!(
            text,
            "[[site]]\nhosts = [{hosts}]\nupstream = \"main\"\n\
             purge = {{ allow = [\"127.0.0.1\"], local = true }}\n\
             key = {{ query = {query} }}"
        );
        if random.u8(..3) == 0 {
            text.push_str("[[site.route]]\nprefix = \"/old/\"\nredirect = \"/img/\"\n");
        }
        if random.bool() {
            let prefix = if random.bool() { "/img/" } else { "/docs/b" };
            let query = QUERIES[random.usize(..QUERIES.len())];
            let _ = writeln!(text, "[[site.route]]\nprefix = \"{prefix}\"\nkey = {{ query = {query} }}");
        }
        if random.u8(..4) > 0 {
            let to = TARGETS[random.usize(..TARGETS.len())];
            let regex = "{ regex = '^/docs/([a-z])/x$', to = \"/d/{map.lang}/{1}\" }, ";
            let first = if random.bool() { regex } else { "" };
            let _ = writeln!(
                text,
                "[[site.route]]\nprefix = \"/docs/\"\nkey = {{ path = \"rewritten\" }}\n\
                 rewrite = [{first}{{ from = \"/docs/**\", to = \"{to}\" }}]"
            );
        }
    }
    text
}
