//! The reference and the JSON Schema, from the doc comments of the model. Must not hold a sentence about a
//! key: the model has those.

use crate::shape;
use serde_json::{Map, Value as Json};
use std::fmt::Write;

/// The JSON Schema of `weir.toml`, indented, with a line break at its end.
pub fn json_schema() -> String {
    let schema = shape::schema();
    let mut text = serde_json::to_string_pretty(schema.as_value()).unwrap_or_default();
    text.push('\n');
    text
}

/// The reference of `weir.toml` as Markdown.
pub fn markdown() -> String {
    let schema = shape::schema();
    let schema = schema.as_value();
    let definitions = schema.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
    let mut page = Page { definitions: &definitions, out: String::new() };
    page.out.push_str(HEAD);
    page.table("", "Top-level keys", schema);
    page.text_values();
    page.out
}

const HEAD: &str = "# Reference of weir.toml

This page is printed from the program's own model by its tests. The same model gives
[weir.schema.json](weir.schema.json), which editors understand. `weir check FILE` reports every mistake of a
file at once. `weir check --show FILE` shows each route with what it inherits.

`${NAME}` in a text stands for an environment variable, and `${NAME:-default}` for one that may be missing.
`$${` is a literal `${`. Paths are relative to the file that names them. A site inherits from `[defaults]`,
and a route from its site.

";

/// Characters in a line of a page, tables apart.
const WIDTH_MAX: usize = 120;

struct Page<'a> {
    definitions: &'a Map<String, Json>,
    out: String,
}

impl Page<'_> {
    /// Follows a reference, or the only reference among alternatives.
    fn target<'b>(&'b self, schema: &'b Json) -> &'b Json {
        match schema.get("$ref").and_then(Json::as_str) {
            Some(reference) => &self.definitions[reference.rsplit('/').next().unwrap_or_default()],
            None => schema,
        }
    }

    /// A chapter for a table, then chapters for the tables in it.
    fn table(&mut self, path: &str, title: &str, schema: &Json) {
        let schema = self.target(schema).clone();
        let Some(properties) = schema.get("properties").and_then(Json::as_object) else { return };
        // Invariant: writing to a String does not fail.
        let _ = write!(self.out, "## {title}\n\n");
        if let Some(description) = schema.get("description").and_then(Json::as_str) {
            let _ = write!(self.out, "{}\n\n", wrapped(description));
        }
        let is_ruled = path == "[[site]]" || path == "[[site.route]]";
        let rules = self.definitions["Rules"]
            .get("properties")
            .and_then(Json::as_object)
            .cloned()
            .unwrap_or_default();
        self.out.push_str("| key | value | meaning |\n|---|---|---|\n");
        for (key, property) in properties {
            if is_ruled && rules.contains_key(key) {
                continue;
            }
            let (mut value, meaning) = (self.value_of(property), self.meaning(property));
            let is_required = schema
                .get("required")
                .and_then(Json::as_array)
                .is_some_and(|all| all.contains(&Json::from(key.as_str())));
            if is_required {
                value.push_str(", required");
            }
            let _ = writeln!(self.out, "| `{key}` | {value} | {meaning} |");
        }
        if is_ruled {
            self.out.push_str("| … | | all keys of [`[defaults]`](#defaults), which are inherited |\n");
        }
        self.out.push('\n');
        for (key, property) in properties {
            if !(is_ruled && rules.contains_key(key)) {
                self.inner(path, key, property);
            }
        }
    }

    /// The chapter of a key whose value is a table, a list of tables or tables by name.
    fn inner(&mut self, path: &str, key: &str, property: &Json) {
        let base = path.trim_matches(['[', ']']);
        let name = if base.is_empty() { key.to_owned() } else { format!("{base}.{key}") };
        let schema = self.target(property).clone();
        if schema.get("properties").is_some() {
            let title = format!("[{name}]");
            return self.table(&title, &format!("`{title}`"), &schema);
        }
        if let Some(items) =
            schema.get("items").filter(|items| self.target(items).get("properties").is_some())
        {
            let (title, items) = (format!("[[{name}]]"), items.clone());
            return self.table(&title, &format!("`{title}`"), &items);
        }
        let other = schema.get("additionalProperties").filter(|other| other.is_object());
        if let Some(other) = other.filter(|other| self.target(other).get("properties").is_some()) {
            let (title, other) = (format!("[{name}.NAME]"), other.clone());
            return self.table(&title, &format!("`{title}`"), &other);
        }
        let choices = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array().cloned());
        for choice in choices.into_iter().flatten().chain(schema.get("items").cloned()) {
            let tables = choice.get("anyOf").and_then(Json::as_array).cloned().unwrap_or(vec![choice]);
            for choice in tables {
                let resolved = self.target(&choice).clone();
                let is_shared = resolved.get("title").is_some();
                if is_file(&resolved) {
                    continue;
                }
                if resolved.get("properties").is_some() && !is_shared {
                    let title = format!("{name} = {{ … }}");
                    self.table(&name, &format!("`{title}`"), &resolved);
                }
                if let Some(Json::Array(inner)) = resolved.get("anyOf") {
                    for choice in inner.clone() {
                        let resolved = self.target(&choice).clone();
                        if resolved.get("properties").is_some() {
                            self.table(&name, &format!("`{name} = {{ … }}`"), &resolved);
                        }
                    }
                }
            }
        }
    }

    /// What a key may be: its kind, its words, its default.
    fn value_of(&self, property: &Json) -> String {
        let mut text = self.kind_of(property);
        if let Some(default) = property.get("default").filter(|default| is_plain(default)) {
            let _ = write!(text, ", default `{default}`");
        }
        text.replace('|', "\\|")
    }

    fn kind_of(&self, property: &Json) -> String {
        let schema = self.target(property);
        let choices = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
        if let Some(choices) = choices {
            let kinds: Vec<String> = choices.iter().map(|choice| self.kind_of(choice)).collect();
            return kinds.join(" or ");
        }
        if let Some(word) = schema.get("const") {
            return format!("`{word}`");
        }
        if let Some(Json::Array(words)) = schema.get("enum") {
            return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ");
        }
        let format = schema.get("format").and_then(Json::as_str).unwrap_or_default();
        match schema.get("type").and_then(Json::as_str).unwrap_or_default() {
            "object" if is_file(schema) => "`{ file = \"…\" }`".into(),
            "object" if schema.get("additionalProperties").is_some_and(Json::is_object) => {
                format!("by name: {}", self.kind_of(&schema["additionalProperties"]))
            }
            "object" => "table".into(),
            "array" => format!("list: {}", self.kind_of(&schema["items"])),
            "integer" => {
                let bound = |name| schema.get(name).and_then(Json::as_i64);
                match (bound("minimum"), bound("maximum")) {
                    (Some(min), Some(max)) => format!("{min} to {max}"),
                    _ => "whole number".into(),
                }
            }
            "number" => {
                let bound = |name| schema.get(name).and_then(Json::as_f64);
                match (bound("minimum"), bound("maximum")) {
                    (Some(min), Some(max)) => format!("number from {min} to {max}"),
                    _ => "number".into(),
                }
            }
            "boolean" => "`true` or `false`".into(),
            _ => match text_name(format) {
                "" => "text".into(),
                name => format!("[{name}](#{})", name.replace(' ', "-")),
            },
        }
    }

    /// The key's own sentence, and those of its words.
    fn meaning(&self, property: &Json) -> String {
        let schema = self.target(property);
        let own = property.get("description").or(schema.get("description")).and_then(Json::as_str);
        let mut text = flat(own.unwrap_or_default());
        if let Some(Json::Array(words)) = schema.get("oneOf") {
            for word in words {
                let meaning = word.get("description").and_then(Json::as_str);
                if let (Some(word), Some(meaning)) = (word.get("const"), meaning) {
                    let _ = write!(text, " `{word}`: {}", flat(meaning));
                }
            }
        }
        text.replace('|', "\\|")
    }

    /// The chapter about texts with a form.
    fn text_values(&mut self) {
        self.out.push_str("## Texts with a form\n\n");
        let mut named: Vec<(&str, &Json)> = Vec::new();
        for schema in self.definitions.values() {
            let format = schema.get("format").and_then(Json::as_str).unwrap_or_default();
            if !text_name(format).is_empty() {
                named.push((text_name(format), schema));
            }
        }
        named.sort_by_key(|(name, _)| *name);
        for (name, schema) in named {
            let description = schema.get("description").and_then(Json::as_str).unwrap_or_default();
            let sentence = capital(&flat(&format!("{description}.")));
            let _ = write!(self.out, "### {name}\n\n{}\n\n", wrapped(&sentence));
        }
        while self.out.ends_with("\n\n") {
            self.out.pop();
        }
    }
}

/// The name of a text's form in the reference; empty where a text is just a text.
fn text_name(format: &str) -> &'static str {
    match format {
        "weir-duration" => "duration",
        "weir-size" => "size",
        "weir-rate" => "rate",
        "weir-parameter-name" => "parameter name",
        "weir-listen" => "listening address",
        "weir-trusted-proxy" => "network",
        "weir-origin" => "origin",
        "weir-host-pattern" => "host pattern",
        "weir-host-rule" => "host rule",
        "weir-path-glob" => "path glob",
        "weir-path-prefix" => "path prefix",
        "weir-path-regex" => "path expression",
        "weir-field-name" => "field name",
        "weir-field-match" => "field condition",
        "weir-name-glob" => "name pattern",
        "weir-cookie-name" => "cookie name",
        "weir-method" => "method",
        "weir-template" => "target",
        "weir-path" => "path",
        "weir-file" => "file",
        "weir-file-glob" => "file pattern",
        "weir-directory" => "ACME directory",
        "weir-log-target" => "log target",
        _ => "",
    }
}

/// Whether a table is `{ file = "…" }`.
fn is_file(schema: &Json) -> bool {
    let properties = schema.get("properties").and_then(Json::as_object);
    properties.is_some_and(|properties| properties.len() == 1 && properties.contains_key("file"))
}

fn is_plain(json: &Json) -> bool {
    json.is_string() || json.is_number() || json.is_boolean()
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A paragraph in lines of at most [`WIDTH_MAX`] characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
