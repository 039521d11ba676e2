//! `request`: as the origin gets it.

use http::header::COOKIE;
use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString};

use super::texts::{optional, text};
use crate::frame;

type Said<T> = Result<T, Box<EvalAltResult>>;

/// The request.
#[derive(Clone, Copy)]
pub(crate) struct RequestView;

pub(super) fn register(engine: &mut Engine) {
    engine
        .register_type_with_name::<RequestView>("request")
        .register_get("method", |_: &mut RequestView| word(|asked| asked.method.as_str()))
        .register_get("scheme", |_: &mut RequestView| word(|asked| asked.about.scheme))
        .register_get("host", |_: &mut RequestView| word(|asked| &asked.about.host))
        .register_get("site", |_: &mut RequestView| word(|asked| &asked.about.site))
        .register_get("route", |_: &mut RequestView| word(|asked| &asked.about.route))
        .register_get("kind", |_: &mut RequestView| word(|asked| asked.about.kind.word()))
        .register_get("path", |_: &mut RequestView| frame::with(|frame| text(frame.asked.path())))
        .register_get("query", |_: &mut RequestView| frame::with(|frame| text(frame.asked.query())))
        .register_get("place", place)
        .register_fn("field", field)
        .register_fn("cookie", cookie)
        .register_fn("param", param);
}

fn word(of: impl for<'q> Fn(&'q crate::Asked<'q>) -> &'q str) -> Said<ImmutableString> {
    frame::with(|frame| of(&frame.asked).into())
}

/// The path in one spelling; `()` where it is ambiguous.
fn place(_: &mut RequestView) -> Said<Dynamic> {
    frame::with(|frame| crate::place::place(frame.asked.path()).map_or(Dynamic::UNIT, Dynamic::from))
}

/// The first value of a field; `()` where there is none.
fn field(_: &mut RequestView, name: &str) -> Said<Dynamic> {
    frame::with(|frame| optional(frame.asked.headers.get(name).map(|value| value.as_bytes())))
}

/// The first value of a cookie.
fn cookie(_: &mut RequestView, name: &str) -> Said<Dynamic> {
    frame::with(|frame| {
        let lines = frame.asked.headers.get_all(COOKIE).iter();
        optional(lines.map(|line| line.as_bytes()).find_map(|line| value(line, b';', name)))
    })
}

/// The first value of a parameter of the query, as it was sent: nothing is decoded.
fn param(_: &mut RequestView, name: &str) -> Said<Dynamic> {
    frame::with(|frame| optional(value(frame.asked.query(), b'&', name)))
}

/// The first value of a name in `a=b;c=d`.
fn value<'t>(line: &'t [u8], between: u8, name: &str) -> Option<&'t [u8]> {
    line.split(|byte| *byte == between).find_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        (pair[..at].trim_ascii() == name.as_bytes()).then(|| pair[at + 1..].trim_ascii())
    })
}
