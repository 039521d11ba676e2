//! Mistakes of `limits` by site and route: heads beyond what `[limits]` reads at all.

use crate::{
    mistake::Mistake,
    model::Limits,
    tree::{Node, Value},
    value::Size,
};

/// Checks the rules of one layer against the limits of all requests.
pub(super) fn check(layer: &Node, all: &Limits, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(limits) = layer.get("limits") else { return };
    let head = limits.get("head").filter(|node| size(node).is_some_and(|head| head > all.head.0));
    let fields = limits.get("fields").filter(|node| number(node) > i64::from(all.fields));
    for (key, node, most) in
        [("head", head, all.head.to_string()), ("fields", fields, all.fields.to_string())]
    {
        let Some(node) = node else { continue };
        let title = format!("`{key}` is more than `[limits]` allows ({most})");
        let mistake = Mistake::at(node.span, title)
            .label("a head is read before its site is known")
            .help("raise it in `[limits]`, and bound the other sites by `[defaults.limits]`");
        mistakes.push(match tree.get("limits").and_then(|limits| limits.get(key)) {
            Some(given) => mistake.other(given.span, "nothing beyond this is read"),
            None => mistake,
        });
    }
}

fn size(node: &Node) -> Option<u64> {
    node.as_text()?.parse::<Size>().ok().map(|size| size.0)
}

fn number(node: &Node) -> i64 {
    match node.value {
        Value::Integer(number) => number,
        _ => 0,
    }
}
