//! `state`: what is remembered between requests.

use rhai::{Dynamic, Engine, EvalAltResult};

use crate::frame::{self, refusal};
use crate::state::StateError;

type Said<T> = Result<T, Box<EvalAltResult>>;

/// What is remembered.
#[derive(Clone, Copy)]
pub(crate) struct StateView;

pub(super) fn register(engine: &mut Engine) {
    engine
        .register_type_with_name::<StateView>("state")
        .register_fn("count", |_: &mut StateView, key: Dynamic, seconds: i64| -> Said<i64> {
            said(&key, |key, frame| frame.state.count(key, seconds, frame.owner(), frame.now))
        })
        .register_fn("counted", |_: &mut StateView, key: Dynamic, seconds: i64| -> Said<i64> {
            said(&key, |key, frame| frame.state.counted(key, seconds, frame.now))
        })
        .register_fn("get", |_: &mut StateView, key: Dynamic| -> Said<Dynamic> {
            said(&key, |key, frame| Ok(frame.state.value(key, frame.now)))
        })
        .register_fn("set", |_: &mut StateView, key: Dynamic, value: Dynamic, seconds: i64| -> Said<()> {
            let whose = |frame: &frame::Frame<'_>| (frame.owner(), frame.now);
            said(&key, |key, frame| frame.state.set(key, &value, seconds, whose(frame)))
        })
        .register_fn("remove", |_: &mut StateView, key: Dynamic| -> Said<()> {
            said(&key, |key, frame| {
                frame.state.remove(key);
                Ok(())
            })
        });
}

/// A key is a text or a number. Under `()` nothing is kept: a fill has no client to count by.
fn said<T: Default>(
    key: &Dynamic,
    ask: impl FnOnce(&str, &frame::Frame<'_>) -> Result<T, StateError>,
) -> Said<T> {
    let answer = match (key.as_immutable_string_ref(), key.as_int()) {
        (Ok(text), _) => frame::with(|frame| ask(&text, frame))?,
        (_, Ok(number)) => frame::with(|frame| ask(&number.to_string(), frame))?,
        _ if key.is_unit() => return Ok(T::default()),
        _ => return Err(refusal(format!("{} is no key of `state`: it is a text", key.type_name()))),
    };
    answer.map_err(|error| refusal(error.to_string()))
}
