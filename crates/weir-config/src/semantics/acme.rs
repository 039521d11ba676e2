//! `[acme]`: what no single value shows. Must not decide which names an authority issues for.

use crate::{
    mistake::Mistake,
    model::{AcmeChallenge, Config},
    tree::Node,
};

pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let (Some(acme), Some(node)) = (&config.acme, tree.get("acme")) else { return };
    if !config.listen.iter().any(|listen| listen.tls) {
        mistakes.push(
            Mistake::at(node.span, "certificates are ordered, but no listener has TLS")
                .help("add one: [[listen]] with `address = \"0.0.0.0:443\"` and `tls = true`"),
        );
    }
    let is_plain = config.listen.iter().any(|listen| !listen.tls);
    if acme.challenge == Some(AcmeChallenge::Http01) && !is_plain {
        let span = node.get("challenge").map_or(node.span, |node| node.span);
        mistakes.push(
            Mistake::at(span, "`http-01` needs a listener without TLS, and there is none")
                .help("add one: [[listen]] with `address = \"0.0.0.0:80\"`; or use `tls-alpn-01`"),
        );
    }
    contacts(node.get("contact"), mistakes);
    let fallback = node.get("fallback");
    contacts(fallback.and_then(|fallback| fallback.get("contact")), mistakes);
    let same = acme.fallback.as_ref().filter(|fallback| fallback.directory == acme.directory);
    if let Some(directory) =
        fallback.and_then(|fallback| fallback.get("directory")).filter(|_| same.is_some())
    {
        mistakes.push(Mistake::at(directory.span, "the fallback is the same certificate authority"));
    }
}

/// A contact is a URL (RFC 8555 §7.3), or a mail address that Weir makes one of.
fn contacts(node: Option<&Node>, mistakes: &mut Vec<Mistake>) {
    for contact in node.map(Node::as_list).unwrap_or_default() {
        let Some(text) = contact.as_text() else { continue };
        if !text.contains(['@', ':']) {
            let mistake = Mistake::at(contact.span, "a contact is a mail address or a URL");
            mistakes.push(mistake.help("write `admin@example.com`"));
        }
    }
}
