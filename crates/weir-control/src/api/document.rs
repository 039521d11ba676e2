//! Prints the OpenAPI 3.1 document of the API from its table, for the tests that compare it with the text
//! that is checked in. Its schemas are JSON Schema 2020-12, as the types have them. Must not be part of a
//! program.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::operation::{Act, Operation, Reach, VERSION};
use super::table::TABLE;
use super::views::CSV;
use crate::answer::{JSON, Refused};
use crate::call::Role;
use crate::data_plane::{Counted, Verified};

const DESCRIPTION: &str = "\
The same on the control socket, where every process that may open it may do all, and on the admin listener, \
where all but `/metrics` and `/health/*` needs a token: `Authorization: Bearer`. `x-role` says which role an \
operation needs (`admin` may do all), and `x-sites` what a token gets that is limited to sites: `own` \
concerns those alone, `whole` is refused.";
const SERVER: &str = "http://127.0.0.1:9180";

/// The document, indented, with a line break at its end.
pub(super) fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    // What is asked and what is answered have separate contracts: a field with a default may be missing in
    // the one, and is always there in the other.
    let mut asked = settings.clone().into_generator();
    let mut told = settings.for_serialize().into_generator();
    let refused = told.subschema_for::<Refused>();
    let mut paths = Map::new();
    for row in TABLE {
        let here = paths.entry(row.path).or_insert_with(|| json!({}));
        here[row.method.as_str().to_ascii_lowercase()] = operation(row, &mut asked, &mut told);
    }
    // What jobs find.
    drop((told.subschema_for::<Counted>(), told.subschema_for::<Verified>()));
    let mut schemas = asked.take_definitions(true);
    schemas.extend(told.take_definitions(true));
    schemas.sort_keys();
    schemas.values_mut().for_each(join_words);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": SERVER, "description": "The admin listener, where it is by default." }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Refused": {
                    "description": "Why the request is refused: a word, a sentence, and what to do.",
                    "content": { JSON: { "schema": refused } },
                },
            },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Writes a choice of words, which generators of clients read one by one, as one list of them.
fn join_words(schema: &mut Value) {
    let words = schema["oneOf"].as_array().and_then(|all| {
        let word = |one: &Value| one["const"].as_str().map(str::to_owned);
        all.iter().map(word).collect::<Option<Vec<String>>>()
    });
    if let (Some(words), Some(schema)) = (words, schema.as_object_mut()) {
        schema.remove("oneOf");
        schema.insert("type".to_owned(), Value::from("string"));
        schema.insert("enum".to_owned(), Value::from(words));
    }
}

fn operation(row: &Operation, asked: &mut SchemaGenerator, told: &mut SchemaGenerator) -> Value {
    let forms = row.output.forms.iter().map(|form| {
        let schema = if *form == CSV {
            json!({ "type": "string" })
        } else {
            (row.output.schema.print)(told).to_value()
        };
        ((*form).to_owned(), json!({ "schema": schema }))
    });
    let content: Map<String, Value> = forms.collect();
    let status = row.output.status.as_str();
    let mut operation = json!({
        "operationId": id(row),
        "summary": row.summary,
        "x-role": row.role.map_or("any", Role::word),
        "x-sites": match row.reach { Reach::Whole => "whole", Reach::OwnSites => "own" },
        "responses": {
            status: { "description": row.output.meaning, "content": content },
            "default": { "$ref": "#/components/responses/Refused" },
        },
    });
    let parameters = parameters(row);
    if !parameters.is_empty() {
        operation["parameters"] = Value::from(parameters);
    }
    if let Act::Takes(_) = row.act {
        let any = json!({ "type": "string", "format": "binary" });
        operation["requestBody"] = json!({ "required": true, "content": { "*/*": { "schema": any } } });
    }
    if let Some(input) = &row.input {
        operation["requestBody"] =
            json!({ "required": true, "content": { JSON: { "schema": (input.print)(asked) } } });
    }
    operation
}

fn parameters(row: &Operation) -> Vec<Value> {
    let variable = row.path.split_once('{').map(|(_, name)| name.trim_end_matches('}'));
    let in_path = variable.map(|name| {
        json!({
            "name": name, "in": "path", "required": true, "schema": { "type": "string" },
        })
    });
    let in_query = row.query.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": "query",
            "description": parameter.meaning,
            "schema": { "type": parameter.kind },
        })
    });
    in_path.into_iter().chain(in_query).collect()
}

/// `getJobsId`.
fn id(row: &Operation) -> String {
    let words = row.path.trim_start_matches(VERSION).split(['/', '{', '}', '.', '-']);
    let mut id = row.method.as_str().to_ascii_lowercase();
    for word in words.filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        id.push_str(&first.to_ascii_uppercase());
        id.push_str(rest);
    }
    id
}

pub(super) fn line_of_text(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string" })
}

pub(super) fn any(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

pub(super) fn line(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "object",
        "description": "A line, or the `data` of an event. `event` is `dropped` where `count` of them were.",
        "properties": {
            "time": { "type": "string", "format": "date-time" },
            "event": { "type": "string" },
            "count": { "type": "integer" },
        },
        "additionalProperties": true,
    })
}
