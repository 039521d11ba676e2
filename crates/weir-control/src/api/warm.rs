//! The operations that begin a warming and send its list.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::acts::{entry, settled};
use super::jobs::{accepted, find_own};
use crate::answer::{self, Answer, Refusal};
use crate::call::{Call, Door};
use crate::control::Control;
use crate::data_plane::{WarmBy, WarmOrder, WarmPiece, WarmRefusal, WarmTaken};

/// Begins a warming.
pub(super) fn begin(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order: WarmOrder = call.content("a warming")?;
    let mut entry = entry(call, "warm");
    entry.scope = scope(&order);
    let begun = may(control, call, &order).and_then(|()| {
        let by = WarmBy {
            actor: call.caller.actor.to_string(),
            owner: call.caller.identity.clone(),
            sites: call.caller.sites.clone(),
            entry: None,
        };
        control.warm(&order, by)
    });
    let begun = begun.map(|job| job.shown());
    settled(control, entry, begun.as_ref().map(|_| ()).map_err(Clone::clone))?;
    begun.map(|job| accepted(&job))
}

/// What the history says of it.
fn scope(order: &WarmOrder) -> Value {
    let mut scope = json!({ "urls": order.urls.len(), "sitemaps": order.sitemaps });
    if let Some(folder) = &order.folder {
        scope["folder"] = json!(folder.path.to_string_lossy());
        scope["url"] = json!(folder.url);
    }
    scope
}

/// Refuses what the caller may not order.
fn may(control: &Control, call: &Call, order: &WarmOrder) -> Result<(), Refusal> {
    if order.folder.is_some() && call.caller.door != Door::Socket {
        let message = "only the control socket may name a folder";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "folder", message)
            .help("run `weir warm --folder` on the machine of this Weir"));
    }
    own(control, call, order.urls.iter().chain(&order.sitemaps))
}

/// Refuses URLs of other sites than the caller's.
fn own<'u>(control: &Control, call: &Call, urls: impl Iterator<Item = &'u String>) -> Result<(), Refusal> {
    if call.caller.sites.is_none() {
        return Ok(());
    }
    // A fragment is never sent.
    let mut sent = urls.map(|url| url.split('#').next().unwrap_or_default());
    sent.try_for_each(|url| call.caller.check_site(control.site_of_url(url).as_deref()))
}

/// Takes a further piece of the list of a warming.
pub(super) fn add(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let piece: WarmPiece = call.content("a piece of a list")?;
    let job = find_own(control, call)?;
    own(control, call, piece.urls.iter())?;
    let urls = control.warm_more(job.id(), &piece).map_err(refusal)?;
    Ok(answer::ok(&WarmTaken { urls }))
}

/// What is answered where a warming is not taken.
pub(crate) fn refusal(why: WarmRefusal) -> Refusal {
    let message = why.to_string();
    match why {
        WarmRefusal::Unfit(_) => Refusal::unfit(message),
        WarmRefusal::Busy(_) => Refusal::new(StatusCode::CONFLICT, "job", message).help("see `weir jobs`"),
        WarmRefusal::Unknown(_) => Refusal::new(StatusCode::NOT_FOUND, "unknown-job", message),
        WarmRefusal::Gap(_) => {
            Refusal::new(StatusCode::CONFLICT, "gap", message).help("send what is missing")
        }
        WarmRefusal::StateFolder(_) => {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "state-folder", message)
        }
    }
}
