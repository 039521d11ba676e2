//! `client`: of a pass. For a fill everything is `()`, since its answer is for everybody.

use rhai::{Dynamic, Engine, EvalAltResult};

use crate::frame;

/// The client.
#[derive(Clone, Copy)]
pub(crate) struct ClientView;

pub(super) fn register(engine: &mut Engine) {
    engine
        .register_type_with_name::<ClientView>("client")
        .register_get("address", address)
        .register_get("network", network)
        .register_get("port", port)
        .register_get("session", session);
}

fn address(_: &mut ClientView) -> Result<Dynamic, Box<EvalAltResult>> {
    of(|frame| Some(frame.asked.client()?.ip().to_canonical().to_string().into()))
}

fn network(_: &mut ClientView) -> Result<Dynamic, Box<EvalAltResult>> {
    of(|frame| Some(frame::network(frame.asked.client()?.ip()).into()))
}

/// `()` as well where a proxy did not say it.
fn port(_: &mut ClientView) -> Result<Dynamic, Box<EvalAltResult>> {
    of(|frame| {
        let port = frame.asked.client()?.port();
        (port != 0).then(|| i64::from(port).into())
    })
}

fn session(_: &mut ClientView) -> Result<Dynamic, Box<EvalAltResult>> {
    of(|frame| {
        let session = frame.asked.about.session.as_deref().filter(|_| frame.asked.is_pass())?;
        Some(session.into())
    })
}

fn of(part: impl FnOnce(&frame::Frame<'_>) -> Option<Dynamic>) -> Result<Dynamic, Box<EvalAltResult>> {
    frame::with(|frame| part(frame).unwrap_or(Dynamic::UNIT))
}
