//! Every loop that waits for a peer, every line in which work stands, and every share of what all need has a
//! row on [`PAGE`]: in what pieces it pulls, how long it may go on, and who has which share.
//!
//! A loop waits where something in it is awaited or polled. A line is a semaphore or a channel, but for those
//! of one message and those of the standard library without a bound, by which threads tell that they are
//! done. A share is given where a function of `weir_share` is asked ([`SHARES`]). A rule cannot judge what a
//! row says; a row that names what is not there offends as well.

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprCall, ExprMethodCall, Signature};

use super::rows::{Named, Says};
use super::source::{Offence, Source};
use super::syntax::is_for_tests;

/// The page with the rows: a file, its functions, and what there is to say.
const PAGE: &str = "docs/loops.md";

/// The crates that talk to peers, or have what is needed by all that do.
const CRATES: &[&str] = &[
    "weir-acme",
    "weir-body",
    "weir-client",
    "weir-control",
    "weir-distributor",
    "weir-edge",
    "weir-files",
    "weir-fill",
    "weir-front",
    "weir-metrics",
    "weir-observe",
    "weir-store",
    "weir-upstream",
    "weir-warm",
];

/// Constructors of channels that hold so many messages as their argument says, and of those without a bound.
const BOUNDED: &[&str] = &["bounded", "channel", "sync_channel"];
const UNBOUNDED: &[&str] = &["unbounded", "unbounded_channel"];
/// Channels of one message, or of the newest one.
const NO_LINES: &[&str] = &["oneshot", "watch"];

/// What gives a share of what all need to a client: functions of `weir_share`, and how many arguments they
/// have. `count` is of what is named as one of [`COUNTS`].
const SHARES: &[(&str, usize)] = &[("fits", 4), ("gives_way", 3), ("leaves_some", 3), ("count", 2)];
const COUNTS: &[&str] = &["clients", "claimants"];

/// Functions without a row, and rows without a function.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn judge(sources: &[Source]) -> Result<Vec<Offence>> {
    let says = Says {
        page: PAGE,
        lacks_row: "waits in a loop, makes a line or gives a share",
        is_nowhere: "has no function",
    };
    says.judge(sources, |source| if is_judged(source) { functions(source) } else { Ok(Vec::new()) })
}

fn is_judged(source: &Source) -> bool {
    let path = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    let is_double = source.path.ends_with("/simulated.rs") || source.path.contains("/simulation");
    path.is_some_and(|(name, _)| CRATES.contains(&name))
        && source.is_rust()
        && !source.is_test()
        && !is_double
}

fn functions(source: &Source) -> Result<Vec<Named>> {
    let file = syn::parse_file(&source.text).with_context(|| format!("parse {}", source.path))?;
    let mut found = Found { source, functions: Vec::new() };
    found.visit_file(&file);
    Ok(found.functions)
}

struct Found<'s> {
    source: &'s Source,
    functions: Vec<Named>,
}

impl Found<'_> {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let has_channels = self.source.text.contains("crossbeam_channel");
        let mut waits = Waits { has_channels, ..Waits::default() };
        waits.visit_block(block);
        let name = signature.ident.to_string();
        // Where its name is declared: syntax from text has no lines of its own.
        let declared = [format!("fn {name}("), format!("fn {name}<")];
        let at = self.source.text.lines().position(|line| declared.iter().any(|it| line.contains(it)));
        let line = at.unwrap_or_default() + 1;
        self.functions.push(Named { name, line, needs_row: waits.are_found });
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            self.add(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.add(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
    }
}

/// Whether a function waits in a loop, makes a line, or gives a share.
#[derive(Default)]
struct Waits {
    /// Whether a function named `bounded` makes a channel in this file.
    has_channels: bool,
    loops: usize,
    are_found: bool,
}

impl Waits {
    fn in_loop(&mut self, visit: impl FnOnce(&mut Self)) {
        self.loops += 1;
        visit(self);
        self.loops -= 1;
    }

    fn wait(&mut self) {
        self.are_found |= self.loops > 0;
    }
}

impl<'ast> Visit<'ast> for Waits {
    fn visit_item(&mut self, _: &'ast syn::Item) {}

    fn visit_expr_loop(&mut self, it: &'ast syn::ExprLoop) {
        self.in_loop(|inside| visit::visit_expr_loop(inside, it));
    }

    fn visit_expr_while(&mut self, it: &'ast syn::ExprWhile) {
        self.in_loop(|inside| visit::visit_expr_while(inside, it));
    }

    fn visit_expr_for_loop(&mut self, it: &'ast syn::ExprForLoop) {
        self.in_loop(|inside| visit::visit_expr_for_loop(inside, it));
    }

    fn visit_expr_await(&mut self, it: &'ast syn::ExprAwait) {
        self.wait();
        visit::visit_expr_await(self, it);
    }

    fn visit_expr_method_call(&mut self, it: &'ast ExprMethodCall) {
        let name = it.method.to_string();
        if is_poll(&name) {
            self.wait();
        }
        let is_of_counts = name != "count" || name_of(&it.receiver).is_some_and(|of| COUNTS.contains(&&*of));
        self.are_found |= is_of_counts && SHARES.contains(&(&*name, it.args.len()));
        visit::visit_expr_method_call(self, it);
    }

    fn visit_expr_call(&mut self, it: &'ast ExprCall) {
        if let Expr::Path(path) = &*it.func {
            let names: Vec<String> =
                path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let (last, owner) = (names.last(), names.iter().rev().nth(1));
            let last = last.map(String::as_str).unwrap_or_default();
            let owner = owner.map(String::as_str).unwrap_or_default();
            let holds_many = it.args.len() == 1 && !is_one(&it.args[0]);
            let is_line = UNBOUNDED.contains(&last) && it.args.is_empty()
                || BOUNDED.contains(&last)
                    && holds_many
                    && !NO_LINES.contains(&owner)
                    && (last != "bounded" || self.has_channels)
                || owner == "Semaphore" && last == "new"
                || owner == "Room" && last == "new" && it.args.len() == 2
                || last != "count" && SHARES.contains(&(last, it.args.len()));
            self.are_found |= is_line;
            if is_poll(last) {
                self.wait();
            }
        }
        visit::visit_expr_call(self, it);
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        let name = it.path.segments.last().map(|segment| segment.ident.to_string());
        if matches!(name.as_deref(), Some("select" | "join" | "ready")) {
            self.wait();
        }
    }
}

/// The last name of what a method is called of.
fn name_of(receiver: &Expr) -> Option<String> {
    match receiver {
        Expr::MethodCall(call) => Some(call.method.to_string()),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(name) => Some(name.to_string()),
            syn::Member::Unnamed(_) => None,
        },
        _ => None,
    }
}

fn is_one(argument: &Expr) -> bool {
    let Expr::Lit(literal) = argument else { return false };
    matches!(&literal.lit, syn::Lit::Int(one) if one.base10_digits() == "1")
}

/// Whether a call asks a peer: `poll_read`, `try_write` and the like.
fn is_poll(name: &str) -> bool {
    let tries = ["try_flush", "try_read", "try_recv_from", "try_send_to", "try_write"];
    name == "poll" || name.starts_with("poll_") || tries.iter().any(|one| name.starts_with(one))
}
