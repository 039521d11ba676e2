//! The JSON Schema of the file, and the same in a form for checks: references resolved, alternatives told
//! apart by kind. Must not name a key of the model.
//!
//! The schema is the text that is checked in. The tests print it from the model (`schema.rs`) and compare, so
//! that no program carries what prints it (ADR 0092).

use serde_json::{Map, Value as Json};
use std::sync::LazyLock;

/// What a value may be.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A text; the format names its check.
    Text(Option<String>),
    /// One of a few words.
    Words(Vec<String>),
    /// A whole number, bounds included.
    Integer {
        min: i64,
        max: i64,
    },
    /// A number, bounds included.
    Number {
        min: f64,
        max: f64,
    },
    Bool,
    List {
        item: Box<Shape>,
        length_min: usize,
    },
    Table(TableShape),
    /// Any of these, told apart by the kind of the value.
    Either(Vec<Shape>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TableShape {
    pub keys: Vec<(String, Shape)>,
    pub required: Vec<String>,
    /// What any other key may have; `None`: no other key is allowed.
    pub other: Option<Box<Shape>>,
    /// The check of other keys.
    pub other_format: Option<String>,
}

/// The JSON Schema of `weir.toml`, indented, with a line break at its end.
pub const JSON_SCHEMA: &str = include_str!("../../../docs/guide/weir.schema.json");

/// The shape of the whole file.
pub(crate) static CONFIG: LazyLock<Shape> = LazyLock::new(|| {
    // Invariant: a test compares the text with what the model prints.
    let mut schema: Json = serde_json::from_str(JSON_SCHEMA).unwrap_or_default();
    let definitions = match schema.get_mut("$defs").map(Json::take) {
        Some(Json::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    compile(&schema, &definitions)
});

/// A schema as a shape. Invariant: the model has no recursive type, so this ends.
fn compile(json: &Json, definitions: &Map<String, Json>) -> Shape {
    if let Some(reference) = json.get("$ref").and_then(Json::as_str) {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return compile(&definitions[name], definitions);
    }
    for alternatives in ["anyOf", "oneOf"] {
        if let Some(Json::Array(choices)) = json.get(alternatives) {
            return either(choices.iter().map(|choice| compile(choice, definitions)).collect());
        }
    }
    if let Some(Json::Array(words)) = json.get("enum") {
        return Shape::Words(words.iter().filter_map(Json::as_str).map(str::to_owned).collect());
    }
    if let Some(word) = json.get("const").and_then(Json::as_str) {
        return Shape::Words(vec![word.to_owned()]);
    }
    match json.get("type").and_then(Json::as_str) {
        Some("object") => Shape::Table(compile_table(json, definitions)),
        Some("array") => Shape::List {
            item: Box::new(compile(&json["items"], definitions)),
            length_min: json.get("minItems").and_then(Json::as_u64).unwrap_or(0) as usize,
        },
        Some("integer") => Shape::Integer {
            min: json.get("minimum").and_then(Json::as_i64).unwrap_or(0),
            max: json.get("maximum").and_then(Json::as_i64).unwrap_or(i64::MAX),
        },
        Some("number") => Shape::Number {
            min: json.get("minimum").and_then(Json::as_f64).unwrap_or(0.0),
            max: json.get("maximum").and_then(Json::as_f64).unwrap_or(f64::MAX),
        },
        Some("boolean") => Shape::Bool,
        _ => Shape::Text(json.get("format").and_then(Json::as_str).map(str::to_owned)),
    }
}

/// Joins alternatives that are words to one, and one alternative to itself.
fn either(shapes: Vec<Shape>) -> Shape {
    let mut words = Vec::new();
    let mut others = Vec::new();
    for shape in shapes {
        match shape {
            Shape::Words(more) => words.extend(more),
            other => others.push(other),
        }
    }
    // A text that may be any name is checked where the names are known.
    if !words.is_empty() && !others.iter().any(|other| matches!(other, Shape::Text(_))) {
        others.insert(0, Shape::Words(words));
    }
    match others.len() {
        1 => others.remove(0),
        _ => Shape::Either(others),
    }
}

fn compile_table(json: &Json, definitions: &Map<String, Json>) -> TableShape {
    let mut table = TableShape::default();
    if let Some(Json::Object(properties)) = json.get("properties") {
        table.keys =
            properties.iter().map(|(key, schema)| (key.clone(), compile(schema, definitions))).collect();
    }
    if let Some(Json::Array(required)) = json.get("required") {
        table.required = required.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    }
    if let Some(other) = json.get("additionalProperties").filter(|other| other.is_object()) {
        table.other = Some(Box::new(compile(other, definitions)));
    }
    table.other_format = json
        .get("propertyNames")
        .and_then(|names| names.get("format"))
        .and_then(Json::as_str)
        .map(str::to_owned);
    table
}
