//! Warnings about static files: a root that is not there, one that shows more than a site, and keys without a
//! root.

use crate::resolve::{Action, Layers, ResolvedRoute};
use crate::tree::Table;
use std::path::Path;

/// Folders whose files are the machine's.
const OF_MACHINE: [&str; 8] = ["/", "/etc", "/proc", "/sys", "/dev", "/root", "/home", "/run"];

pub(super) fn of_route(route: &ResolvedRoute, layers: Layers<'_>) -> Vec<(&'static [&'static str], String)> {
    let Some(files) = &route.files else { return without_root(layers) };
    let mut found: Vec<(&'static [&'static str], String)> = Vec::new();
    let root = files.root.display();
    match std::fs::metadata(&files.root) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => found.push((&["root"], format!("`{root}` is no folder: its files are answered 404"))),
        Err(error) => {
            let said = crate::check::io_words(&error);
            found
                .push((&["root"], format!("the folder `{root}` cannot be read ({said}): its files are 404")));
        }
    }
    if OF_MACHINE.iter().any(|folder| files.root == Path::new(folder)) {
        found.push((
            &["root"],
            format!("`{root}` has more than a site: its files can be read by all clients"),
        ));
    }
    let names_both = |table: &Table| table.get("root").is_some() && table.get("upstream").is_some();
    if layers.all().any(|(_, table)| names_both(table)) && matches!(route.action, Action::Files) {
        let sentence =
            "`upstream` beside `root` gets no request without `fallback = \"upstream\"`".to_owned();
        found.push((&["upstream"], sentence));
    }
    found
}

/// Keys about files on a site or route that has none, and inherits none.
fn without_root(layers: Layers<'_>) -> Vec<(&'static [&'static str], String)> {
    if layers.all().any(|(_, table)| table.get("root").is_some()) {
        return Vec::new();
    }
    let keys: [&'static [&'static str]; 2] = [&["fallback"], &["files"]];
    let given = keys.into_iter().filter(|key| layers.find(key).is_some());
    given.map(|key| (key, format!("`{}` has no effect without a `root`", key[0]))).collect()
}
