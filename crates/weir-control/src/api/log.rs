//! The operations of the log: its lines as they are made, and what was kept of the past.

use std::sync::Arc;

use http::StatusCode;
use weir_observe::{Condition, ReadBy, TooManyReaders, Wish};

use super::live::{hearing, sites};
use crate::answer::{self, Answer, Refusal, Waiting};
use crate::call::{Call, Caller, Door};
use crate::control::Control;
use crate::past::PastShown;
use crate::query::{LogKind, LogOrder, read_log};

/// Lines of a log as they are made, whether or not it is configured.
pub(super) fn log(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let order = read_log(&call.query).map_err(Refusal::unfit)?;
        let condition = condition(&control, &call, &order)?;
        let (hearing, stream) = hearing(&control, &call, order.site.as_deref())?;
        let wish =
            Wish { condition, sites: hearing.sites.clone(), detail: order.detail, by: by(&call.caller) };
        let listener = Box::new(hearing);
        let heard = match order.kind {
            LogKind::Origin => control.observatory().hear_asked(listener, wish),
            LogKind::Access => control.observatory().hear_requests(listener, wish),
        };
        heard.map_err(busy)?;
        Ok(answer::stream(stream))
    })
}

/// The last requests that failed, were cut, whose client left, or that were slow.
pub(super) fn past(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order = read_log(&call.query).map_err(Refusal::unfit)?;
    if order.kind != LogKind::Access {
        return Err(Refusal::unfit("of the past there are requests of clients alone"));
    }
    let condition = condition(control, call, &order)?;
    let sites = sites(control, call, order.site.as_deref())?;
    let list =
        control.observatory().past(&Wish { condition, sites, detail: order.detail, ..Wish::default() });
    Ok(answer::ok(&PastShown::of(&list)))
}

/// The condition of an order, with sites that there are. A token of some sites knows of no others.
fn condition(control: &Control, call: &Call, order: &LogOrder) -> Result<Option<Condition>, Refusal> {
    let Some(mut condition) = order.read_condition().map_err(Refusal::unfit)? else { return Ok(None) };
    let named = |name: &str| control.site_named(name).filter(|site| call.caller.has(site));
    condition.name_sites(&named).map_err(|name| control.unknown_site(&call.caller, &name))?;
    Ok(Some(condition))
}

/// Whose place a reader takes.
fn by(caller: &Caller) -> ReadBy {
    match caller.door {
        Door::Socket => ReadBy::Socket,
        Door::Listener => ReadBy::Token(caller.sites.clone()),
    }
}

fn busy(error: TooManyReaders) -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error.to_string())
        .help("close some of them, and try again")
}
