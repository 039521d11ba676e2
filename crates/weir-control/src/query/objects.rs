//! The query of `/v1/objects`.

use super::{LIMIT, encode, fields, limit};
use crate::data_plane::ListOrder;

/// The path.
pub const OBJECTS: &str = "/v1/objects";

/// The parameters whose values are texts.
const TEXTS: [(&str, fn(&mut ListOrder) -> &mut Option<String>); 13] = [
    ("site", |order| &mut order.site),
    ("prefix", |order| &mut order.prefix),
    ("tag", |order| &mut order.tag),
    ("match", |order| &mut order.matching),
    ("status", |order| &mut order.status),
    ("type", |order| &mut order.media_type),
    ("size", |order| &mut order.size),
    ("age", |order| &mut order.age),
    ("freshness", |order| &mut order.freshness),
    ("held", |order| &mut order.held),
    ("place", |order| &mut order.place),
    ("sort", |order| &mut order.sort),
    ("after", |order| &mut order.after),
];

/// Path and query for an order.
pub fn write(order: &ListOrder) -> String {
    let mut text = format!("{OBJECTS}?limit={}", order.limit);
    let mut order = order.clone();
    for (name, field) in TEXTS {
        if let Some(value) = field(&mut order) {
            text += &format!("&{name}=");
            encode(&mut text, value);
        }
    }
    if let Some(by_hand) = order.by_hand {
        text += &format!("&by-hand={}", u8::from(by_hand));
    }
    if order.is_sum {
        text += "&sum=1";
    }
    text
}

/// What a query asks for.
///
/// # Errors
/// A sentence.
pub(crate) fn read(query: &str) -> Result<ListOrder, String> {
    let mut order = ListOrder { limit: LIMIT, ..ListOrder::default() };
    for field in fields(query) {
        let (name, value) = field?;
        if let Some((_, text)) = TEXTS.iter().find(|(own, _)| *own == name) {
            *text(&mut order) = Some(value);
            continue;
        }
        match (name, value.as_str()) {
            ("limit", _) => order.limit = limit(&value)?,
            ("by-hand", "0" | "1") => order.by_hand = Some(value == "1"),
            ("sum", "0" | "1") => order.is_sum = value == "1",
            ("by-hand" | "sum", _) => return Err(format!("{name} is 0 or 1")),
            _ => {
                let names = TEXTS.map(|(name, _)| name).join(", ");
                return Err(format!("{name} is not known; there are {names}, by-hand, sum and limit"));
            }
        }
    }
    Ok(order)
}
