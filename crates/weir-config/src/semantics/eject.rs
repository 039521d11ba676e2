//! Mistakes of `eject` and `slow_start`: limits that contradict each other or have no effect.

use crate::{
    mistake::Mistake,
    model::{Eject, Upstream},
    tree::{Node, Table},
};

/// Checks when the origins of one upstream are left out, and how they return.
pub(super) fn check(upstream: &Upstream, node: &Node, mistakes: &mut Vec<Mistake>) {
    if let Some(start) = node.as_table().and_then(|node| node.entry("slow_start"))
        && upstream.slow_start.is_some_and(|time| time.0.is_zero())
    {
        let mistake = Mistake::at(start.node.span, "`slow_start` is zero: origins return at once without it");
        mistakes.push(mistake.help("leave `slow_start` out"));
    }
    let rules = &upstream.eject;
    let Some(table) = node.get("eject").and_then(Node::as_table).filter(|table| !table.is_damaged) else {
        return;
    };
    if let Some(time_max) = table.get("time_max").filter(|_| rules.time_max < rules.time) {
        mistakes.push(Mistake::at(time_max.span, format!("`time_max` is less than `time` ({})", rules.time)));
    }
    // A share counts them as well.
    if let (Some(status), Some(failures)) = (table.entry("status"), table.entry("failures"))
        && rules.failures == 0
        && rules.share.is_none()
    {
        let mistake = Mistake::at(status.key_span, "`status` has no use: `failures = 0` counts none");
        mistakes.push(mistake.other(failures.node.span, "write 1 or more"));
    }
    together(rules, table, mistakes);
}

/// `share`, `least` and `slow`.
fn together(rules: &Eject, table: &Table, mistakes: &mut Vec<Mistake>) {
    if let Some(least) = table.entry("least").filter(|_| rules.share.is_none() && rules.slow.is_none()) {
        let mistake = Mistake::at(least.key_span, "`least` has no use without `share` or `slow`");
        mistakes.push(mistake.help("the share of failures that leaves an origin out: share = \"50%\""));
    }
    for key in ["share", "slow"] {
        if let Some(entry) = table.entry(key).filter(|_| rules.within.0.is_zero()) {
            let mistake = Mistake::at(entry.key_span, format!("`{key}` has no effect: `within` is zero"));
            mistakes.push(mistake);
        }
    }
}
