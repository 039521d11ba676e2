//! Which redirects lead to themselves.

use crate::sample::good;

#[test]
fn a_redirect_to_itself_is_warned_of() {
    let check = |route: &str, expected: &[&str]| {
        let text = format!(
            "[[site]]\nhosts = [\"www.example.com\", \"localhost\"]\n[[site.route]]\nprefix = \"/x/\"\n\
             answer = {{}}\n\
             [[site.route]]\n{route}"
        );
        assert_eq!(good(&text).warnings(), expected, "{route}");
    };
    let https =
        "in a circle; give the route `scheme = \"http\"`, or, in its place, the site `https = \"redirect\"`";
    let at = |line: u32, url: &str| {
        format!(
            "weir.toml:{line}: the site www.example.com: `redirect` leads {url} back to this route, {https}"
        )
    };
    check("redirect = \"https://{hostname}{uri}\"", &[&at(7, "https://www.example.com/a")]);
    check(
        "path = \"/old/**\"\nredirect = \"https://www.example.com{uri}\"",
        &[&at(8, "https://www.example.com/old/a")],
    );
    check(
        "regex = '^/b'\nredirect = \"https://{host}{path}?{query}\"",
        &[&at(8, "https://www.example.com/a")],
    );
    let always = "weir.toml:8: the site www.example.com: `redirect` leads https://www.example.com/a/a \
                  back to this route, in a circle";
    check("path = \"/a/**\"\nredirect = \"/a/b/{1}\"", &[always]);
    for fine in [
        "hosts = [\"localhost\"]\nredirect = \"https://www.example.com{uri}\"",
        "port = 8080\nredirect = \"https://{hostname}{uri}\"",
        "scheme = \"http\"\nredirect = \"https://{hostname}{uri}\"",
        "path = \"/old/**\"\nredirect = \"https://www.example.com/new/{1}\"",
        "path = \"/old/**\"\nredirect = \"/x/{1}\"",
        "redirect = \"https://example.com{uri}\"",
        "redirect = \"https://{hostname}:8443{uri}\"",
        "regex = '^/(a)'\nredirect = \"/b/{1}\"",
    ] {
        check(fine, &[]);
    }
}
