//! How the paths and queries of keys begin where only the beginning of what clients ask for is known. Pure.

use super::{is_kept, name_of};
use crate::rules::{KeyRules, QueryOrder, QueryRule};

/// A path and query as keys have it, or how it begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Beginning {
    /// All of it.
    Whole(String),
    /// What it begins with.
    Open(String),
}

/// What stands in keys for queries that begin in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginnings {
    /// Together they are all of them.
    pub all: Vec<Beginning>,
    /// Whether they are also of queries that begin otherwise.
    pub is_wider: bool,
}

/// What becomes of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Dropped,
    Either,
}

/// Paths and queries as [`forwarded`](super::forwarded) leaves them, for all queries of `path` that begin
/// with `query`.
pub fn beginnings(rules: &KeyRules, path: &str, query: &str) -> Beginnings {
    let whole = |text: &str| Beginning::Whole(text.to_owned());
    let all_of = |text: &str, mark: char| vec![whole(text), Beginning::Open(format!("{text}{mark}"))];
    if rules.query == QueryRule::None {
        return Beginnings { all: vec![whole(path)], is_wider: false };
    }
    if rules.order == QueryOrder::Sorted {
        // Any parameter may come to stand before those that are known.
        return Beginnings { all: all_of(path, '?'), is_wider: !query.is_empty() };
    }
    let (known, last) = query.rsplit_once('&').map_or((None, query), |(known, last)| (Some(known), last));
    let mut text = path.to_owned();
    let mut mark = '?';
    for parameter in known.into_iter().flat_map(|known| known.split('&')) {
        if is_kept(&rules.query, parameter) {
            text.push(mark);
            text.push_str(parameter);
            mark = '&';
        }
    }
    let all = match fate(&rules.query, last) {
        Fate::Kept => vec![Beginning::Open(format!("{text}{mark}{last}"))],
        Fate::Dropped | Fate::Either => all_of(&text, mark),
    };
    Beginnings { all, is_wider: false }
}

/// What becomes of a parameter that begins so.
fn fate(rule: &QueryRule, begin: &str) -> Fate {
    if begin.contains('=') {
        return if is_kept(rule, begin) { Fate::Kept } else { Fate::Dropped };
    }
    let begin = name_of(begin);
    let head = |pattern: &String| pattern.find('*').unwrap_or(pattern.len());
    let may_fit = |pattern: &String| {
        let head = &pattern[..head(pattern)];
        head.starts_with(begin) || (begin.starts_with(head) && head.len() < pattern.len())
    };
    let always_fits = |pattern: &String| {
        let (head, rest) = pattern.split_at(head(pattern));
        rest == "*" && begin.starts_with(head)
    };
    let (patterns, fitting, other) = match rule {
        QueryRule::All => return Fate::Kept,
        QueryRule::None => return Fate::Dropped,
        QueryRule::Keep(patterns) => (patterns, Fate::Kept, Fate::Dropped),
        QueryRule::Drop(patterns) | QueryRule::Unkeyed(patterns) => (patterns, Fate::Dropped, Fate::Kept),
    };
    match () {
        () if patterns.iter().any(always_fits) => fitting,
        () if patterns.iter().any(may_fit) => Fate::Either,
        () => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::forwarded;
    use super::*;

    fn rules(query: QueryRule, order: QueryOrder) -> KeyRules {
        KeyRules { query, order, ..KeyRules::default() }
    }

    fn any_rules() -> impl Strategy<Value = KeyRules> {
        let patterns = || proptest::collection::vec("[ab]{0,2}\\*?", 0..3);
        let query = prop_oneof![
            Just(QueryRule::All),
            Just(QueryRule::None),
            patterns().prop_map(QueryRule::Keep),
            patterns().prop_map(QueryRule::Drop),
            patterns().prop_map(QueryRule::Unkeyed),
        ];
        let order = prop_oneof![Just(QueryOrder::Received), Just(QueryOrder::Sorted)];
        (query, order).prop_map(|(query, order)| rules(query, order))
    }

    fn has(all: &[Beginning], text: &str) -> bool {
        all.iter().any(|one| match one {
            Beginning::Whole(whole) => text == whole,
            Beginning::Open(begin) => text.starts_with(begin.as_str()),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        /// No query that begins so is missed.
        #[test]
        fn they_are_all(rules in any_rules(), begin in "[ab=&]{0,5}", rest in "[ab=&]{0,5}") {
            let found = beginnings(&rules, "/p", &begin);
            let key = forwarded(&rules, &format!("/p?{begin}{rest}")).into_owned();
            prop_assert!(has(&found.all, &key), "{begin} {rest}: {key} is none of {found:?}");
        }
    }

    #[test]
    fn by_example() {
        let drop = || QueryRule::Drop(vec!["utm_*".to_owned()]);
        let (whole, open) =
            (|text: &str| Beginning::Whole(text.to_owned()), |text: &str| Beginning::Open(text.to_owned()));
        for (query, order, begin, expect, is_wider) in [
            (QueryRule::All, QueryOrder::Received, "page=2", vec![open("/list?page=2")], false),
            (drop(), QueryOrder::Received, "page=2", vec![open("/list?page=2")], false),
            (drop(), QueryOrder::Received, "utm_a=1&page=2", vec![open("/list?page=2")], false),
            (drop(), QueryOrder::Received, "a&utm_", vec![whole("/list?a"), open("/list?a&")], false),
            (drop(), QueryOrder::Received, "u", vec![whole("/list"), open("/list?")], false),
            (QueryRule::None, QueryOrder::Received, "page=2", vec![whole("/list")], false),
            (QueryRule::All, QueryOrder::Sorted, "page=2", vec![whole("/list"), open("/list?")], true),
            (QueryRule::All, QueryOrder::Sorted, "", vec![whole("/list"), open("/list?")], false),
        ] {
            let found = beginnings(&rules(query, order), "/list", begin);
            assert_eq!(found, Beginnings { all: expect, is_wider }, "{begin}");
        }
    }
}
