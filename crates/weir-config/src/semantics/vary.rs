//! Mistakes of `vary`: fields that cannot be ignored, since one client would get what is for another, or what
//! it cannot read.

use crate::{mistake::Mistake, tree::Node};

/// Checks the rules of one layer.
pub(super) fn check(layer: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(vary) = layer.get("vary") else { return };
    for node in vary.list_of("ignore") {
        let name = node.as_text().unwrap_or_default().to_ascii_lowercase();
        let (why, help) = match name.as_str() {
            "cookie" => (
                "one visitor would get another\'s page",
                "take out the cookies that the origin does not read: cookies = { drop = [\"_ga*\"] }",
            ),
            "authorization" | "proxy-authorization" => (
                "clients without the right to it would get it",
                "let such requests go past the cache: bypass = { headers = [\"Authorization\"] }",
            ),
            "accept-encoding" => (
                "a client would get a coding that it cannot read",
                "nothing is needed: Weir keeps one copy for all clients that take the same coding",
            ),
            "*" => ("it says that no request shows what it varies on", "`*` cannot be ignored"),
            _ => continue,
        };
        let title = format!("`Vary: {name}` cannot be ignored");
        mistakes.push(Mistake::at(node.span, title).label(why).help(help));
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::{expect, good};

    fn site(inner: &str) -> String {
        format!(
            "[upstream.a]\norigins = [\"http://a\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n{inner}"
        )
    }

    #[test]
    fn what_would_reach_another_client_cannot_be_ignored() {
        for name in ["cookie", "authorization", "accept-encoding", "*"] {
            let text = site(&format!("vary = {{ ignore = [\"X-A\", \"{}\"] }}", name.to_uppercase()));
            expect(&text, &[(6, &format!("`Vary: {name}` cannot be ignored"))]);
        }
        expect(&site("vary = { ignroe = [\"X-A\"] }"), &[(6, "unknown key `ignroe` in `vary`")]);
    }

    #[test]
    fn what_one_client_decides_for_all_is_warned_of() {
        let warnings = |inner: &str| good(&site(inner)).warnings();
        for (inner, word) in [
            ("vary = { ignore = [\"User-Agent\"] }", "the first client decides"),
            ("vary = { ignore = [\"Origin\"] }", "any site can cause that"),
            ("key = { query = \"none\" }", "`key.query = \"none\"`"),
            ("refresh = { headers = [\"X-Refresh\"] }", "`refresh` holds for any client"),
        ] {
            let found = warnings(inner);
            assert_eq!(found.iter().filter(|text| text.contains(word)).count(), 1, "{inner}: {found:?}");
        }
        for inner in ["refresh = { clients = [\"10.0.0.0/8\"] }", "no_store = { query = [\"a\"] }", ""] {
            assert_eq!(warnings(inner).len(), 0, "{inner}");
        }
    }

    #[test]
    fn conditions_and_lists_are_checked() {
        for (inner, sentence) in [
            ("key = { query = \"nothing\" }", "unknown value `nothing` for `query`"),
            ("bypass = { query = [\"a&b\"] }", "'&' is not allowed in a name; `*` is any text"),
            ("bypass = { cookies = [\"a=b;c\"] }", "';' is not allowed in a value; `*` is any text"),
            ("no_store = { cookeis = [\"a\"] }", "unknown key `cookeis` in `no_store`"),
            ("bypass = { methods = [\"get\"] }", "methods are case-sensitive: did you mean `GET`?"),
            ("cookies = { keep = [] }\nno_store = { cookies = [\"a=1\"] }", ""),
        ] {
            let (line, sentence) = match sentence {
                "" => (7, "`no_store` names the cookie `a`, which `cookies` takes out"),
                sentence => (6, sentence),
            };
            expect(&site(inner), &[(line, sentence)]);
        }
        good(&site("allow = [\"192.0.2.0/24\", \"unix\"]\ndeny = [\"192.0.2.9\"]"));
    }
}
