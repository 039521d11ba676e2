//! The number of parameters of each function. `self` does not count, and a tuple of different types counts by
//! its members.
//!
//! A trait's functions are counted where the trait is declared, not where it is implemented. Tests are left
//! out.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{FnArg, ItemImpl, ItemTrait, Signature, Type};

use super::source::Source;
use super::syntax::is_for_tests;

/// The parameters of all functions of the sources, as `Type::name` or `module::name`.
///
/// # Errors
/// A file that is not Rust.
pub(super) fn count(sources: &[Source]) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust() && !source.is_test()) {
        let file = syn::parse_file(&source.text).with_context(|| format!("parse {}", source.path))?;
        let mut counter = Counter { owner: module(&source.path), counts: &mut counts };
        counter.visit_file(&file);
    }
    Ok(counts)
}

/// A file's module: its stem, or that of its folder.
fn module(path: &str) -> String {
    let mut parts = path.trim_end_matches(".rs").rsplit('/');
    let stem = parts.next().unwrap_or_default();
    let is_root = matches!(stem, "mod" | "lib" | "main");
    let stem = if is_root { parts.find(|part| *part != "src").unwrap_or(stem) } else { stem };
    stem.to_owned()
}

struct Counter<'a> {
    /// The name that stands before the function's.
    owner: String,
    counts: &'a mut BTreeMap<String, usize>,
}

impl Counter<'_> {
    fn signature(&mut self, signature: &Signature) {
        let parameters = signature.inputs.iter().map(|input| match input {
            FnArg::Receiver(_) => 0,
            FnArg::Typed(input) => members(&input.ty),
        });
        let count = self.counts.entry(format!("{}::{}", self.owner, signature.ident)).or_default();
        *count = parameters.sum::<usize>().max(*count);
    }

    fn owned_by(&mut self, owner: String, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = before;
    }
}

/// The number of parameters that a type counts for.
fn members(ty: &Type) -> usize {
    match ty {
        Type::Reference(reference) => members(&reference.elem),
        Type::Paren(paren) => members(&paren.elem),
        Type::Tuple(tuple) if tuple.elems.iter().any(|member| *member != tuple.elems[0]) => {
            tuple.elems.iter().map(members).sum()
        }
        _ => 1,
    }
}

impl<'ast> Visit<'ast> for Counter<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            self.owned_by(module.ident.to_string(), |inside| visit::visit_item_mod(inside, module));
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        if block.trait_.is_some() || is_for_tests(&block.attrs) {
            return;
        }
        let Type::Path(path) = &*block.self_ty else { return };
        let Some(last) = path.path.segments.last() else { return };
        self.owned_by(last.ident.to_string(), |inside| visit::visit_item_impl(inside, block));
    }

    fn visit_item_trait(&mut self, block: &'ast ItemTrait) {
        self.owned_by(block.ident.to_string(), |inside| visit::visit_item_trait(inside, block));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.signature(signature);
    }
}
