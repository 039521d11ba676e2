//! Compares the tree with the model's shape: unknown keys and words, wrong kinds, texts that do not parse,
//! missing files. Reports each mistake and removes it, so that the rest can be checked further. Must not know
//! what a key means.

use crate::{
    mistake::Mistake,
    nearest::nearest,
    neighbours::{in_place_of, in_place_of_truth, in_place_of_value, tables_of, write_header},
    shape::{Shape, TableShape},
    source::{Sources, Span},
    tree::{Entry, Node, Table, Value},
    value::{check_format, faults},
};
use std::path::Path;

pub(crate) struct Checker<'a> {
    pub sources: &'a Sources,
    pub mistakes: &'a mut Vec<Mistake>,
    /// Whether nothing was removed before, so that what is missing is really missing.
    pub is_whole: bool,
    /// The path of keys to the value that is being checked.
    pub path: Vec<String>,
}

/// Whether a value may stay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    Remove,
}

impl Checker<'_> {
    /// Checks a node and everything below it; `key` is its key, for messages.
    pub fn check(&mut self, node: &mut Node, shape: &Shape, key: &str) -> Fate {
        let span = node.span;
        if matches!(node.value, Value::Lost) {
            return Fate::Remove;
        }
        if let Shape::Either(shapes) = shape {
            return match shapes.iter().find(|shape| fits(node, shape)) {
                Some(shape) => self.check(node, shape, key),
                None => self.wrong_kind(node, shape, key),
            };
        }
        coerce(node, shape);
        match (&mut node.value, shape) {
            (Value::Table(table), Shape::Table(shape)) => self.check_table(table, shape, span, key),
            (Value::List(list), Shape::List { item, length_min }) => {
                let length = list.len();
                if matches!(**item, Shape::List { .. }) && length > 0 && list.iter().all(is_text) {
                    let items: Vec<String> = list.iter().map(Node::to_toml).collect();
                    let mistake = Mistake::at(span, format!("`{key}` is a list of lists"));
                    return self.remove(mistake.help(format!("did you mean `[[{}]]`?", items.join(", "))));
                }
                list.retain_mut(|node| self.check(node, item, key) == Fate::Keep);
                if length < *length_min {
                    return self.remove(
                        Mistake::at(span, format!("`{key}` is empty")).label("needs at least one entry"),
                    );
                }
                if list.len() < *length_min { Fate::Remove } else { Fate::Keep }
            }
            (Value::Text(text), Shape::Words(words)) if !words.contains(&text.text) => {
                let mistake = Mistake::at(span, format!("unknown value `{}` for `{key}`", text.text));
                let meant = in_place_of_value(&self.path, &text.text);
                self.remove(match meant {
                    Some(meant) => mistake.help(meant),
                    None => suggest(mistake, &text.text, words.iter().map(String::as_str)),
                })
            }
            (Value::Text(_), Shape::Words(_)) | (Value::Bool(_), Shape::Bool) => Fate::Keep,
            (Value::Text(_), Shape::Text(format)) => self.check_text(node, format.as_deref(), key),
            (Value::Integer(number), Shape::Integer { min, max }) => {
                if (*min..=*max).contains(number) {
                    return Fate::Keep;
                }
                let bounds = match *max {
                    i64::MAX => format!("must be {min} or more"),
                    max => format!("must be {min} to {max}"),
                };
                let mistake = Mistake::at(span, format!("`{key}` is out of bounds")).label(bounds);
                self.remove(match (key, number) {
                    ("weight", 0) => mistake.help("for no share: weir origins drain UPSTREAM ORIGIN --keep"),
                    _ => mistake,
                })
            }
            (Value::Float(number), Shape::Number { min, max }) => {
                self.check_number(*number, (*min, *max), span, key)
            }
            (Value::Integer(number), Shape::Number { min, max }) => {
                self.check_number(*number as f64, (*min, *max), span, key)
            }
            _ => self.wrong_kind(node, shape, key),
        }
    }

    /// A value that is not a number is out of bounds.
    fn check_number(&mut self, number: f64, (min, max): (f64, f64), span: Span, key: &str) -> Fate {
        if (min..=max).contains(&number) {
            return Fate::Keep;
        }
        let bounds = format!("must be from {min} to {max}");
        self.remove(Mistake::at(span, format!("`{key}` is out of bounds")).label(bounds))
    }

    fn remove(&mut self, mistake: Mistake) -> Fate {
        self.mistakes.push(mistake);
        Fate::Remove
    }

    fn check_table(&mut self, table: &mut Table, shape: &TableShape, span: Span, key: &str) -> Fate {
        let before: Vec<String> = table.entries.iter().map(|entry| entry.key.clone()).collect();
        table.entries.retain_mut(|entry| self.check_entry(entry, shape, key) == Fate::Keep);
        table.is_damaged = table.entries.len() < before.len();
        let mut fate = Fate::Keep;
        for required in &shape.required {
            if table.get(required).is_some() {
                continue;
            }
            fate = Fate::Remove;
            if self.is_whole && !before.contains(required) {
                let name = if key.is_empty() { String::new() } else { format!(" in `{key}`") };
                self.mistakes.push(Mistake::at(span, format!("`{required}` is missing{name}")));
            }
        }
        fate
    }

    fn check_entry(&mut self, entry: &mut Entry, shape: &TableShape, table: &str) -> Fate {
        self.path.push(entry.key.clone());
        let fate = self.check_key(entry, shape, table);
        self.path.pop();
        fate
    }

    fn check_key(&mut self, entry: &mut Entry, shape: &TableShape, table: &str) -> Fate {
        if let Some((_, shape)) = shape.keys.iter().find(|(key, _)| *key == entry.key) {
            return self.check(&mut entry.node, shape, &entry.key);
        }
        let Some(other) = &shape.other else {
            let place = if table.is_empty() { String::new() } else { format!(" in `{table}`") };
            let mistake = Mistake::at(entry.key_span, format!("unknown key `{}`{place}", entry.key));
            return self.remove(suggest_key(mistake, &self.path, shape));
        };
        if let Shape::Table(inner) = &**other
            && entry.node.as_table().is_none()
            && inner.keys.iter().any(|(key, _)| *key == entry.key)
        {
            let mistake = Mistake::at(entry.key_span, format!("`{table}` has no name here"));
            return self.remove(mistake.help(format!("write `[{table}.NAME]`, with any name")));
        }
        let format = shape.other_format.as_deref().unwrap_or_default();
        if let Err(reason) = check_format(format, &entry.key) {
            return self.remove(Mistake::at(entry.key_span, reason));
        }
        self.check(&mut entry.node, other, &entry.key)
    }

    fn check_text(&mut self, node: &mut Node, format: Option<&str>, key: &str) -> Fate {
        let (span, format) = (node.span, format.unwrap_or_default());
        let Value::Text(text) = &mut node.value else { return Fate::Keep };
        let mut faults = faults(format, &text.text, &self.path);
        if let Some(written) = &text.written {
            // What the environment says may be a secret with any characters.
            let is_theirs = |word: &str| !word.starts_with('$') || written.contains(word);
            faults.retain(|fault| fault.place.clone().is_none_or(|place| is_theirs(&text.text[place])));
        }
        if !faults.is_empty() {
            let shown = text.written.as_ref().map(|_| format!("`{key}` is {:?} here", text.text));
            for fault in faults {
                let mistake = Mistake::at(span, fault.sentence).part(&text.text, fault.place);
                self.mistakes.push(match &shown {
                    Some(shown) => mistake.label(shown.as_str()),
                    None => mistake,
                });
            }
            return Fate::Remove;
        }
        let is_path = matches!(format, "weir-path" | "weir-file" | "weir-file-glob")
            || (format == "weir-log-target" && text.text != "stdout");
        if is_path {
            let absolute = self.sources.get(span.file).folder().join(&text.text);
            if format == "weir-file"
                && let Err(error) = readable(&absolute)
            {
                let title = format!("cannot read the file `{}`", text.text);
                return self.remove(Mistake::at(span, title).label(error));
            }
            let absolute = absolute.to_string_lossy().into_owned();
            text.written.get_or_insert_with(|| std::mem::take(&mut text.text));
            text.text = absolute;
        }
        Fate::Keep
    }

    fn wrong_kind(&mut self, node: &Node, shape: &Shape, key: &str) -> Fate {
        if !self.is_whole {
            return Fate::Remove;
        }
        let mistake = Mistake::at(node.span, format!("`{key}` is of the wrong kind"));
        let label = format!("expected {}, found {}", kind_of(shape), node.kind());
        let mistake = mistake.label(label);
        let quoted = match (&node.value, shape) {
            (Value::Table(_) | Value::Text(_), Shape::List { item, .. })
                if matches!(**item, Shape::Table(_)) =>
            {
                Some(format!("write `{}`, once for each", write_header(&self.path, true)))
            }
            (Value::List(list), Shape::Table(table)) if list.iter().all(|node| node.as_table().is_some()) => {
                Some(match table.other {
                    Some(_) => format!("write `[{}.NAME]`, with any name", self.path.join(".")),
                    None => format!("write `{}`: there is one", write_header(&self.path, false)),
                })
            }
            (Value::Bool(_), Shape::Table(_)) => in_place_of_truth(key).map(str::to_owned),
            (Value::Integer(number), Shape::Text(Some(format))) => with_unit(*number, format, &self.path),
            (Value::Integer(number), Shape::Either(shapes)) => shapes.iter().find_map(|shape| match shape {
                Shape::Text(Some(format)) => with_unit(*number, format, &self.path),
                _ => None,
            }),
            (Value::Text(_), Shape::List { item, .. }) if matches!(**item, Shape::Text(_)) => {
                Some(format!("did you mean `[{}]`?", node.to_toml()))
            }
            _ => None,
        };
        self.remove(match quoted {
            Some(quoted) => mistake.help(quoted),
            None => mistake,
        })
    }
}

/// What a number without a unit may have meant.
fn with_unit(number: i64, format: &str, path: &[String]) -> Option<String> {
    match format {
        // HAProxy's times are milliseconds.
        "weir-duration" if number >= 100 && path.first().is_some_and(|key| key == "upstream") => {
            Some(format!("did you mean `\"{number}ms\"` or `\"{number}s\"`?"))
        }
        "weir-status-ranges" => Some(format!("did you mean `\"{number}\"`?")),
        "weir-duration" => Some(format!("did you mean `\"{number}s\"`?")),
        "weir-rate" | "weir-rate-limit" => {
            Some(format!("did you mean `\"{number}B/s\"` or `\"{number}kB/s\"`?"))
        }
        "weir-percent" => Some(format!("did you mean `\"{number}%\"`?")),
        "weir-size" => Some(format!("did you mean `\"{number}B\"` or `\"{number}MiB\"`?")),
        _ => None,
    }
}

/// Why a file cannot be read, in the system's words.
fn readable(path: &Path) -> Result<(), String> {
    let error = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err("this is a folder".into()),
        Ok(_) => match std::fs::File::open(path) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        },
        Err(error) => error,
    };
    Err(io_words(&error))
}

/// An error of the system without its number.
pub(crate) fn io_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}

fn is_text(node: &Node) -> bool {
    node.as_text().is_some()
}

fn fits(node: &Node, shape: &Shape) -> bool {
    matches!(
        (&node.value, shape),
        (Value::Text(_), Shape::Text(_) | Shape::Words(_))
            | (Value::Integer(_), Shape::Integer { .. })
            | (Value::Integer(_) | Value::Float(_), Shape::Number { .. })
            | (Value::Bool(_), Shape::Bool)
            | (Value::List(_), Shape::List { .. })
            | (Value::Table(_), Shape::Table(_))
    )
}

/// A text from the environment may be a number or a truth value.
fn coerce(node: &mut Node, shape: &Shape) {
    let Value::Text(text) = &node.value else { return };
    if text.written.is_none() {
        return;
    }
    let value = match shape {
        Shape::Integer { .. } => text.text.parse().ok().map(Value::Integer),
        Shape::Number { .. } => text.text.parse().ok().map(Value::Float),
        Shape::Bool => text.text.parse().ok().map(Value::Bool),
        _ => None,
    };
    if let Some(value) = value {
        node.value = value;
    }
}

fn kind_of(shape: &Shape) -> String {
    match shape {
        Shape::Text(_) => "a text".into(),
        Shape::Words(words) => match words.as_slice() {
            [one] => format!("`\"{one}\"`"),
            words => format!("one of {}", list(words.iter().map(String::as_str))),
        },
        Shape::Integer { .. } => "a whole number".into(),
        Shape::Number { .. } => "a number".into(),
        Shape::Bool => "true or false".into(),
        Shape::List { .. } => "a list".into(),
        Shape::Table(_) => "a table".into(),
        Shape::Either(shapes) => shapes.iter().map(kind_of).collect::<Vec<_>>().join(" or "),
    }
}

/// Adds what was probably meant by an unknown key: another proxy's key, a similar word, or a key of another
/// table.
fn suggest_key(mistake: Mistake, path: &[String], table: &TableShape) -> Mistake {
    let word = path.last().map_or("", String::as_str);
    if let Some(meant) = in_place_of(path, word) {
        return mistake.help(meant);
    }
    let legal = table.keys.iter().map(|(key, _)| key.as_str());
    match tables_of(word).filter(|_| nearest(word, legal.clone()).is_none()) {
        Some(tables) => mistake.help(tables),
        None => suggest(mistake, word, legal),
    }
}

/// Adds the nearest allowed word, or all of them.
pub(crate) fn suggest<'a>(
    mistake: Mistake,
    word: &str,
    legal: impl Iterator<Item = &'a str> + Clone,
) -> Mistake {
    if let Some(nearest) = nearest(word, legal.clone()) {
        return mistake.label(format!("did you mean `{nearest}`?"));
    }
    match legal.clone().count() {
        0 => mistake,
        1..=24 => mistake.help(format!("allowed: {}", list(legal))),
        _ => mistake.help("all keys are in docs/guide/reference.md"),
    }
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
