//! The query of `/v1/objects`.

use super::{LIMIT, encode, fields, limit};
use crate::data_plane::ListOrder;

/// The path.
pub const OBJECTS: &str = "/v1/objects";

/// Path and query for an order.
pub fn write(order: &ListOrder) -> String {
    let mut text = format!("{OBJECTS}?limit={}", order.limit);
    let fields =
        [("site", &order.site), ("prefix", &order.prefix), ("tag", &order.tag), ("after", &order.after)];
    for (name, value) in fields {
        if let Some(value) = value {
            text += &format!("&{name}=");
            encode(&mut text, value);
        }
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
        match name {
            "site" => order.site = Some(value),
            "prefix" => order.prefix = Some(value),
            "tag" => order.tag = Some(value),
            "after" => order.after = Some(value),
            "limit" => order.limit = limit(&value)?,
            _ => return Err(format!("{name} is not known; there are site, prefix, tag, limit and after")),
        }
    }
    Ok(order)
}
