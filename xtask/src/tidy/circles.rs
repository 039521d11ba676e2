//! Circles of imports: the files of a package that import each other, measured and bounded.
//!
//! A file imports another if it names an item that the other defines, by `use` or by a path. An item that a
//! public `use` re-exports belongs to the file that defines it. Methods are not seen, and neither is what the
//! compiler infers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::syntax::{Import, Tree};

/// The files of a tree that import each other, each by its place in `Tree::files`.
pub(super) type Circle = Vec<usize>;

/// The largest circle of each package.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn largest(root: &Path) -> Result<BTreeMap<String, usize>> {
    let mut found = BTreeMap::new();
    for (package, tree) in trees(root)? {
        let size = circles(tree.files.len(), &tree.imports()).iter().map(Vec::len).max().unwrap_or(1);
        let largest = found.entry(package).or_insert(size);
        *largest = size.max(*largest);
    }
    Ok(found)
}

/// The output of `cargo run -p xtask -- circles [package]`: the circles of each package, or those of one
/// package with the imports that make them.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn table(root: &Path, only: Option<&str>) -> Result<String> {
    let mut text = String::new();
    for (package, tree) in trees(root)? {
        if only.is_some_and(|only| only != package) {
            continue;
        }
        let imports = tree.imports();
        let circles = circles(tree.files.len(), &imports);
        let largest = circles.first().map_or(1, Vec::len);
        let _ = writeln!(text, "{}: {} files, largest circle {largest}", tree.files[0], tree.files.len());
        for circle in &circles {
            let names: Vec<&str> = circle.iter().map(|file| short(&tree.files[*file])).collect();
            let _ = writeln!(text, "  {}: {}", circle.len(), names.join(" "));
            if only.is_some() {
                text.push_str(&reasons(&tree, circle, &imports));
            }
        }
    }
    Ok(text)
}

/// For each pair of files in a circle, the paths by which one names the other.
fn reasons(tree: &Tree, circle: &Circle, imports: &BTreeSet<Import>) -> String {
    let mut paths: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
    for import in imports.iter().filter(|i| circle.contains(&i.from) && circle.contains(&i.to)) {
        paths.entry((import.from, import.to)).or_default().push(&import.path);
    }
    let mut text = String::new();
    for ((from, to), paths) in paths {
        let (from, to) = (short(&tree.files[from]), short(&tree.files[to]));
        let _ = writeln!(text, "    {from} -> {to}: {}", paths.join(", "));
    }
    text
}

/// The path behind `src`.
fn short(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(_, after)| after)
}

/// The libraries and binaries of all packages, each with its package's name.
fn trees(root: &Path) -> Result<Vec<(String, Tree)>> {
    let mut folders = vec!["xtask".to_owned()];
    for entry in std::fs::read_dir(root.join("crates"))? {
        folders.push(format!("crates/{}", entry?.file_name().to_string_lossy()));
    }
    folders.sort();
    let mut found = Vec::new();
    for folder in folders {
        let mut roots = vec![format!("{folder}/src/lib.rs"), format!("{folder}/src/main.rs")];
        if let Ok(entries) = std::fs::read_dir(root.join(&folder).join("src/bin")) {
            for entry in entries {
                roots.push(format!("{folder}/src/bin/{}", entry?.file_name().to_string_lossy()));
            }
        }
        let name = folder.rsplit('/').next().unwrap_or_default();
        for path in roots.iter().filter(|path| root.join(path).is_file()) {
            found.push((name.to_owned(), Tree::read(root, path)?));
        }
    }
    Ok(found)
}

/// The strongly connected components of more than one node, the largest first (Tarjan 1972).
pub(super) fn circles(nodes: usize, imports: &BTreeSet<Import>) -> Vec<Circle> {
    let mut search = Search { next: vec![Vec::new(); nodes], ..Search::default() };
    for import in imports {
        search.next[import.from].push(import.to);
    }
    search.index = vec![None; nodes];
    search.low = vec![0; nodes];
    for node in 0..nodes {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.found.sort_by_key(|circle| (usize::MAX - circle.len(), circle[0]));
    search.found
}

#[derive(Default)]
struct Search {
    next: Vec<Vec<usize>>,
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    visited: usize,
    stack: Vec<usize>,
    found: Vec<Circle>,
}

impl Search {
    fn visit(&mut self, node: usize) {
        let index = self.visited;
        self.visited += 1;
        self.index[node] = Some(index);
        self.low[node] = index;
        self.stack.push(node);
        for to in std::mem::take(&mut self.next[node]) {
            match self.index[to] {
                None => {
                    self.visit(to);
                    self.low[node] = self.low[node].min(self.low[to]);
                }
                Some(index) if self.stack.contains(&to) => self.low[node] = self.low[node].min(index),
                Some(_) => {}
            }
        }
        if self.low[node] == index {
            let from = self.stack.iter().position(|other| *other == node).unwrap_or_default();
            let mut circle = self.stack.split_off(from);
            circle.sort_unstable();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
    }
}
