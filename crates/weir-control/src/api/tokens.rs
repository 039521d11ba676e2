//! The operations on tokens.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::acts::{entry, settled};
use crate::answer::{self, Answer, Refusal};
use crate::call::Call;
use crate::clock;
use crate::control::Control;
use crate::tokens::{TokenError, TokenOrder};

pub(super) fn list(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.tokens().list(clock::wall()).map_err(refusal)?))
}

pub(super) fn add(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let mut order: TokenOrder = call.content("a token")?;
    let mut entry = entry(call, "token-add");
    entry.scope = serde_json::to_value(&order).unwrap_or_default();
    let made = named(control, &order.sites).and_then(|sites| {
        order.sites = sites;
        control.tokens().add(order, clock::wall()).map_err(refusal)
    });
    settled(control, entry, made)
}

pub(super) fn remove(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let mut entry = entry(call, "token-remove");
    entry.scope = Value::from(call.name.as_str());
    settled(control, entry, control.tokens().remove(&call.name, clock::wall()).map_err(refusal))
}

/// The names of these sites, each by its name or a host.
fn named(control: &Control, sites: &[String]) -> Result<Vec<String>, Refusal> {
    let name = |site: &String| {
        let found = control.site_named(site);
        found.ok_or_else(|| {
            Refusal::unfit(format!("no site is named {site}")).help("see `weir sites` for their names")
        })
    };
    sites.iter().map(name).collect()
}

fn refusal(error: TokenError) -> Refusal {
    let (status, word) = match &error {
        TokenError::Name | TokenError::TooLong => (StatusCode::UNPROCESSABLE_ENTITY, "unfit"),
        TokenError::Taken(_) | TokenError::TooMany => (StatusCode::CONFLICT, "token-taken"),
        TokenError::Unknown(_) => (StatusCode::NOT_FOUND, "unknown-token"),
        TokenError::File(_) => (StatusCode::INTERNAL_SERVER_ERROR, "state-folder"),
    };
    Refusal::new(status, word, error.to_string())
}
