//! Events as they happen, and what all streams have in common.

use std::sync::Arc;

use http::StatusCode;
use weir_observe::EventKind;

use crate::answer::{self, Refusal, Waiting};
use crate::call::Call;
use crate::control::Control;
use crate::query;
use crate::streams::{Form, Hearing, Stream};

/// Events as they happen.
pub(super) fn events(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let order = query::read_live(&call.query, &EventKind::ALL.map(EventKind::word));
        let order = order.map_err(Refusal::unfit)?;
        let kinds = EventKind::ALL.into_iter().filter(|kind| order.has(kind.word()));
        let bits = kinds.fold(0, |bits, kind| bits | kind as u32);
        let (hearing, stream) = hearing(&control, &call, order.site.as_deref())?;
        control.observatory().events.listen(bits, Box::new(hearing)).map_err(|error| {
            let message = format!("cannot start a thread: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "thread", message)
        })?;
        Ok(answer::stream(stream))
    })
}

/// The site that is named, or the caller's sites; `None` for all.
pub(super) fn sites(
    control: &Control,
    call: &Call,
    named: Option<&str>,
) -> Result<Option<Vec<String>>, Refusal> {
    let Some(named) = named else { return Ok(call.caller.sites.clone()) };
    let site = control.site_named(named);
    call.caller.check_site(site.as_deref())?;
    let site = site.ok_or_else(|| control.unknown_site(&call.caller, named))?;
    Ok(Some(vec![site]))
}

/// A listener to what concerns the site that is named, or the caller's sites, and its stream.
pub(super) fn hearing(
    control: &Arc<Control>,
    call: &Call,
    named: Option<&str>,
) -> Result<(Hearing, Stream), Refusal> {
    let sites = sites(control, call, named)?;
    let form = call.form.unwrap_or(Form::Lines);
    let (sending, stream) = control.open_stream(&call.caller, form)?;
    Ok((Hearing { sending, sites }, stream))
}
