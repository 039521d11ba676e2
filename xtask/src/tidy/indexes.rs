//! Every page is listed in the index of its kind, and every link of an index leads to a file. A decision's
//! row says whether it is in force.

use std::path::Path;

use super::source::{Offence, Source};

/// Each index with the files that it lists: a folder and an ending.
const INDEXES: &[(&str, &[(&str, &str)])] = &[
    ("docs/README.md", &[("docs/guide/", ".md"), ("docs/format/", ".md")]),
    ("docs/adr/README.md", &[("docs/adr/", ".md")]),
    ("examples/README.md", &[("examples/", ".toml")]),
];

/// The folder of the decisions, and the index with a row for each.
const DECISIONS: &str = "docs/adr/";
const OF_DECISIONS: &str = "docs/adr/README.md";

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
    offences.extend(statuses(sources));
    offences
}

/// Each decision has one row, which ends with its status; what took its place is there.
fn statuses(sources: &[Source]) -> Vec<Offence> {
    let Some(index) = sources.iter().find(|source| source.path == OF_DECISIONS) else { return Vec::new() };
    let names = sources.iter().filter_map(|source| source.path.strip_prefix(DECISIONS));
    let numbers: Vec<&str> = names.filter_map(number).collect();
    let mut offences = Vec::new();
    let mut seen = Vec::new();
    let rows =
        index.text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.strip_prefix("| [")?)));
    for (line, row) in rows {
        let own = number(row).unwrap_or_default();
        if seen.contains(&own) {
            offences.push(index.offence(line, format!("a second row for {own}")));
        }
        seen.push(own);
        let status = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        if let Err(what) = judge_status(status, own, &numbers) {
            offences.push(index.offence(line, what));
        }
    }
    let without = numbers.iter().filter(|number| !seen.contains(number));
    offences.extend(without.map(|number| index.offence(1, format!("no row begins with `| [{number}]`"))));
    offences
}

/// *in force*; *in part*, with the decisions that changed the rest; or *superseded by* another one.
fn judge_status(status: &str, own: &str, numbers: &[&str]) -> Result<(), String> {
    let words = status.split(|c: char| !c.is_ascii_alphanumeric());
    let named: Vec<&str> = words.filter(|word| number(word) == Some(*word)).collect();
    if let Some(wrong) = named.iter().find(|named| **named == own || !numbers.contains(named)) {
        return Err(format!("`{status}` names {wrong}, which is no other decision"));
    }
    let superseding = status.strip_prefix("superseded by ").and_then(number);
    match status {
        "in force" => Ok(()),
        _ if status.starts_with("in part: ") && !named.is_empty() => Ok(()),
        _ if superseding.is_some() => Ok(()),
        _ => Err(format!("`{status}` is no status: in force, in part: NNNN …, superseded by NNNN")),
    }
}

/// The four digits with which a name begins.
fn number(name: &str) -> Option<&str> {
    let digits = name.get(..4)?;
    let is_end = !name[4..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (digits.bytes().all(|c| c.is_ascii_digit()) && is_end).then_some(digits)
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
