//! Mistakes of `check` and `agent`: times that contradict each other, and what cannot be asked.

use crate::{
    mistake::Mistake,
    model::{CheckMethod, CheckRule, Upstream},
    tree::Node,
    value::{Duration, OriginScheme},
};

/// The shortest time between two checks.
const EVERY_MIN: Duration = Duration(std::time::Duration::from_millis(100));

/// Checks the active checks and the agent of one upstream.
pub(super) fn check(upstream: &Upstream, node: &Node, mistakes: &mut Vec<Mistake>) {
    if let (Some(rule @ CheckRule::Table(_)), Some(node)) = (&upstream.check, node.get("check")) {
        let (check, _) = rule.table();
        too_often(check.every, node, mistakes);
        let times = node.get("timeout").or(node.get("every"));
        if let Some(time) = times.filter(|_| check.timeout > check.every) {
            let title = format!("`timeout` ({}) is longer than `every` ({})", check.timeout, check.every);
            let mistake = Mistake::at(time.span, title);
            mistakes.push(mistake.help("a check ends before the next one of the same origin"));
        }
        if let Some(timeout) = node.get("timeout").filter(|_| check.timeout.0.is_zero()) {
            mistakes.push(Mistake::at(timeout.span, "`timeout` is zero: no check would ever pass"));
        }
        if let Some(body) = node.get("body").filter(|_| check.method == CheckMethod::Head) {
            mistakes.push(
                Mistake::at(body.span, "a response to HEAD has no `body`").help("use `method = \"GET\"`"),
            );
        }
        if let Some(body) = node.get("body").filter(|_| check.body.as_ref().is_some_and(String::is_empty)) {
            mistakes
                .push(Mistake::at(body.span, "every body contains an empty text").help("leave `body` out"));
        }
    }
    if let (Some(agent), Some(node)) = (&upstream.agent, node.get("agent")) {
        too_often(agent.every, node, mistakes);
        if upstream.origins.iter().any(|origin| origin.url().scheme == OriginScheme::Unix) {
            let mistake = Mistake::at(node.span, "an origin at a unix socket has no address for an `agent`");
            mistakes.push(mistake.help("give it an upstream of its own"));
        }
    }
}

fn too_often(every: Duration, node: &Node, mistakes: &mut Vec<Mistake>) {
    if let Some(node) = node.get("every").filter(|_| every < EVERY_MIN) {
        mistakes.push(Mistake::at(node.span, format!("`every` is at least {EVERY_MIN}")));
    }
}
