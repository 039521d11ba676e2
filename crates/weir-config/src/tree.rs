//! A configuration as a tree whose every key and value knows its place. Made from TOML; must not know the
//! model.

use crate::{
    mistake::Mistake,
    source::{Source, Span},
    value::instead_of_variable,
};
use std::collections::HashMap;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A value with its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub span: Span,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(Text),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Date,
    /// A text whose variable is not set: already reported.
    Lost,
    List(Vec<Node>),
    Table(Table),
}

/// A text, and how it was written in the file where `${NAME}` in it was replaced.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub text: String,
    pub written: Option<String>,
}

/// The entries of a table in the order written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub entries: Vec<Entry>,
    /// Whether a mistake was removed from it, so that what is missing may have been there.
    pub is_damaged: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: String,
    pub key_span: Span,
    pub node: Node,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }
}

impl Node {
    pub fn text(span: Span, text: impl Into<String>) -> Node {
        Node { span, value: Value::Text(Text { text: text.into(), written: None }) }
    }

    pub fn truth(span: Span, truth: bool) -> Node {
        Node { span, value: Value::Bool(truth) }
    }

    pub fn list(span: Span, list: Vec<Node>) -> Node {
        Node { span, value: Value::List(list) }
    }

    pub fn table(span: Span, entries: Vec<(&str, Node)>) -> Node {
        let entry = |(key, node): (&str, Node)| Entry { key: key.to_owned(), key_span: node.span, node };
        Node {
            span,
            value: Value::Table(Table {
                entries: entries.into_iter().map(entry).collect(),
                is_damaged: false,
            }),
        }
    }

    /// What kind of value it is, for people.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a number",
            Value::Float(_) => "a fraction",
            Value::Bool(_) => "true or false",
            Value::Date => "a date",
            Value::Lost => "nothing",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    pub fn as_list(&self) -> &[Node] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// The child of a table.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_table()?.get(key)
    }

    /// The children of a list in a table; empty where it is missing.
    pub fn list_of(&self, key: &str) -> &[Node] {
        self.get(key).map_or(&[], Node::as_list)
    }

    /// The value as a file may have it, on one line; with `${NAME}` where it was written so.
    pub fn to_toml(&self) -> String {
        match &self.value {
            Value::Text(text) => toml_text(text.written.as_deref().unwrap_or(&text.text)),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Date | Value::Lost => String::new(),
            Value::List(list) => {
                let items: Vec<String> = list.iter().map(Node::to_toml).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Table(table) => {
                let item = |entry: &Entry| {
                    let is_literal = matches!(&entry.node.value, Value::Text(text) if text.written.is_none());
                    let is_hidden = is_literal && is_secret(&entry.key);
                    let value = if is_hidden { toml_text(HIDDEN) } else { entry.node.to_toml() };
                    format!("{} = {value}", toml_key(&entry.key))
                };
                let items: Vec<String> = table.entries.iter().map(item).collect();
                format!("{{ {} }}", items.join(", "))
            }
        }
    }
}

/// What stands for a secret where the configuration is shown.
pub const HIDDEN: &str = "***";

/// Whether what goes by this name, a field or a key of a table, is likely to be a secret.
pub fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 9] =
        ["auth", "secret", "token", "password", "passwd", "credential", "cookie", "api-key", "apikey"];
    let name = name.to_ascii_lowercase().replace('_', "-");
    PARTS.iter().any(|part| name.contains(part)) || name.ends_with("-key")
}

/// A key as a file may have it.
pub(crate) fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if bare { key.to_owned() } else { toml_text(key) }
}

fn toml_text(text: &str) -> String {
    // JSON's escapes are a subset of TOML's.
    serde_json::Value::from(text).to_string()
}

/// Parses a source, and reports all its syntax errors.
pub(crate) fn parse(source: &Source, file: u32, mistakes: &mut Vec<Mistake>) -> Node {
    let span =
        |range: std::ops::Range<usize>| Span { file, start: range.start as u32, end: range.end as u32 };
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    for error in errors {
        let at = error.span().map_or(Span { file, ..Span::default() }, &span);
        let mistake = Mistake::syntax(at, format!("not TOML: {}", error.message()));
        mistakes.push(match error.message().contains("escape") {
            true => mistake.help("in double quotes `\\` begins an escape: write the text in single quotes"),
            false => mistake,
        });
    }
    let whole = Span { file, start: 0, end: 0 };
    Node { span: whole, value: Value::Table(convert_table(table.into_inner(), &span)) }
}

fn convert_table(table: DeTable<'_>, span: &dyn Fn(std::ops::Range<usize>) -> Span) -> Table {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| Entry {
            key_span: span(key.span()),
            key: key.into_inner().into_owned(),
            node: convert(value, span),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span);
    Table { entries, is_damaged: false }
}

fn convert(value: Spanned<DeValue<'_>>, span: &dyn Fn(std::ops::Range<usize>) -> Span) -> Node {
    let at = span(value.span());
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(Text { text: text.into_owned(), written: None }),
        DeValue::Integer(number) => {
            let digits: String = number.as_str().chars().filter(|c| *c != '_').collect();
            match i64::from_str_radix(&digits, number.radix()) {
                Ok(number) => Value::Integer(number),
                Err(_) => Value::Float(f64::INFINITY),
            }
        }
        DeValue::Float(number) => {
            let digits: String = number.as_str().chars().filter(|c| *c != '_').collect();
            Value::Float(digits.parse().unwrap_or(f64::NAN))
        }
        DeValue::Boolean(flag) => Value::Bool(flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => Value::List(list.into_iter().map(|item| convert(item, span)).collect()),
        DeValue::Table(table) => Value::Table(convert_table(table, span)),
    };
    Node { span: at, value }
}

/// Reads variables of the environment; a function, so that tests bring their own.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces `${NAME}` and `${NAME:-default}` in all texts of the tree; `$${` stands for `${`.
pub(crate) fn expand(node: &mut Node, environment: Environment<'_>, mistakes: &mut Vec<Mistake>) {
    let span = node.span;
    match &mut node.value {
        Value::Text(text) if text.text.contains("${") => match expand_text(&text.text, environment) {
            Ok(expanded) => text.written = Some(std::mem::replace(&mut text.text, expanded)),
            Err((title, help)) => {
                mistakes.push(Mistake::at(span, title).help(help));
                node.value = Value::Lost;
            }
        },
        Value::List(list) => list.iter_mut().for_each(|item| expand(item, environment, mistakes)),
        Value::Table(table) => {
            table.entries.iter_mut().for_each(|entry| expand(&mut entry.node, environment, mistakes));
        }
        _ => {}
    }
}

fn expand_text(text: &str, environment: Environment<'_>) -> Result<String, (String, String)> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at]);
            out.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some((name, after)) = rest[at + 2..].split_once('}') else {
            return Err(("`${` without `}`".into(), "a literal `${` is written `$${`".into()));
        };
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        let legal = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !legal {
            let title = format!("`{name}` is not the name of an environment variable");
            return Err((
                title,
                "write `${NAME}` or `${NAME:-default}`; a literal `${` is written `$${`".into(),
            ));
        }
        match environment(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => {
                let help = match instead_of_variable(name).filter(|ours| ours.starts_with('{')) {
                    Some(ours) => format!("where nginx has `${{{name}}}`, Weir has `{ours}`"),
                    None => format!("set it, or give it a default: `${{{name}:-…}}`"),
                };
                return Err((format!("the environment variable `{name}` is not set"), help));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Joins the tables of an included file to those of `base`: lists of the top-level table grow, tables are
/// joined, and any other key may appear only once.
pub(crate) fn join(base: &mut Table, other: Table, mistakes: &mut Vec<Mistake>) {
    for entry in other.entries {
        let Some(known) = base.entry_mut(&entry.key) else {
            base.entries.push(entry);
            continue;
        };
        match (&mut known.node.value, entry.node.value) {
            (Value::List(list), Value::List(more)) => list.extend(more),
            (Value::Table(table), Value::Table(more)) => join_inner(table, more, mistakes),
            _ => twice(known, entry.key_span, mistakes),
        }
    }
}

fn join_inner(base: &mut Table, other: Table, mistakes: &mut Vec<Mistake>) {
    let positions: HashMap<String, usize> =
        base.entries.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
    for entry in other.entries {
        let Some(known) = positions.get(&entry.key).map(|at| &mut base.entries[*at]) else {
            base.entries.push(entry);
            continue;
        };
        match (&mut known.node.value, entry.node.value) {
            (Value::Table(table), Value::Table(more)) => join_inner(table, more, mistakes),
            _ => twice(known, entry.key_span, mistakes),
        }
    }
}

fn twice(known: &Entry, again: Span, mistakes: &mut Vec<Mistake>) {
    mistakes.push(
        Mistake::at(again, format!("`{}` appears in two files", known.key))
            .label("here again")
            .other(known.key_span, "first here"),
    );
}
