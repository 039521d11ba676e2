//! The OpenAPI 3.1 document of the API: the text that is checked in. The tests print it from the table
//! (`document.rs`) and compare, so that no program carries what prints it (ADR 0092).

use std::sync::Arc;

use http::StatusCode;

use crate::answer::{self, Answer, JSON, Refusal};
use crate::call::Call;
use crate::control::Control;

/// The document, indented, with a line break at its end.
const TEXT: &str = include_str!("../../../../docs/guide/openapi.json");

pub(super) fn show(_: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::typed(StatusCode::OK, JSON, TEXT))
}
