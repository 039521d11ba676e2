//! `[metrics.NAME]`: what is refused, with the exact sentence.

use crate::sample::{expect, good, load};

/// A source with these keys, from line 2 on, for an upstream of two origins.
fn file(keys: &str) -> String {
    format!(
        "[metrics.hosts]\n{keys}\n[upstream.app]\norigins = [{{ url = \"http://a:1\", id = \"a\" }}, \
         \"http://b\"]\nmetrics = [\"hosts\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n"
    )
}

#[test]
fn a_source_is_one_of_three() {
    good(
        &file("ganglia = [\"10.0.0.5\", \"monitor:8651\"]\nhosts = { web1 = \"http://a:1\", w2 = \"b\" }")
            .replace("\"http://b\"", "{ url = \"http://b\", id = \"b\" }"),
    );
    good(&file("url = \"http://{host}:9100/metrics\"\nvalues = { cpu = 'max(a{b=~\"c.*\"}) / 2' }"));
    good(&file("orca = true\nstale_after = \"2s\""));
    expect(&file("every = \"1s\""), &[(1, "this source says nothing of where its values are")]);
    expect(&file("orca = false"), &[(1, "this source says nothing of where its values are")]);
    expect(&file("orca = true\nurl = \"http://a/\""), &[(2, "a source has either `url` or `orca`")]);
    expect(
        &file("orca = true\nevery = \"1s\""),
        &[(3, "`every` means nothing with `orca`: values come with responses")],
    );
    expect(&file("url = \"http://a/\"\nhosts = { a = \"a\" }"), &[(3, "`hosts` is for `ganglia` alone")]);
    expect(&file("url = \"http://a/\"\nevery = \"99ms\""), &[(3, "`every` is at least 100ms")]);
    expect(
        &file("url = \"http://a/\"\nstale_after = \"4s\""),
        &[(3, "`stale_after` (4s) is shorter than the time between two reads (5s)")],
    );
    expect(&file("url = \"http://{hots}/\""), &[(2, "unknown part `{hots}`: did you mean `{host}`?")]);
}

#[test]
fn a_mistake_in_an_expression_has_its_place() {
    let text = file("url = \"http://a/\"\nvalues = { cpu = '1 - avg(load)' }");
    expect(&text, &[(3, "unknown function `avg`: did you mean `mean`?")]);
    let shown = load(&text).unwrap_err().to_string();
    assert!(shown.contains("weir.toml:3:23"), "{shown}");
    expect(
        &file("url = \"http://a/\"\nvalues = { \"c p u\" = 'a' }"),
        &[(3, "`c p u` is no name: 1 to 128 letters, digits and any of `_.:-/`")],
    );
}

#[test]
fn names_lead_somewhere() {
    expect(
        &file("url = \"http://a/\"").replace("[\"hosts\"]", "[\"host\", \"push\", \"hosts\", \"hosts\"]"),
        &[
            (5, "there is no source of metrics `host`"),
            (5, "there is no source of metrics `push`"),
            (5, "the source `hosts` stands twice"),
        ],
    );
    let shown = load(&file("url = \"http://a/\"").replace("[\"hosts\"]", "[\"host\"]")).unwrap_err();
    assert!(shown.to_string().contains("did you mean `hosts`?"), "{shown}");
    expect(
        &file("ganglia = [\"m\"]\nhosts = { web = \"http://c\" }"),
        &[(3, "no upstream with the source `hosts` has the origin `http://c`")],
    );
    expect(
        "[metrics.push]\norca = true\n",
        &[(1, "`push` is the source of what operators push: choose another name")],
    );
}

#[test]
fn a_source_without_an_upstream_is_pointed_out() {
    let warnings = good(&file("orca = true").replace("metrics = [\"hosts\"]", "")).warnings();
    assert!(
        warnings.iter().any(|said| said.contains("no upstream names the source `hosts`")),
        "{warnings:?}"
    );
    assert_eq!(good(&file("orca = true")).warnings(), [""; 0]);
}
