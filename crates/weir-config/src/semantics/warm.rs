//! Mistakes of `[[warm]]`: entries that name nothing, URLs that are none, numbers that no warming has.

use crate::{
    mistake::Mistake,
    model::{Config, Warm},
    tree::Node,
    value::Duration,
};

const PARALLEL_MAX: u16 = 64;
const RATE_MAX: u32 = 100_000;
/// The shortest time between two beginnings.
const EVERY_MIN: Duration = Duration(std::time::Duration::from_secs(1));

/// Checks all entries.
pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    for (warm, node) in config.warm.iter().zip(tree.list_of("warm")) {
        entry(warm, node, mistakes);
    }
}

fn entry(warm: &Warm, node: &Node, mistakes: &mut Vec<Mistake>) {
    let sources = ["urls", "list", "sitemaps", "folder"];
    let is_damaged = node.as_table().is_none_or(|table| table.is_damaged);
    if !is_damaged && sources.iter().all(|key| node.get(key).is_none()) {
        let mistake = Mistake::at(node.span, "this entry names nothing to warm");
        mistakes.push(mistake.help("add `sitemaps = [\"https://…\"]`, `urls`, `list` or `folder`"));
    }
    match (node.get("folder"), node.get("as")) {
        (Some(folder), None) => {
            let mistake = Mistake::at(folder.span, "`folder` needs the URL that its files have");
            mistakes.push(mistake.help("add `as = \"https://www.example.com/files/\"`"));
        }
        (None, Some(url)) => mistakes.push(Mistake::at(url.span, "`as` is the URL of a `folder`")),
        _ => {}
    }
    for (key, urls) in [("urls", &warm.urls), ("sitemaps", &warm.sitemaps)] {
        let nodes = node.get(key).map(Node::as_list).unwrap_or_default();
        for (url, node) in urls.iter().zip(nodes).filter(|(url, _)| !is_url(url)) {
            mistakes.push(Mistake::at(node.span, format!("`{url}` is no URL of http or https")));
        }
    }
    if let (Some(url), Some(node)) = (&warm.url, node.get("as"))
        && (!is_url(url) || url.contains(['?', '#']))
    {
        mistakes.push(Mistake::at(node.span, format!("`{url}` is no URL of a folder")));
    }
    for name in warm.headers.keys() {
        let headers = node.get("headers");
        if let Some(node) = headers.and_then(|all| all.get(name)).or(headers)
            && Warm::NOT_SENT.contains(&name.to_ascii_lowercase().as_str())
        {
            let mistake = Mistake::at(node.span, format!("a warming cannot send {name}"));
            mistakes.push(mistake.help("what it asks for must be the same for all clients, and whole"));
        }
    }
    let is_within = (1..=PARALLEL_MAX).contains(&warm.parallel);
    if let Some(node) = node.get("parallel").filter(|_| !is_within) {
        mistakes.push(Mistake::at(node.span, format!("`parallel` is 1 to {PARALLEL_MAX}")));
    }
    if let Some(node) = node.get("rate").filter(|_| warm.rate.is_some_and(|rate| rate.get() > RATE_MAX)) {
        mistakes.push(Mistake::at(node.span, format!("`rate` is 1 to {RATE_MAX} URLs a second")));
    }
    if let Some(node) = node.get("every").filter(|_| warm.every.is_some_and(|every| every < EVERY_MIN)) {
        mistakes.push(Mistake::at(node.span, format!("`every` is at least {EVERY_MIN}")));
    }
}

fn is_url(text: &str) -> bool {
    let begins = |scheme: &str| text.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme));
    (begins("http://") || begins("https://"))
        && !text.contains(|letter: char| letter.is_control() || letter.is_whitespace())
}

#[cfg(test)]
mod tests;
