//! Spellings of a parameter.

use http::{HeaderMap, Method};

use super::*;
use crate::tests::given::request;

fn rules() -> KeyRules {
    let mut rules = KeyRules { query: QueryRule::Unkeyed(Vec::new()), ..KeyRules::default() };
    rules.sources.parameters = vec!["v".to_owned()];
    rules
}

#[test]
fn a_spelling_that_the_key_does_not_have_is_ambiguous() {
    let headers = HeaderMap::new();
    for (target, expect) in [
        ("/q", false),
        ("/q?v=1", false),
        ("/q?v=1&v=2", false),
        ("/q?w=1&vv=2", false),
        ("/q?%76=1", true),
        ("/q?v=1&%76=2", true),
        ("/q?v[]=2", true),
        ("/q?V=2", true),
        ("/q?a=1;v=3", true),
        ("/q?v=1;a=3", true),
        ("/q?+v=3", true),
    ] {
        assert_eq!(is_ambiguous(&request(&Method::GET, target, &headers), &rules()), expect, "{target}");
        let whole = KeyRules { query: QueryRule::All, ..rules() };
        assert!(!is_ambiguous(&request(&Method::GET, target, &headers), &whole), "{target}");
    }
}

#[test]
fn no_spelling_evades_a_condition() {
    let headers = HeaderMap::new();
    let triggers = [PairTrigger { name: "preview".to_owned(), value: None }];
    for (target, expect) in [
        ("/?preview", true),
        ("/?%70review=1", true),
        ("/?a;preview=1", true),
        ("/?preview[]=1", true),
        ("/?preview%5B%5D=1", true),
        ("/?previews", false),
        ("/?", false),
    ] {
        assert_eq!(holds(&request(&Method::GET, target, &headers), &triggers), expect, "{target}");
    }
}
