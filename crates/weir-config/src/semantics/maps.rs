//! Mistakes of maps: rules that are no pairs, patterns that are wrong or stand twice, results that no field
//! may have.

use crate::{
    check::suggest,
    maps::{chosen, no_map, results},
    mistake::Mistake,
    model::Config,
    source::Span,
    tree::{Node, Value},
    upstreams::Upstreams,
    value::{
        ByteRate, MapMatch, MapOf, MapValue, RateLimit, UpstreamRule, check_map_result, check_pattern,
        covering::Earlier, text::faults_of_map_result,
    },
};
use std::collections::HashMap;
use weir_policy::MapTrigger;
use weir_policy::value::What;

/// Checks what maps decide in the rules of one layer.
pub(super) fn layer(layer: &Node, config: &Config, known: &Upstreams, mistakes: &mut Vec<Mistake>) {
    conditions(layer, config, mistakes);
    if let Some(node) = layer.get("upstream")
        && let Some(Ok(UpstreamRule::Chosen(by))) = node.as_text().map(str::parse)
    {
        upstreams(&by, (node, config), known, mistakes);
    }
    let rate = layer.get("rate");
    if let Some(node) = rate.map(|rate| rate.get("limit").unwrap_or(rate))
        && let Some(Ok(RateLimit::Chosen(by))) = node.as_text().map(str::parse)
    {
        rates(&by, node, config, mistakes);
    }
}

/// Each result of a map that chooses an upstream must be one.
fn upstreams(
    by: &MapValue,
    (node, config): (&Node, &Config),
    known: &Upstreams,
    mistakes: &mut Vec<Mistake>,
) {
    let map = by.map();
    if !config.map.contains_key(map) {
        mistakes.push(no_map(node.span, map, config));
        return;
    }
    let names = || known.names.iter().map(String::as_str);
    for (result, name) in chosen(by, config) {
        if known.names.contains(&name) || (!known.is_complete && result.is_some()) {
            continue;
        }
        mistakes.push(match result {
            Some(result) => {
                let title = format!("the map `{map}` says `{result}`, and there is no upstream `{name}`");
                suggest(Mistake::at(node.span, title), &name, names())
            }
            None => {
                Mistake::at(node.span, format!("the map `{map}` has no `default`, and chooses an upstream"))
            }
        });
    }
}

/// Each result of a map that chooses a rate must be one. Where it says nothing, nothing is held back.
fn rates(by: &MapValue, node: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    let map = by.map();
    if !config.map.contains_key(map) {
        mistakes.push(no_map(node.span, map, config));
    }
    for (result, rate) in chosen(by, config) {
        let (Some(result), Err(why)) = (result, rate.parse::<ByteRate>()) else { continue };
        mistakes.push(Mistake::at(
            node.span,
            format!("the map `{map}` says `{result}`, which is no rate: {why}"),
        ));
    }
}

/// Checks the conditions on maps: each map is there, and gives what is asked for.
fn conditions(layer: &Node, config: &Config, mistakes: &mut Vec<Mistake>) {
    let lists = ["bypass", "refresh", "no_store"].map(|key| layer.get(key));
    for node in lists.iter().flatten().flat_map(|conditions| conditions.list_of("map")) {
        let Some(asked) = node.as_text().and_then(|text| text.parse::<MapMatch>().ok()) else { continue };
        let Some(map) = config.map.get(&asked.name) else {
            mistakes.push(no_map(node.span, &asked.name, config));
            continue;
        };
        let trigger = MapTrigger { name: asked.name, result: asked.result };
        let results = results(map);
        if map.has_mistakes() || results.iter().any(|result| trigger.fits(Some(result.as_bytes()))) {
            continue;
        }
        let title = format!("this condition never holds: the map `{}` never gives that", trigger.name);
        let word = trigger.result.as_deref().unwrap_or_default();
        mistakes.push(suggest(Mistake::at(node.span, title), word, results.iter().copied()));
    }
}

/// Checks the maps that the log names.
pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let line = config.log.format.as_ref().map(|line| &line.0);
    for placeholder in line.iter().flat_map(|line| line.placeholders()) {
        if let (What::Map(name), Some(node)) =
            (&placeholder.what, tree.get("log").and_then(|log| log.get("format")))
            && !config.map.contains_key(name)
        {
            mistakes.push(no_map(node.span, name, config));
        }
    }
}

/// Checks the rules of all maps, also of those that have mistakes elsewhere.
pub(crate) fn rules(tree: &Node, mistakes: &mut Vec<Mistake>) {
    let maps = tree.get("map").and_then(Node::as_table);
    for node in maps.iter().flat_map(|maps| &maps.entries).map(|entry| &entry.node) {
        let of: Option<MapOf> = node.get("of").and_then(Node::as_text).and_then(|text| text.parse().ok());
        let mut known = HashMap::new();
        let mut earlier: Earlier<Span> = Earlier::default();
        for rule in node.list_of("rules") {
            let Value::List(pair) = &rule.value else { continue };
            let [pattern, result] = pair.as_slice() else {
                let mistake = Mistake::at(rule.span, "a rule is a pattern and what it gives");
                mistakes.push(mistake.help("for example: [\"~*mobile\", \"phone\"]"));
                continue;
            };
            let (Some(text), Some(gives)) = (pattern.as_text(), result.as_text()) else { continue };
            if text == "default" {
                let title = "`default` is a whole text in a rule, and not what the others get";
                let help =
                    format!("write `default = \"{gives}\"` beside `rules`; the text itself is `~^default$`");
                mistakes.push(Mistake::at(pattern.span, title).help(help));
            }
            let of = of.as_ref();
            let fault = check_pattern(text, of).err();
            // What is wrong takes nothing, and nothing takes it.
            let of = of.filter(|_| fault.is_none());
            mistakes.extend(fault.map(|reason| Mistake::at(pattern.span, reason)));
            gives_text(result, mistakes);
            if let Some(first) = known.insert(text.to_owned(), pattern.span) {
                let mistake = Mistake::at(pattern.span, format!("the pattern `{text}` stands twice"));
                mistakes.push(mistake.label("here again").other(first, "first here"));
            } else if let Some(of) = of
                && let Some(first) = earlier.covering(of, text)
            {
                let mistake = Mistake::at(pattern.span, "this rule is never reached");
                let mistake = mistake.label("an earlier one takes all of its texts");
                mistakes.push(mistake.other(*first, "this one"));
            }
            if let Some(of) = of {
                earlier.add(of, text, pattern.span);
            }
        }
        node.get("default").into_iter().for_each(|default| gives_text(default, mistakes));
    }
}

/// Checks what a map gives.
fn gives_text(node: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(text) = node.as_text() else { return };
    if let Err(reason) = check_map_result(text) {
        mistakes.push(Mistake::at(node.span, reason));
    }
    for fault in faults_of_map_result(text) {
        mistakes.push(Mistake::at(node.span, fault.sentence).part(text, fault.place));
    }
}
