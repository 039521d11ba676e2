//! The words of others: each is unknown in its place, and what stands in its place is known there.

use super::*;
use crate::sample::{load, sentences};

/// An upstream with these lines.
fn file(origin: &str, more: &str) -> String {
    let origins = if origin.is_empty() { "\"http://a\"" } else { origin };
    format!("[upstream.app]\norigins = [{origins}]\n{more}\n[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n")
}

/// The place of a row as keys.
fn held(place: &str, inner: &str) -> String {
    match place {
        "" => file("", inner),
        "origins" => file(&format!("{{ url = \"http://a\", {inner} }}"), ""),
        "affinity" => file("", &format!("affinity = {{ by = \"hash\", of = \"cookie:a\", {inner} }}")),
        "agent" => file("", &format!("agent = {{ port = 1, {inner} }}")),
        place => file("", &format!("{place} = {{ {inner} }}")),
    }
}

fn complains(text: &str) -> bool {
    let is_of_model = |sentence: &str| {
        sentence.starts_with("unknown")
            || sentence.contains("wrong kind")
            || sentence.contains("appears twice")
            || sentence.contains("is missing")
    };
    sentences(text).iter().any(|(_, sentence)| is_of_model(sentence))
}

#[test]
fn each_key_is_unknown_and_its_help_is_known() {
    for (words, place, write, more) in KEYS {
        assert!(!write.is_empty() || !more.is_empty(), "{words:?}");
        for word in *words {
            let text = held(place, &format!("{word} = 1"));
            let shown = load(&text).unwrap_err().to_string();
            assert!(shown.contains(&format!("unknown key `{word}`")), "{word} in `{place}`: {shown}");
            let help = if write.is_empty() { (*more).to_owned() } else { format!("write `{write}`") };
            assert!(shown.contains(&help), "{word} in `{place}`: {shown}");
            let dashed = held(place, &format!("{} = 1", word.replace('_', "-")));
            assert!(load(&dashed).unwrap_err().to_string().contains(&help), "{dashed}");
        }
        let is_origin = write.starts_with('{');
        let in_place = match (is_origin, write.contains(" = {"), *place) {
            (true, ..) => file(write, ""),
            (false, false, "affinity") => {
                file("", &format!("affinity = {{ by = \"own\", key_file = \"k\", {write} }}"))
            }
            _ => file("", write),
        };
        assert!(!complains(&in_place), "{in_place}: {:?}", sentences(&in_place));
    }
}

#[test]
fn each_value_is_unknown_and_its_help_is_known() {
    for (words, key, write, more) in VALUES {
        let held = |word: &str| match *key {
            "on" => file("", &format!("retry = {{ on = [\"{word}\"] }}")),
            "by" => file("", &format!("affinity = {{ by = \"{word}\" }}")),
            key => file("", &format!("{key} = \"{word}\"")),
        };
        for word in *words {
            let shown = load(&held(word)).unwrap_err().to_string();
            assert!(shown.contains(&format!("unknown value `{word}` for `{key}`")), "{shown}");
            let help = if write.is_empty() { (*more).to_owned() } else { format!("write `\"{write}\"`") };
            assert!(shown.contains(&help), "{word}: {shown}");
        }
        assert!(write.is_empty() || !complains(&held(write)), "{write}");
    }
}

#[test]
fn words_stand_for_what_their_place_says() {
    let check = |text: &str, help: &str| {
        let shown = load(text).unwrap_err().to_string();
        assert!(shown.contains(help), "{help}: {shown}");
    };
    check(&held("origins", "cookie = \"a\""), "`id` is the origin's name in sessions");
    check(&held("", "cookie = \"a\""), "docs/guide/sessions.md has the other ways");
    check(&held("agent", "inter = 2000"), "write `agent = { port = 9707, every = \"2s\" }`");
    check(&held("", "pick = \"hdr(host)\""), "write `pick = { hash = { of = \"header:NAME\" } }`");
    check(&held("", "check = \"/up\""), "write `check = { path = \"/up\" }`");
    let outside = "[limits]\nmaxconn = 1\n[[site]]\nhosts = [\"*\"]\nanswer = {}";
    check(outside, "`connections` of `[limits]`");
    check("[admin]\naddress = \"127.0.0.1:1\"", "write `listen = \"127.0.0.1:9180\"`");
    check(&held("", "check = { every = 2000 }"), "did you mean `\"2000ms\"` or `\"2000s\"`?");
    check(&held("", "check = { every = 2 }"), "did you mean `\"2s\"`?");
    check(&held("", "check = { status = 200 }"), "did you mean `\"200\"`?");
    check(&held("", "eject = { status = 503 }"), "did you mean `\"503\"`?");
    check(&held("", "check = { host = \"http://a:81/x\" }"), "did you mean `a:81`?");
    check(&held("origins", "weight = 0"), "weir origins drain");
}
