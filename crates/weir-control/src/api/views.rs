//! The operations that only show.

use std::io;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};

use crate::answer::{self, Answer, Refusal};
use crate::call::{Call, Caller};
use crate::clock;
use crate::control::Control;
use crate::data_plane::Question;
use crate::history::Own;
use crate::query::{self, Form};
use crate::sites as accounts;

/// The content type of the CSV of accounts (RFC 4180 §3).
pub(super) const CSV: &str = "text/csv; charset=utf-8; header=present";
/// The field of a CSV answer that names files of the accounts that cannot be read as a whole.
const UNSOUND: HeaderName = HeaderName::from_static("weir-unsound");

pub(super) fn status(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.status()))
}

pub(super) fn certificates(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.inventory().certificates.all))
}

pub(super) fn volumes(control: &Arc<Control>, _: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&control.status().volumes))
}

pub(super) fn explain(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let question: Question = call.content("a question")?;
    let explained = control.explain(&question, own(&call.caller).as_ref());
    // The answer says which site it is about, however the question was written.
    if call.caller.sites.is_some() {
        let site = explained.as_ref().ok().and_then(|explained| explained.site.as_deref());
        call.caller.check_site(site)?;
    }
    Ok(answer::ok(&explained.map_err(Refusal::unfit)?))
}

pub(super) fn sites(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let (order, form) = query::read_sites(&call.query).map_err(Refusal::unfit)?;
    if let (Some(_), Some(named)) = (&call.caller.sites, &order.site) {
        call.caller.check_site(control.site_named(named).as_deref())?;
    }
    let mut sites = control.sites(&order).map_err(Refusal::unfit)?;
    if call.caller.sites.is_some() {
        sites.sites.retain(|account| call.caller.has(&account.site));
    }
    if form == Form::Json {
        return Ok(answer::ok(&sites));
    }
    let mut answer = answer::typed(StatusCode::OK, CSV, accounts::csv(&sites));
    let unsound: Vec<_> = sites.unsound_within().map(|unsound| unsound.file.as_str()).collect();
    // A text that is not a valid field value (RFC 9110 §5.5) is left out.
    if let Some(value) = HeaderValue::from_str(&unsound.join(", ")).ok().filter(|value| !value.is_empty()) {
        answer.headers_mut().insert(UNSOUND, value);
    }
    Ok(answer)
}

pub(super) fn history(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order = query::read_history(&call.query).map_err(Refusal::unfit)?;
    let mut order = order.checked(clock::wall()).map_err(Refusal::unfit)?;
    let site = order.site.as_deref().and_then(|named| control.site_named(named));
    let is_configured = site.is_some();
    if order.site.is_some() {
        call.caller.check_site(site.as_deref())?;
        // Sites that the configuration no longer has are in the history still.
        order.site = site.or(order.site);
    }
    let own = own(&call.caller);
    let (shown, has_site) = control.history(&order, own.as_ref()).map_err(unread)?;
    match &order.site {
        Some(named) if !is_configured && !has_site => {
            Err(Refusal::unfit(format!("no site is named {named}, and the history has none of that name")))
        }
        _ => Ok(answer::ok(&shown)),
    }
}

pub(super) fn retentions(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let shown = control.retentions(own(&call.caller).as_ref()).map_err(unread)?;
    Ok(answer::ok(&shown))
}

/// What a caller sees of the history, where that is not all.
fn own(caller: &Caller) -> Option<Own<'_>> {
    caller.sites.as_deref().map(|sites| Own { sites, actor: caller.actor.to_string() })
}

fn unread(error: io::Error) -> Refusal {
    let message = format!("cannot read the history: {error}");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "state-folder", message)
}

/// The site that a caller with sites means: the one it names, or its only one.
pub(super) fn own_site(control: &Control, caller: &Caller, named: Option<&str>) -> Result<String, Refusal> {
    match (named, caller.sites.as_deref()) {
        (None, Some([only])) => Ok(only.clone()),
        (None, Some(own)) => {
            Err(Refusal::unfit("this token has several sites")
                .help(format!("name one of {}", own.join(", "))))
        }
        (named, _) => {
            let site = named.and_then(|named| control.site_named(named));
            caller.check_site(site.as_deref())?;
            Ok(site.unwrap_or_default())
        }
    }
}
