//! The operations on origins.

use std::sync::Arc;

use http::StatusCode;

use super::acts::{entry, settled};
use crate::answer::{self, Answer, Refusal};
use crate::call::Call;
use crate::control::Control;
use crate::origins::{OriginOrder, OriginRefusal};

pub(super) fn list(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.origins()))
}

pub(super) fn change(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order: OriginOrder = call.content("a change of an origin")?;
    let mut entry = entry(call, "origin-change");
    entry.scope = serde_json::to_value(&order).unwrap_or_default();
    settled(control, entry, control.change_origin(&order).map_err(refusal))
}

fn refusal(refused: OriginRefusal) -> Refusal {
    let message = refused.to_string();
    match refused {
        OriginRefusal::Unknown { help, .. } => {
            Refusal::new(StatusCode::NOT_FOUND, "unknown-origin", message).help(help)
        }
        OriginRefusal::Unfit(_) => Refusal::unfit(message),
        OriginRefusal::Contradiction(_) => Refusal::new(StatusCode::CONFLICT, "contradiction", message),
        OriginRefusal::Unkept(_) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "state-folder", message)
            .help("mend the state folder and order it again"),
    }
}
