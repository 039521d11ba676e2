//! `[[certificate]]` and the listeners with TLS: what no single value shows. Must not open a file.

use crate::{
    mistake::Mistake,
    model::{Certificate, Config},
    source::Span,
    tree::Node,
};

pub(super) fn check(config: &Config, tree: &Node, mistakes: &mut Vec<Mistake>) {
    let mut default: Option<Span> = None;
    for (certificate, node) in config.certificate.iter().zip(tree.list_of("certificate")) {
        patterns(certificate, node, mistakes);
        let Some(span) = node.get("default").filter(|_| certificate.default).map(|node| node.span) else {
            continue;
        };
        if certificate.chain.stars() > 0 {
            let mistake = Mistake::at(span, "a default certificate is one file, and no glob");
            mistakes.push(mistake.help("give it a `[[certificate]]` of its own"));
        }
        match default {
            Some(first) => mistakes.push(
                Mistake::at(span, "two certificates are the default")
                    .label("here again")
                    .other(first, "first here"),
            ),
            None => default = Some(span),
        }
    }
    let of_admin = tree.get("admin").and_then(|admin| admin.get("tls"));
    if let Some(tls) = of_admin.filter(|_| config.admin.tls && !has_source(config)) {
        let mistake = Mistake::at(tls.span, "the admin listener has TLS, but there is no certificate");
        mistakes.push(mistake.help("add one: [[certificate]] with `chain` and `key`, or [acme]"));
    }
    for (listen, node) in config.listen.iter().zip(tree.list_of("listen")) {
        if let Some(tls) = node.get("tls").filter(|_| listen.tls && !has_source(config)) {
            let help = "add one: [[certificate]] with `chain` and `key`, or [acme]; or give a site \
                        `certificate = \"self\"` for development";
            mistakes
                .push(Mistake::at(tls.span, "a listener has TLS, but there is no certificate").help(help));
        }
        if let (Some(protocols), Some(span)) =
            (&listen.protocols, node.get("protocols").map(|node| node.span))
            && (1..protocols.len()).any(|at| protocols[..at].contains(&protocols[at]))
        {
            mistakes.push(Mistake::at(span, "a protocol stands twice in `protocols`"));
        }
    }
}

/// Whether there is anything that a certificate can come from.
fn has_source(config: &Config) -> bool {
    !config.certificate.is_empty()
        || config.acme.is_some()
        || config.site.iter().any(|site| site.certificate.is_some())
}

/// Each `*` of `key` stands for one of `chain`.
fn patterns(certificate: &Certificate, node: &Node, mistakes: &mut Vec<Mistake>) {
    let (Some(key), Some(key_node)) = (&certificate.key, node.get("key")) else { return };
    let (in_chain, in_key) = (certificate.chain.stars(), key.stars());
    if in_chain != in_key {
        let mistake = Mistake::at(key_node.span, "`chain` and `key` do not have the same number of `*`");
        mistakes.push(mistake.label(format!("{in_key} here, {in_chain} in `chain`")));
    }
}
