//! What an entry may hold: bounds for what its actor chooses. The first of many things are kept, and their
//! number.

use serde_json::{Map, Value};

use crate::lines::plain_json;

/// The longest scope in bytes of JSON.
pub(super) const SCOPE_BYTES_MAX: usize = 2 << 10;
/// Of these, bytes for the marks of what is cut.
const MARKS_BYTES: usize = 512;
/// Where fewer bytes are left, no more things are kept.
const LEFT_BYTES_MIN: usize = 128;
/// Fields of an object among which what is left is shared.
const FIELDS: usize = 8;
/// The longest other text in bytes of JSON.
const TEXT_BYTES_MAX: usize = 1 << 10;
/// Sites of an entry.
const SITES_MAX: usize = 256;

/// A scope that is not longer than the bound.
pub(super) fn scope(scope: Value) -> Value {
    if length(&scope) <= SCOPE_BYTES_MAX {
        return scope;
    }
    let short = cut(&scope, &mut (SCOPE_BYTES_MAX - MARKS_BYTES));
    // Deeply nested: no order of the API is.
    if length(&short) <= SCOPE_BYTES_MAX {
        short
    } else {
        Value::from(format!("{} bytes of JSON", length(&scope)))
    }
}

/// A text that is not longer than the bound.
pub(super) fn text(text: &str) -> Value {
    Value::from(begin(text, TEXT_BYTES_MAX))
}

/// Sites, and how many there are where that is too many.
pub(super) fn sites(sites: &[String]) -> Value {
    let more = (sites.len() > SITES_MAX).then(|| in_all(sites.len()));
    Value::Array(sites.iter().take(SITES_MAX).map(|site| Value::from(&**site)).chain(more).collect())
}

fn in_all(count: usize) -> Value {
    Value::from(format!("… {count} in all"))
}

/// Takes what it keeps from `left` bytes.
fn cut(value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            // Half of what is left: one long tag does not hide the next ones.
            let short = begin(text, *left / 2);
            *left = left.saturating_sub(escaped(&short));
            Value::from(short)
        }
        Value::Array(all) => {
            let mut kept = Vec::new();
            for one in all {
                if *left < LEFT_BYTES_MIN {
                    break;
                }
                kept.push(cut(one, left));
                *left = left.saturating_sub(1);
            }
            if kept.len() < all.len() {
                kept.push(in_all(all.len()));
            }
            Value::Array(kept)
        }
        Value::Object(all) => {
            let mut kept = Map::new();
            for (at, (name, one)) in all.iter().enumerate() {
                if *left < LEFT_BYTES_MIN {
                    break;
                }
                let name = begin(name, *left / 2);
                *left = left.saturating_sub(escaped(&name) + 2);
                // A part each: many tags do not hide the pattern beside them.
                let share = *left / (all.len() - at).min(FIELDS);
                let mut own_left = share;
                kept.insert(name, cut(one, &mut own_left));
                *left -= share - own_left;
            }
            Value::Object(kept)
        }
        plain => {
            *left = left.saturating_sub(length(plain));
            plain.clone()
        }
    }
}

/// The beginning of a text, and how long all of it is where that is longer than `bytes_max` of JSON.
fn begin(text: &str, bytes_max: usize) -> String {
    if escaped(text) <= bytes_max {
        return text.to_owned();
    }
    let mut left = bytes_max;
    let fits = |c: &char| {
        let bytes = escaped(c.encode_utf8(&mut [0; 4]));
        left = left.saturating_sub(bytes - 2);
        left > 0
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    kept += &format!("… ({} bytes)", text.len());
    kept
}

/// Its bytes as a text of JSON.
fn escaped(text: &str) -> usize {
    plain_json(&text).map_or(usize::MAX / 2, |json| json.len())
}

fn length(value: &Value) -> usize {
    plain_json(value).map_or(usize::MAX, |json| json.len())
}
