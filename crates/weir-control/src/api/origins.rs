//! The operations on origins.

use std::sync::Arc;

use http::StatusCode;

use super::acts::{entry, settled};
use crate::answer::{self, Answer, Refusal};
use crate::call::Call;
use crate::control::Control;
use crate::origins::{OriginOrder, OriginRefusal};
use crate::readings::MetricsOrder;

pub(super) fn list(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.origins()))
}

pub(super) fn change(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order: OriginOrder = call.content("a change of an origin")?;
    let mut entry = entry(call, "origin-change");
    entry.scope = serde_json::to_value(&order).unwrap_or_default();
    settled(control, entry, control.change_origin(&order).map_err(refusal))
}

pub(super) fn metrics(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.origin_metrics()))
}

/// What is pushed comes often and lapses by itself: only a refusal is in the history.
pub(super) fn push(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order: MetricsOrder = call.content("metrics of an origin")?;
    match control.push_metrics(&order).map_err(refusal) {
        Ok(pushed) => Ok(answer::ok(&pushed)),
        refused => {
            let mut entry = entry(call, "origin-metrics");
            entry.scope = serde_json::to_value(&order).unwrap_or_default();
            settled(control, entry, refused)
        }
    }
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
