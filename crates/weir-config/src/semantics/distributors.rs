//! Mistakes of picks that ask distributors, and of `[distributor]`: forms that do not go together, names that
//! mean nothing, addresses that stand twice.

use super::picks;
use crate::{
    check::suggest,
    mistake::Mistake,
    model::{AskForm, Config, DistributorServer, WrittenPick},
    session_keys,
    tree::Node,
    value::{DistributorUrl, Duration, FilePath, TrustedProxy},
};

/// The longest that one try may wait.
const TIMEOUT_MAX: Duration = Duration(std::time::Duration::from_secs(1));

/// Checks all of them.
pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    for (name, pick) in config.pick.iter().filter(|(_, pick)| !pick.distributor.is_empty()) {
        if let Some(node) = tree.get("pick").and_then(|node| node.get(name)) {
            asked(pick, node, mistakes);
        }
    }
    if let (Some(server), Some(node)) = (&config.distributor, tree.get("distributor")) {
        places(&server.listen, node.get("listen"), mistakes);
        networks(server.allow.as_deref().unwrap_or_default(), node, mistakes);
        keys(server.key_file.as_ref(), node, mistakes);
        keys_of_plain(server.form, node, mistakes);
        policies(server, config, node, mistakes);
    }
}

fn asked(pick: &WrittenPick, node: &Node, mistakes: &mut Vec<Mistake>) {
    places(&pick.distributor, node.get("distributor"), mistakes);
    networks(&pick.allow, node, mistakes);
    keys(pick.key_file.as_ref(), node, mistakes);
    if let (Some(timeout), Some(node)) = (pick.timeout, node.get("timeout")) {
        if timeout.0.is_zero() {
            mistakes.push(Mistake::at(node.span, "`timeout` is zero: no answer would ever come"));
        } else if timeout > TIMEOUT_MAX {
            let mistake = Mistake::at(node.span, format!("`timeout` is at most {TIMEOUT_MAX}"));
            mistakes.push(mistake.help("each request to an origin waits for it, `tries` times"));
        }
    }
    if pick.form != Some(AskForm::Plain) {
        return;
    }
    keys_of_plain(AskForm::Plain, node, mistakes);
    let places = node.get("distributor").map(Node::as_list).unwrap_or_default();
    for (_, place) in pick.distributor.iter().zip(places).filter(|(url, _)| !is_udp(url)) {
        let mistake = Mistake::at(place.span, "the plain form is asked over UDP alone");
        mistakes.push(mistake.help("write `udp://ADDRESS:PORT`, or leave `form` out"));
    }
}

fn is_udp(url: &DistributorUrl) -> bool {
    matches!(url, DistributorUrl::Udp(_))
}

fn keys(file: Option<&FilePath>, node: &Node, mistakes: &mut Vec<Mistake>) {
    if let (Some(file), Some(node)) = (file, node.get("key_file"))
        && let Err(fault) = session_keys::read(&file.0)
    {
        let mistake = Mistake::at(node.span, "this is no file of keys for a distributor");
        mistakes.push(mistake.label(fault.to_string()));
    }
}

fn keys_of_plain(form: AskForm, node: &Node, mistakes: &mut Vec<Mistake>) {
    if let (AskForm::Plain, Some(keys)) = (form, node.get("key_file")) {
        let mistake = Mistake::at(keys.span, "the plain form is not signed: `key_file` has no use");
        mistakes.push(mistake.help("leave `form` out, or `key_file`"));
    }
}

fn places(urls: &[DistributorUrl], node: Option<&Node>, mistakes: &mut Vec<Mistake>) {
    let nodes = node.map(Node::as_list).unwrap_or_default();
    for (at, (url, node)) in urls.iter().zip(nodes).enumerate() {
        if let Some(first) = urls[..at].iter().position(|other| other == url) {
            let mistake = Mistake::at(node.span, format!("`{url}` appears twice"));
            mistakes.push(mistake.label("here again").other(nodes[first].span, "first here"));
        }
    }
}

fn networks(allow: &[TrustedProxy], node: &Node, mistakes: &mut Vec<Mistake>) {
    let nodes = node.get("allow").map(Node::as_list).unwrap_or_default();
    for (_, node) in allow.iter().zip(nodes).filter(|(net, _)| matches!(net, TrustedProxy::Unix)) {
        mistakes.push(Mistake::at(node.span, "a network belongs here, not `unix`"));
    }
}

fn policies(server: &DistributorServer, config: &Config, node: &Node, mistakes: &mut Vec<Mistake>) {
    let Some(table) = node.get("policy").and_then(Node::as_table) else { return };
    for entry in &table.entries {
        if entry.key.is_empty() || entry.key.len() > 64 {
            mistakes.push(Mistake::at(entry.key_span, "a policy's name has 1 to 64 bytes"));
        }
        if config.upstream.contains_key(&entry.key) {
            let title = format!("`{}` is an upstream, and a policy already", entry.key);
            mistakes.push(Mistake::at(entry.key_span, title).help("give this policy another name"));
        }
        let Some(policy) = server.policy.get(&entry.key) else { continue };
        if let Some(upstream) =
            entry.node.get("upstream").filter(|_| !config.upstream.contains_key(&policy.upstream))
        {
            let mistake = Mistake::at(upstream.span, format!("unknown upstream `{}`", policy.upstream));
            mistakes.push(suggest(mistake, &policy.upstream, config.upstream.keys().map(String::as_str)));
        }
        picks::check(&entry.node, config, mistakes);
    }
}

#[cfg(test)]
mod tests;
