//! Warnings about static files: a root that is not there, one that shows more than a site, and keys without a
//! root.

use crate::resolve::{Action, Layers, ResolvedFiles, ResolvedRoute, ResolvedSite};
use crate::tree::Table;
use crate::value::Fallback;
use std::path::Path;

/// Folders whose files are the machine's.
const OF_MACHINE: [&str; 8] = ["/", "/etc", "/proc", "/sys", "/dev", "/root", "/home", "/run"];

/// Endings of programs that a server runs, and never sends.
const PROGRAMS: [&str; 9] = ["php", "phtml", "php5", "phps", "cgi", "pl", "asp", "aspx", "jsp"];
/// The most names of a root that are looked at.
const NAMES_MAX: usize = 10_000;

pub(super) fn of_route(route: &ResolvedRoute, layers: Layers<'_>) -> Vec<(&'static [&'static str], String)> {
    let Some(files) = &route.files else { return without_root(layers) };
    let mut found: Vec<(&'static [&'static str], String)> = Vec::new();
    let root = files.root.display();
    match std::fs::metadata(&files.root) {
        Ok(metadata) if metadata.is_dir() => found.extend(fallback(files)),
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

/// A page for what is not there that is not there itself.
fn fallback(files: &ResolvedFiles) -> Option<(&'static [&'static str], String)> {
    let Some(Fallback::File(path)) = &files.fallback else { return None };
    let file = files.root.join(path.trim_start_matches('/'));
    let sentence = || format!("there is no file `{}`: what is not there is 404", file.display());
    (!file.is_file()).then(|| (["fallback"].as_slice(), sentence()))
}

/// The warning about programs at the top of a root, whose text this route sends to all clients.
pub(super) fn of_programs(
    site: &ResolvedSite,
    at: usize,
    first_for: fn(&ResolvedSite, &str) -> Option<usize>,
) -> Option<(&'static [&'static str], String)> {
    let root = &site.routes[at].files.as_ref()?.root;
    let names = std::fs::read_dir(root).ok()?.take(NAMES_MAX).filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
        PROGRAMS.contains(&ending.as_str()).then_some(name)
    });
    let name = names.min_by(|one, other| one.cmp(other))?;
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    first_for(site, &format!("/{name}")).is_some_and(|first| first == at).then(|| {
        let sentence = format!(
            "clients get the text of `{}`: a route for `**.{ending}` with an `upstream` runs it",
            root.join(&name).display()
        );
        (["root"].as_slice(), sentence)
    })
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
