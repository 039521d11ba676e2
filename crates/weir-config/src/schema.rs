//! Prints the JSON Schema of the file from the model, for the tests that compare it with the text that is
//! checked in. Must not be part of a program.

use crate::model::Config;
use schemars::{Schema, generate::SchemaSettings};
use serde_json::{Map, Value as Json};

/// The text of [`crate::JSON_SCHEMA`], as the model has it.
pub(crate) fn text() -> String {
    let mut text = serde_json::to_string_pretty(schema().as_value()).unwrap_or_default();
    text.push('\n');
    text
}

/// The JSON Schema of the file: every table is closed, and nothing is null, as TOML has none.
fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<Config>();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".into(), "weir.toml".into());
        object.values_mut().for_each(tidy);
        close(object);
    }
    schema
}

/// Removes null from all types, and closes all tables.
fn tidy(json: &mut Json) {
    match json {
        Json::Array(list) => list.iter_mut().for_each(tidy),
        Json::Object(object) => {
            object.values_mut().for_each(tidy);
            close(object);
            if let Some(Json::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [one] = kinds.as_slice() {
                    let one = one.clone();
                    object.insert("type".into(), one);
                }
            }
            let is_null = |choice: &Json| choice.get("type").is_some_and(|kind| kind == "null");
            if let Some(Json::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| !is_null(choice));
                if let [Json::Object(one)] = choices.as_slice() {
                    let one = one.clone();
                    object.shift_remove("anyOf");
                    one.into_iter().for_each(|(key, value)| {
                        object.entry(key).or_insert(value);
                    });
                }
            }
        }
        _ => {}
    }
}

fn close(object: &mut Map<String, Json>) {
    let is_table = object.get("properties").is_some_and(|properties| properties.is_object())
        && object.get("type").is_some_and(|kind| kind == "object");
    if is_table {
        object.insert("additionalProperties".into(), Json::Bool(false));
    }
}

/// Has a text type written by serde, for defaults, and gives it its JSON Schema.
macro_rules! text_schema {
    ($name:ident, $format:literal, $what:literal) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "format": $format, "description": $what })
            }
        }
    };
}
pub(crate) use text_schema;
