//! Everything that counts by connection, or is kept with one, has a row on [`PAGE`]: of whom it is, and what
//! holds where the connection is that of many clients, or of nobody.
//!
//! What counts is a constant that is a ceiling, a share or a window, in a file of [`FILES`], and a limit of
//! clients; what is kept is a field of one of [`STRUCTS`]. A rule cannot judge what a row says; a row that
//! names what is not there offends as well.

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

use super::rows::{Named, Says};
use super::source::{Offence, Source};
use super::syntax::is_for_tests;

/// The page with the rows: a file, its names, what it is, of whom, and what holds for many clients.
const PAGE: &str = "docs/connections.md";

/// The files of connections, towards clients and towards origins. What ends with `/` is a folder.
const FILES: &[&str] = &[
    "weir-front/src/entrance.rs",
    "weir-front/src/h1/",
    "weir-front/src/h2/",
    "weir-front/src/handshakes.rs",
    "weir-front/src/handshakes/",
    "weir-front/src/interim.rs",
    "weir-front/src/message.rs",
    "weir-front/src/out/",
    "weir-front/src/tunnel.rs",
    "weir-client/src/connection.rs",
    "weir-client/src/exchange.rs",
    "weir-client/src/h1/",
    "weir-client/src/incoming.rs",
    "weir-client/src/login.rs",
    "weir-client/src/pool.rs",
    "weir-client/src/pool/carrier.rs",
    "weir-client/src/pool/slot.rs",
    "weir-client/src/slot.rs",
    "weir-client/src/tunnel.rs",
    "weir-upstream/src/again/attempt.rs",
    "weir-upstream/src/body.rs",
];

/// What holds a connection's state, and the limits of clients.
const STRUCTS: &[(&str, &str)] = &[
    ("weir-front/src/limits.rs", "ClientLimits"),
    ("weir-front/src/message.rs", "PeerInfo"),
    ("weir-front/src/h1/mod.rs", "Conn"),
    ("weir-front/src/h2/stream.rs", "Shared"),
    ("weir-front/src/h2/wire.rs", "Wire"),
    ("weir-client/src/connection.rs", "Connection"),
    ("weir-client/src/login.rs", "State"),
    ("weir-client/src/pool/slot.rs", "Lease"),
];

/// Names without a row, and rows without such a name.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn judge(sources: &[Source]) -> Result<Vec<Offence>> {
    let says = Says {
        page: PAGE,
        lacks_row: "counts by connection, or is kept with one",
        is_nowhere: "has no such",
    };
    says.judge(sources, names)
}

/// The names of a file that need a row.
fn names(source: &Source) -> Result<Vec<Named>> {
    let path = source.path.strip_prefix("crates/").filter(|_| source.is_rust() && !source.is_test());
    let Some(path) = path else { return Ok(Vec::new()) };
    let is_in = |place: &&str| if place.ends_with('/') { path.starts_with(place) } else { path == *place };
    let structs = STRUCTS.iter().filter(|(file, _)| *file == path).map(|(_, name)| *name).collect();
    let has_counts = FILES.iter().any(is_in);
    let mut found = Found { has_counts, structs, names: Vec::new() };
    if has_counts || !found.structs.is_empty() {
        let file = syn::parse_file(&source.text).with_context(|| format!("parse {}", source.path))?;
        found.visit_file(&file);
    }
    let named = found.names.into_iter().map(|name| {
        let declared = [format!(" {name}:"), format!("{name}:")];
        let is_here = |line: &str| declared.iter().any(|it| line.contains(it.as_str()));
        let line = source.text.lines().position(is_here).unwrap_or_default() + 1;
        Named { name, line, needs_row: true }
    });
    Ok(named.collect())
}

struct Found {
    has_counts: bool,
    structs: Vec<&'static str>,
    names: Vec<String>,
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_const(&mut self, constant: &'ast syn::ItemConst) {
        let name = constant.ident.to_string();
        if self.has_counts && is_count(&name) {
            self.names.push(name);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if self.structs.iter().any(|name| item.ident == name) {
            let fields = item.fields.iter().filter_map(|field| field.ident.as_ref());
            self.names.extend(fields.map(ToString::to_string));
        }
    }
}

/// Whether a constant of this name is a ceiling, a share or a window.
fn is_count(name: &str) -> bool {
    ["_MAX", "_FREE", "_SHARE"].iter().any(|end| name.ends_with(end)) || name.contains("WINDOW")
}
