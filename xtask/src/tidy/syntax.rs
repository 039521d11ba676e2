//! The syntax of a package: its modules, what each of them defines, what it imports, and the paths that it
//! names.
//!
//! Tests and doubles, which are behind a `cfg` that names `test`, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// The longest chain of imports of imports that is followed. Code that compiles has no longer circle.
const IMPORT_DEPTH_MAX: usize = 16;

/// A module tree that begins at one root: a library or a binary.
pub(crate) struct Tree {
    root: PathBuf,
    modules: Vec<Module>,
    /// The paths of the files, relative to the workspace. A module names its file by the index in this list.
    pub(crate) files: Vec<String>,
}

/// A module, in a file of its own or inline.
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    /// What an imported name stands for.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// The paths that the module names, private imports included.
    named: Vec<Vec<String>>,
}

/// What a path leads to.
enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// An import of one file by another of its tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The path in the import.
    pub(crate) path: String,
}

impl Tree {
    /// Reads the tree whose root is the file `path`, relative to `root`.
    ///
    /// # Errors
    /// A file that cannot be read or is not Rust.
    pub(crate) fn read(root: &Path, path: &str) -> Result<Tree> {
        let mut tree = Tree { root: root.to_owned(), modules: Vec::new(), files: Vec::new() };
        let folder = Path::new(path).parent().map(Path::to_owned).unwrap_or_default();
        tree.read_file(path, None, &folder)?;
        Ok(tree)
    }

    fn read_file(&mut self, path: &str, parent: Option<usize>, folder: &Path) -> Result<usize> {
        let file = parsed(&self.root, path)?;
        self.files.push(path.to_owned());
        self.read_module(file.items, self.files.len() - 1, parent, folder)
    }

    fn read_module(
        &mut self,
        items: Vec<Item>,
        file: usize,
        parent: Option<usize>,
        folder: &Path,
    ) -> Result<usize> {
        let at = self.modules.len();
        let mut names = Names::default();
        items.iter().for_each(|item| names.visit_item(item));
        self.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            items: items.iter().filter_map(item_name).collect(),
            imports: names.imports,
            globs: names.globs,
            named: names.named,
        });
        for item in items {
            let Item::Mod(module) = item else { continue };
            if is_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let inside = folder.join(&name);
            let child = match module.content {
                Some((_, items)) => self.read_module(items, file, Some(at), &inside)?,
                None => {
                    let flat = folder.join(format!("{name}.rs"));
                    let nested = inside.join("mod.rs");
                    let path = if self.root.join(&flat).is_file() { flat } else { nested };
                    self.read_file(&path.display().to_string(), Some(at), &inside)?
                }
            };
            self.modules[at].children.insert(name, child);
        }
        Ok(at)
    }

    /// All imports between files. A public import stands for its target only where it is used.
    pub(crate) fn imports(&self) -> BTreeSet<Import> {
        let mut found = BTreeSet::new();
        for (at, module) in self.modules.iter().enumerate() {
            let items = module.named.iter().filter_map(|path| match self.resolve(at, path, 0)? {
                Target::Item(to) => Some((to, path)),
                Target::Module(_) => None,
            });
            let globs = module.globs.iter().filter_map(|path| match self.resolve(at, path, 0)? {
                Target::Item(to) | Target::Module(to) => Some((to, path)),
            });
            for (to, path) in items.chain(globs) {
                let to = self.modules[to].file;
                if to != module.file {
                    found.insert(Import { from: module.file, to, path: path.join("::") });
                }
            }
        }
        found
    }

    fn resolve(&self, at: usize, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.inside(0, rest, depth),
            "self" => self.inside(at, rest, depth),
            "super" => self.inside(self.modules[at].parent?, rest, depth),
            _ => self.inside(at, path, depth),
        }
    }

    fn inside(&self, at: usize, path: &[String], depth: usize) -> Option<Target> {
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(at)) };
        let module = &self.modules[at];
        if first == "super" {
            return self.inside(module.parent?, rest, depth);
        }
        if depth > IMPORT_DEPTH_MAX {
            return None;
        }
        if let Some(child) = module.children.get(first) {
            return self.inside(*child, rest, depth);
        }
        if module.items.contains(first) {
            return Some(Target::Item(at));
        }
        if let Some(import) = module.imports.get(first).filter(|import| import[0] != *first) {
            return self.resolve(at, &[import, rest].concat(), depth + 1);
        }
        module.globs.iter().find_map(|glob| match self.resolve(at, glob, depth + 1)? {
            Target::Module(of) if of != at => self.inside(of, path, depth + 1),
            _ => None,
        })
    }
}

/// The syntax of the file at `path`, relative to `root`.
pub(super) fn parsed(root: &Path, path: &str) -> Result<syn::File> {
    let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))?;
    syn::parse_file(&text).with_context(|| format!("parse {path}"))
}

/// Whether an item is for tests: its `cfg` demands `test`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
        let words = list.tokens.to_string();
        let words: Vec<&str> = words.split(|c: char| !c.is_alphanumeric()).collect();
        attribute.path().is_ident("cfg") && words.contains(&"test") && !words.contains(&"not")
    })
}

fn item_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The names in one module, without the modules inside it.
#[derive(Default)]
struct Names {
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    named: Vec<Vec<String>>,
}

impl Names {
    fn import(&mut self, tree: &UseTree, before: &[String], is_private: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), is_private),
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.import(item, before, is_private));
            }
            UseTree::Glob(_) => self.globs.push(before.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                self.add(before.last().cloned().unwrap_or_default(), before.to_vec(), is_private);
            }
            UseTree::Name(name) => self.add(name.ident.to_string(), with(&name.ident), is_private),
            UseTree::Rename(name) => self.add(name.rename.to_string(), with(&name.ident), is_private),
        }
    }

    fn add(&mut self, name: String, path: Vec<String>, is_private: bool) {
        if is_private {
            self.named.push(path.clone());
        }
        self.imports.insert(name, path);
    }

    /// The words of a macro have no syntax: everything that looks like a path of several names counts as one.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if path.is_empty() || colons == 2 => {
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                other => {
                    self.named.push(std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.named.push(path);
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, &[], matches!(item.vis, Visibility::Inherited));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.named.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}
