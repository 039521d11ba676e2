//! The examples of the reference, as they are printed: each loads by itself, each key of the reference stands
//! in one, and there it has an effect.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// A chapter of the reference about a table: the table's path, its keys, its examples.
#[derive(Default)]
struct Chapter {
    path: String,
    keys: Vec<String>,
    examples: Vec<String>,
}

/// The chapters about tables by their titles.
fn chapters() -> BTreeMap<String, Chapter> {
    let page = include_str!("../../../docs/guide/reference.md");
    let mut chapters: BTreeMap<String, Chapter> = BTreeMap::new();
    for text in page.split("\n## ").skip(1) {
        let title = text.lines().next().unwrap_or_default().trim_matches('`').to_owned();
        if title == "Texts with a form" || title == "Placeholders" {
            continue;
        }
        let path = title.trim_end_matches(" = { … }").trim_matches(['[', ']']);
        let path = if title == "Top-level keys" { "" } else { path };
        let chapter = chapters.entry(title.clone()).or_default();
        chapter.path = path.to_owned();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        chapter.keys.extend(rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())));
        chapter.examples.extend(blocks(text));
    }
    chapters
}

/// The blocks of TOML in a text.
fn blocks(text: &str) -> Vec<String> {
    let pieces = text.split("```toml\n").skip(1);
    pieces.filter_map(|piece| Some(piece.split_once("\n```")?.0.to_owned())).collect()
}

/// What stands in a file that an example names: it may be a key.
const SECRET: &str = "d2hhdC1hbi1leGFtcGxlLW5hbWVzLWlzLW9mdGVuLWEta2V5";

/// The folder with all files that the examples name, closed to others.
fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("reference");
    let names = [
        "conf.d/more.toml",
        "certs/www.pem",
        "certs/ca.pem",
        "certs/weir.pem",
        "certs/weir.key",
        "certs/sessions.key",
        "keys/distributor.key",
        "pages/busy.html",
        "picks/tenants.rhai",
        "pages/favicon.ico",
        "app.key",
    ];
    for name in names {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, if name.ends_with(".toml") { "" } else { SECRET }).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
    folder
}

/// An example with what it needs around it.
fn whole(example: &Table) -> Table {
    let surroundings: Table = "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n\
                               [[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n"
        .parse()
        .unwrap();
    let mut whole = example.clone();
    for (key, value) in surroundings {
        let has_own = match (key.as_str(), whole.get(&key)) {
            ("upstream", Some(own)) => own.get("app").is_some(),
            (_, own) => own.is_some(),
        };
        if !has_own {
            match whole.get_mut(&key).and_then(Value::as_table_mut) {
                Some(own) => own.extend(value.as_table().unwrap().clone()),
                None => drop(whole.insert(key, value)),
            }
        }
    }
    whole
}

fn load(folder: &Path, table: &Table) -> Result<weir_config::Loaded, String> {
    let file = folder.join(format!("{:?}.toml", std::thread::current().id()));
    let lines = table.iter().map(|(key, value)| format!("{key:?} = {}\n", written(value)));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let no_environment = |_: &str| None;
    weir_config::load_with(&file, &no_environment).map_err(|mistakes| mistakes.to_string())
}

/// A value in one line of TOML.
fn written(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let entries = table.iter().map(|(key, value)| format!("{key:?} = {}", written(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => serde_json::to_string(text).unwrap(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(word) => word.to_string(),
        Value::Datetime(_) => unreachable!("no key is a date"),
    }
}

/// A step to a value: a key, or a number in a list.
#[derive(Clone)]
enum Step {
    Key(String),
    Item(usize),
}

/// The way to each key in a value, the keys of tables in lists included.
fn ways(value: &Value, way: &[Step], found: &mut Vec<Vec<Step>>) {
    let steps: Vec<(Step, &Value)> = match value {
        Value::Table(table) => table.iter().map(|(key, value)| (Step::Key(key.clone()), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (Step::Item(at), value)).collect(),
        _ => return,
    };
    for (step, value) in steps {
        let way = [way, &[step]].concat();
        if matches!(way.last(), Some(Step::Key(_))) {
            found.push(way.clone());
        }
        ways(value, &way, found);
    }
}

/// A way as the reference writes it: without numbers, and with `NAME` for a name that the file chooses.
fn path(way: &[Step]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for step in way {
        if let Step::Key(key) = step {
            let is_name = matches!(
                keys.as_slice(),
                ["upstream" | "map" | "pick" | "metrics"] | ["distributor", "policy"]
            );
            keys.push(if is_name { "NAME" } else { key });
        }
    }
    keys.join(".")
}

/// The table without what the way leads to.
fn without(table: &Table, way: &[Step]) -> Table {
    let mut whole = Value::Table(table.clone());
    let (last, before) = way.split_last().unwrap();
    let mut at = &mut whole;
    for step in before {
        at = match step {
            Step::Key(key) => &mut at[key.as_str()],
            Step::Item(number) => &mut at[*number],
        };
    }
    if let (Step::Key(key), Value::Table(inner)) = (last, at) {
        inner.remove(key);
    }
    match whole {
        Value::Table(table) => table,
        _ => unreachable!("it was a table"),
    }
}

#[test]
fn every_key_has_an_example() {
    let chapters = chapters();
    let has_chapter: BTreeSet<&str> = chapters.values().map(|chapter| chapter.path.as_str()).collect();
    let mut missing = Vec::new();
    for (title, chapter) in &chapters {
        let mut shown = Vec::new();
        for example in &chapter.examples {
            ways(&Value::Table(example.parse().unwrap()), &[], &mut shown);
        }
        let shown: BTreeSet<String> = shown.iter().map(|way| path(way)).collect();
        // What a site and a route inherit has its example in the chapter of `[defaults]`.
        for key in chapter.keys.iter().filter(|key| *key != "…") {
            let path = if chapter.path.is_empty() { key.clone() } else { format!("{}.{key}", chapter.path) };
            let is_inner =
                has_chapter.contains(path.as_str()) || has_chapter.contains(&*format!("{path}.NAME"));
            if !shown.contains(&path) && !is_inner {
                missing.push(format!("`{key}` of `{title}`"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "without an example in crates/weir-config/src/reference/examples.toml: {}",
        missing.join(", ")
    );
    assert!(chapters.len() > 40, "only {} chapters", chapters.len());
}

#[test]
fn every_example_loads_and_each_of_its_keys_has_an_effect() {
    let folder = folder();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (title, chapter) in chapters() {
        for example in &chapter.examples {
            let table: Table = example.parse().unwrap();
            let loaded = match load(&folder, &whole(&table)) {
                Ok(loaded) => loaded,
                Err(mistakes) => {
                    wrong.push(format!("{title}: {mistakes}\n{example}"));
                    continue;
                }
            };
            let mut all = Vec::new();
            ways(&Value::Table(table.clone()), &[], &mut all);
            for way in all {
                count += 1;
                // What cannot be left out has an effect.
                let other = load(&folder, &whole(&without(&table, &way)));
                if other.is_ok_and(|other| other.config == loaded.config) {
                    wrong.push(format!("{title}: `{}` says what holds without it", path(&way)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 300, "only {count} keys");
}
