//! `[[warm]]`: what is refused, with the exact sentence.

use crate::sample::{expect, good};

/// An entry with these keys, from line 2 on.
fn file(keys: &str) -> String {
    format!(
        "[[warm]]\n{keys}\n[upstream.app]\norigins = [\"http://a:1\"]\n[[site]]\nhosts = [\"*\"]\n\
         upstream = \"app\"\n"
    )
}

#[test]
fn an_entry_names_something_to_warm() {
    good(&file("urls = [\"http://a.test/\", \"HTTPS://a.test/x?y\"]\nparallel = 64\nrate = 100000"));
    good(&file("sitemaps = [\"http://a.test/s\"]\nevery = \"1s\"\nheaders = { Accept = \"*/*\" }"));
    good(&file("folder = \"/srv\"\nas = \"http://a.test/\""));
    expect(&file("rate = 5"), &[(1, "this entry names nothing to warm")]);
    expect(&file("folder = \"/srv\""), &[(2, "`folder` needs the URL that its files have")]);
    expect(&file("list = \"/x\"\nas = \"http://a.test/\""), &[(3, "`as` is the URL of a `folder`")]);
    for url in ["a.test/x", "ftp://a.test/", "http://a.test/ x"] {
        let title = format!("`{url}` is no URL of http or https");
        expect(&file(&format!("urls = [\"{url}\"]")), &[(2, &title)]);
        expect(&file(&format!("sitemaps = [\"{url}\"]")), &[(2, &title)]);
    }
    let text = file("folder = \"/srv\"\nas = \"http://a.test/?x\"");
    expect(&text, &[(3, "`http://a.test/?x` is no URL of a folder")]);
    for (key, title) in [
        ("parallel = 0", "`parallel` is 1 to 64"),
        ("parallel = 65", "`parallel` is 1 to 64"),
        ("rate = 100001", "`rate` is 1 to 100000 URLs a second"),
        ("every = \"999ms\"", "`every` is at least 1s"),
    ] {
        expect(&file(&format!("list = \"/x\"\n{key}")), &[(3, title)]);
    }
}

#[test]
fn what_a_warming_cannot_send_is_refused() {
    let headers = "headers = { Accept = \"*/*\", Range = \"bytes=0-1\" }";
    let text = file(&format!("urls = [\"http://a.test/\"]\n{headers}"));
    expect(&text, &[(3, "a warming cannot send Range")]);
}

#[test]
fn a_url_of_no_site_is_warned_of() {
    let of_hosts = |hosts: &str| {
        let urls = "urls = [\"http://a.test:8080/x\", \"https://www.b.test/\", \"http://c.test/\"]";
        let text = file(urls).replace("hosts = [\"*\"]", &format!("hosts = [{hosts}]"));
        good(&text)
            .warnings()
            .into_iter()
            .filter(|text| text.contains("cannot be warmed"))
            .collect::<Vec<_>>()
    };
    assert!(of_hosts("\"*\"").is_empty());
    let warned = of_hosts("\"a.test\", \"*.b.test\"");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains(":2:") && warned[0].contains("no site has the host c.test"), "{warned:?}");
}
