//! `pick`: what is refused, with the exact sentence, and what each form becomes.

use crate::model::{PickEntry, PickWord};
use crate::sample::{expect, good};
use crate::value::HashOf;

/// An upstream with this line, which is line 3, and a site with one more, which is line 7.
fn file(upstream: &str, site: &str) -> String {
    format!(
        "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n{upstream}\n\
         [[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n{site}\n"
    )
}

/// Expects this mistake in an upstream, and the same in a site; an empty sentence: none.
fn check(pick: &str, sentence: &str) {
    let line = format!("pick = {pick}");
    match sentence {
        "" => {
            good(&file(&line, ""));
            good(&file("", &line));
        }
        sentence => {
            expect(&file(&line, ""), &[(3, sentence)]);
            expect(&file("", &line), &[(7, sentence)]);
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    check("\"least_requests\"", "");
    check("[\"least_requests\", { hash = { of = \"uri\" } }]", "");
    check("{ hash = { of = \"cookie:sid\", bound = 2 } }", "");
    check("[\"client_address\", \"random\"]", "");
    check("\"least_request\"", "unknown value `least_request` for `pick`");
    check("[\"latencie\"]", "unknown value `latencie` for `pick`");
    check("[]", "`pick` is empty");
    check("3", "`pick` is of the wrong kind");
    check("\"hash\"", "a hash of nothing");
    check("[\"latency\", \"hash\"]", "a hash of nothing");
    check("{ hash = { bound = 1.25 } }", "`of` is missing in `hash`");
    check("{ hash = {} }", "`of` is missing in `hash`");
    check("{ hash = { of = \"uri\" }, has = 1 }", "unknown key `has` in `pick`");
    check("{ hash = { of = \"uri\", bound = 0.5 } }", "`bound` is out of bounds");
    check("{ hash = { of = \"uri\", bounds = 2 } }", "unknown key `bounds` in `hash`");
    check("[\"latency\", \"latency\"]", "\"latency\" appears twice in `pick`");
    check("[\"random\", \"latency\"]", "this pick is never asked");
}

#[test]
fn a_hash_is_of_a_part_that_has_a_name() {
    let all = "write `uri`, `path`, `host`, `header:NAME`, `cookie:NAME` or `query:NAME`";
    for (of, sentence) in [
        ("", format!("a hash of nothing: {all}")),
        ("cookie", "a hash of no cookie: write `cookie:NAME`".to_owned()),
        ("header:", "a hash of no header: write `header:NAME`".to_owned()),
        ("uri:x", "`uri` has no name: write `uri`".to_owned()),
        ("cooky:sid", "a hash of `cooky` is not known: did you mean `cookie:NAME`?".to_owned()),
        ("urk", "a hash of `urk` is not known: did you mean `uri`?".to_owned()),
        ("everything", format!("a hash of `everything` is not known: {all}")),
    ] {
        check(&format!("{{ hash = {{ of = \"{of}\" }} }}"), &sentence);
    }
    for of in ["uri", "path", "host", "header:X-User", "cookie:sid", "query:id"] {
        check(&format!("{{ hash = {{ of = \"{of}\" }} }}"), "");
    }
}

#[test]
fn a_route_takes_its_own_pick_and_else_its_sites() {
    let text = file(
        "pick = \"first\"",
        "pick = [\"latency\", { hash = { of = \"query:id\" } }]\n\
         [[site.route]]\nprefix = \"/a/\"\npick = \"random\"\n[[site.route]]\nprefix = \"/b/\"",
    );
    let loaded = good(&text);
    let picks: Vec<_> =
        loaded.resolved()[0].routes.iter().map(|route| route.pick.as_ref().unwrap().list()).collect();
    assert_eq!(picks[0], [PickEntry::Word(PickWord::Random)]);
    assert_eq!(picks[1], picks[2]);
    let [PickEntry::Word(PickWord::Latency), PickEntry::Hash(table)] = picks[1].as_slice() else {
        panic!("{picks:?}");
    };
    assert_eq!((table.hash.of.clone(), table.hash.bound), (HashOf::Query("id".to_owned()), 1.25));
    assert_eq!(loaded.config.upstream["app"].pick.list(), [PickEntry::Word(PickWord::First)]);
    assert_eq!(good(&file("", "")).resolved()[0].routes[0].pick, None);
}

/// A file with a written pick of these lines, which begin in line 8, and this `pick` in line 3.
fn with(written: &str, pick: &str) -> String {
    format!("{}[pick.calm]\n{written}\n", file(&format!("pick = {pick}"), ""))
}

#[test]
fn a_written_pick_says_how_it_decides() {
    for written in
        ["least = \"cpu\"", "least = { cpu = 0.7, load = 0.1 }\nfull = 2", "pack = \"cpu\"\nmark = 0.5"]
    {
        good(&with(written, "[\"calm\", \"two_choices\"]"));
    }
    for (written, line, sentence) in [
        ("", 8, "this pick does not say how it decides"),
        ("least = \"cpu\"\npack = \"cpu\"", 10, "`least` and `pack` exclude each other"),
        ("least = \"load\"", 9, "Weir does not know at which value of this metric an origin is full"),
        ("least = {}", 9, "`least` names no metric"),
        ("least = { cpu = 0 }", 9, "a factor is more than 0"),
        ("least = \"cpu\"\nmark = 0.5", 10, "`mark` has no use without `pack`"),
        ("least = \"cpu\"\nvalues = { A = 1 }", 10, "`values` has no use without `script`"),
    ] {
        let text = with(written, "\"calm\"");
        expect(&text, &[(line, sentence)]);
    }
}

#[test]
fn a_name_of_a_pick_is_one_that_is_written() {
    expect(&with("least = \"cpu\"", "\"clam\""), &[(3, "unknown value `clam` for `pick`")]);
    let text = with("least = \"cpu\"", "\"calm\"").replace("[pick.calm]", "[pick.latency]");
    expect(
        &text.replace("pick = \"calm\"", "pick = \"random\""),
        &[(8, "`latency` is a built-in pick, and cannot be the name of another")],
    );
}

#[test]
fn what_is_asked_stands_before_what_compares() {
    let script = "distributor = [\"udp://127.0.0.1:10010\"]";
    good(&with(script, "[\"calm\", \"two_choices\"]"));
    let sentence = "\"calm\" is asked before all other picks, and must stand before them";
    expect(&with(script, "[\"latency\", \"calm\"]"), &[(3, sentence)]);
}
