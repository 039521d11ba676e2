//! Each dependency of a crate is mentioned by one of its files, and each of the workspace by a crate: what
//! nobody uses is still fetched, compiled and watched.

use serde_json::Value;

use super::source::{Offence, Source, without_comment};

/// A dependency of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The folder of the crate, relative to the workspace.
    pub(super) folder: String,
    /// Its name, as the manifest has it.
    pub(super) name: String,
}

pub(super) fn judge(metadata: &Value, sources: &[Source]) -> Vec<Offence> {
    let all = named(metadata);
    let workspace = sources.iter().find(|source| source.path == "Cargo.toml");
    let of_crates = all.iter().filter_map(|one| offence(one, sources));
    of_crates.chain(workspace.into_iter().flat_map(|manifest| unnamed(manifest, &all))).collect()
}

/// A dependency that no file of its crate mentions.
pub(super) fn offence(named: &Named, sources: &[Source]) -> Option<Offence> {
    let (folder, name) = (format!("{}/", named.folder), &named.name);
    let mut own = sources.iter().filter(|source| source.is_rust() && source.path.starts_with(&folder));
    if own.any(|source| mentions(&source.text, &name.replace('-', "_"))) {
        return None;
    }
    let what = format!("no file of {} mentions its dependency `{name}`", named.folder);
    Some(Offence { path: format!("{folder}Cargo.toml"), line: 1, what })
}

/// The lines of the workspace's dependencies that no crate names.
pub(super) fn unnamed(manifest: &Source, all: &[Named]) -> Vec<Offence> {
    let lines = manifest.text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let lines = lines.skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    let lines = lines.take_while(|(_, line)| !line.starts_with('['));
    let names = lines.filter_map(|(at, line)| Some((at, line.split_once('=')?.0.trim())));
    let unused = names.filter(|(_, name)| all.iter().all(|one| one.name != *name));
    unused.map(|(at, name)| manifest.offence(at, format!("no crate names `{name}`"))).collect()
}

/// Whether a word stands in the code of a file.
fn mentions(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.lines().map(without_comment).any(|line| {
        line.match_indices(word).any(|(at, _)| {
            let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
    })
}

/// All dependencies of all crates.
fn named(metadata: &Value) -> Vec<Named> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.flat_map(|package| of_package(package, root)).collect()
}

fn of_package(package: &Value, root: &str) -> Vec<Named> {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let inside = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
    let folder = inside.trim_end_matches("/Cargo.toml");
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let names = dependencies.filter_map(|one| one["rename"].as_str().or(one["name"].as_str()));
    names.map(|name| Named { folder: folder.to_owned(), name: name.to_owned() }).collect()
}
