//! How a response's fields look to the client: without hop-by-hop fields, with `Via` and with what the
//! route sets and removes. Pure.

use http::HeaderMap;
use http::header::AGE;

use crate::plan::Route;
use crate::transform::response::towards_client;

/// The fields for the client; `Age`, `Cache-Status` and framing are printed apart.
pub(crate) fn fields(headers: &HeaderMap, route: &Route, own_id: &str) -> HeaderMap {
    let mut fields = headers.clone();
    fields.remove(AGE);
    towards_client(&mut fields, own_id);
    route.present(&mut fields);
    fields
}
