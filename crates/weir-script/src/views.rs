//! What a script sees: its four arguments and the types that come from them. Each is a name without content;
//! what it says is read from the current call. They must not change anything but the state.

mod client;
mod origins;
mod request;
mod state;
mod texts;

use http::StatusCode;
use rhai::{Engine, EvalAltResult};
use weir_upstream::Denial;

pub(crate) use client::ClientView;
pub(crate) use origins::{Origin, OriginList};
pub(crate) use request::RequestView;
pub(crate) use state::StateView;

use crate::frame::refusal;

/// A refusal that the script asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenialView(pub(crate) Denial);

/// Makes all of them known to an engine.
pub(crate) fn register(engine: &mut Engine) {
    request::register(engine);
    client::register(engine);
    origins::register(engine);
    state::register(engine);
    engine
        .register_type_with_name::<DenialView>("denial")
        .register_fn("deny", |status: i64| denial(status, None))
        .register_fn("deny", |status: i64, seconds: i64| denial(status, Some(seconds)));
}

fn denial(status: i64, seconds: Option<i64>) -> Result<DenialView, Box<EvalAltResult>> {
    let known = u16::try_from(status).ok().filter(|status| (400..=599).contains(status));
    let status = known.and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.ok_or_else(|| refusal("`deny` takes a status of 400 to 599"))?;
    let retry_after_s = match seconds {
        None => None,
        Some(seconds) => {
            let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds <= 86_400);
            Some(seconds.ok_or_else(|| refusal("`deny` takes 0 to 86400 seconds"))?)
        }
    };
    Ok(DenialView(Denial { status, retry_after_s }))
}
