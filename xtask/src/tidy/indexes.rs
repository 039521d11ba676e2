//! Every page is listed in the index of its kind, and every link of an index leads to a file.

use std::path::Path;

use super::source::{Offence, Source};

/// Each index with the files that it lists: a folder and an ending.
const INDEXES: &[(&str, &[(&str, &str)])] = &[
    ("docs/README.md", &[("docs/guide/", ".md"), ("docs/format/", ".md")]),
    ("docs/adr/README.md", &[("docs/adr/", ".md")]),
    ("examples/README.md", &[("examples/", ".toml")]),
];

pub(super) fn judge(sources: &[Source]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, lists) in INDEXES {
        let Some(index) = sources.iter().find(|source| source.path == *path) else {
            offences.push(Offence { path: (*path).to_owned(), line: 1, what: "no such index".to_owned() });
            continue;
        };
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let links: Vec<(usize, String)> = links(&index.text).collect();
        for (line, link) in &links {
            if !sources.iter().any(|source| source.path == joined(folder, link)) {
                offences.push(index.offence(*line, format!("`{link}` leads nowhere")));
            }
        }
        let is_listed = |path: &str| links.iter().any(|(_, link)| joined(folder, link) == path);
        let belongs = |at: &str| lists.iter().any(|(under, end)| at.starts_with(under) && at.ends_with(end));
        let missing = sources.iter().filter(|s| belongs(&s.path) && s.path != *path && !is_listed(&s.path));
        offences.extend(missing.map(|source| source.offence(1, format!("not listed in {path}"))));
    }
    offences
}

/// The files that a page links to, each with the link's line.
fn links(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().flat_map(|(at, line)| {
        let targets = line.split("](").skip(1).filter_map(|after| after.split(')').next());
        targets.filter(|target| !target.contains("://")).map(move |target| (at + 1, target.to_owned()))
    })
}

/// A link on a page in `folder`, as a path of the workspace.
fn joined(folder: &Path, link: &str) -> String {
    let mut path = folder.to_owned();
    for part in link.split('#').next().unwrap_or_default().split('/') {
        match part {
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.display().to_string()
}
