//! The reference, from the JSON Schema and so from the doc comments of the model. Only tests print it. Must
//! not hold a sentence about a key: the model has those.

use serde_json::{Map, Value as Json};
use std::fmt::Write;
use weir_policy::value::Scope;

/// The reference of `weir.toml` as Markdown.
fn markdown() -> String {
    let schema: Json = serde_json::from_str(&crate::schema::text()).unwrap_or_default();
    let definitions = schema.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
    let mut page = Page { definitions: &definitions, out: String::new() };
    page.out.push_str(HEAD);
    page.table("", "Top-level keys", &schema);
    page.text_values();
    page.placeholders();
    page.out
}

const HEAD: &str = "# Reference of weir.toml

This page is printed from the program's own model by its tests. The same model gives
[weir.schema.json](weir.schema.json), which editors understand. `weir check FILE` reports every mistake of a
file at once. `weir check --show FILE` shows each route with what it inherits.

`${NAME}` in a text stands for an environment variable, and `${NAME:-default}` for one that may be missing.
`$${` is a literal `${`. Paths are relative to the file that names them. A site inherits from `[defaults]`,
and a route from its site. Each chapter has examples, which tests load; what stands in `[defaults]` there may
stand in `[[site]]` and `[[site.route]]` as well.

";

/// The examples, by the titles of chapters.
const EXAMPLES: &str = include_str!("reference/examples.toml");

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
        self.examples(title);
        for (key, property) in properties {
            if !(is_ruled && rules.contains_key(key)) {
                self.inner(path, key, property);
            }
        }
    }

    /// The examples of a chapter.
    fn examples(&mut self, title: &str) {
        let title = title.trim_matches('`');
        let sections = EXAMPLES.split("\n#= ").skip(1).filter_map(|section| section.split_once('\n'));
        for (_, example) in sections.filter(|(name, _)| *name == title) {
            // Invariant: writing to a String does not fail.
            let _ = write!(self.out, "```toml\n{}\n```\n\n", example.trim());
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
                let items = resolved.get("items").map(|items| self.target(items).clone());
                if let Some(items) = items.filter(|items| items.get("properties").is_some()) {
                    let title = format!("[[{name}]]");
                    self.table(&title, &format!("`{title}`"), &items);
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
                let names = schema.get("propertyNames").and_then(|names| names.get("format"));
                let is_by_status =
                    names.and_then(Json::as_str).is_some_and(|format| format.ends_with("-statuses"));
                let by = if is_by_status { "status" } else { "name" };
                format!("by {by}: {}", self.kind_of(&schema["additionalProperties"]))
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

    /// The chapter about what stands between braces.
    fn placeholders(&mut self) {
        let (title, text) = PLACEHOLDERS.trim().split_once("\n\n").unwrap_or_default();
        let _ = write!(self.out, "\n{title}\n\n{}\n\n", wrapped(text));
        self.out.push_str("| placeholder | known in | stands for |\n|---|---|---|\n");
        for row in weir_policy::value::ROWS.iter().filter(|row| !matches!(row.name.as_bytes(), [b'2'..=b'9']))
        {
            let name =
                if row.name == "1" { "`{1}` to `{9}`".to_owned() } else { format!("`{{{}}}`", row.name) };
            let scopes: Vec<&str> = row.known_in().map(Scope::word).collect();
            let known = if scopes.len() == Scope::ALL.len() { "all".to_owned() } else { scopes.join(", ") };
            let _ = writeln!(self.out, "| {name} | {known} | {} |", row.meaning);
        }
    }
}

/// Above the table of placeholders.
const PLACEHOLDERS: &str = "
## Placeholders

In a text with placeholders, `{name}` stands for a part of the request or of its response, and `{{` and \
`}}` are braces. A field that is left without text is not sent. Filters follow a bar: `{name | default \
\"x\"}` gives a text where there is none, `{name | lower}` makes ASCII letters small, and `{name | json}` \
writes JSON: a string in quotes, or `null`. Of several fields, cookies or parameters of one name the \
first counts; in the key all of them do. Paths and queries are as received, never decoded. The columns \
say where a placeholder is known: in the *key*, in fields of *requests* to the origin and of *responses*, \
in *answers* and redirects of Weir's own, in the target of a *rewrite*, in what a *map* looks at, and in \
the *log*.
";

/// The name of a text's form in the reference; empty where a text is just a text.
fn text_name(format: &str) -> &'static str {
    match format {
        "weir-duration" => "duration",
        "weir-size" => "size",
        "weir-sent-path" => "sent path",
        "weir-authority" => "authority",
        "weir-status-ranges" => "status ranges",
        "weir-rate" => "rate",
        "weir-rate-limit" => "rate limit",
        "weir-upstream" => "upstream rule",
        "weir-hash-of" => "hash of",
        "weir-parameter-name" => "parameter name",
        "weir-session-of" => "session part",
        "weir-listen" => "listening address",
        "weir-trusted-proxy" => "network",
        "weir-origin" => "origin",
        "weir-nameserver" => "address",
        "weir-distributor" => "distributor",
        "weir-keep-answer" => "kept answer",
        "weir-host-pattern" => "host pattern",
        "weir-host-rule" => "host rule",
        "weir-route-host" => "host of a route",
        "weir-path-glob" => "path glob",
        "weir-path-prefix" => "path prefix",
        "weir-path-regex" => "path expression",
        "weir-field-name" => "field name",
        "weir-field-match" => "field condition",
        "weir-name-glob" => "name pattern",
        "weir-pair-match" => "pair condition",
        "weir-cookie-name" => "cookie name",
        "weir-method" => "method",
        "weir-target" => "target",
        "weir-rewrite" => "rewritten path",
        "weir-back" => "text mapped back",
        "weir-text-glob" => "text pattern",
        "weir-log-line" => "log line",
        "weir-map-of" => "mapped text",
        "weir-map-match" => "map condition",
        "weir-key-value" => "key value",
        "weir-path" => "path",
        "weir-file" => "file",
        "weir-file-name" => "file name",
        "weir-fallback" => "fallback",
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
    let is_list = |list: &[Json]| !list.is_empty() && list.iter().all(is_plain);
    json.is_string()
        || json.is_number()
        || json.is_boolean()
        || json.as_array().is_some_and(|list| is_list(list))
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

mod tests;
