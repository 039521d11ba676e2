//! The API. Its `table` says of each path its method, what a token needs, what it takes and what it answers.
//! The routing, the checks and the OpenAPI document come from it, on the control socket and on the admin
//! listener alike.

mod acts;
mod content;
#[cfg(test)]
mod document;
mod jobs;
mod live;
mod log;
mod objects;
mod openapi;
mod operation;
mod origins;
mod table;
mod tokens;
mod top;
mod views;
mod warm;

use http::{Method, StatusCode};

use crate::answer::Refusal;

use self::table::TABLE;

pub(crate) use self::jobs::refusal as job_refusal;
pub use self::operation::VERSION;
pub(crate) use self::operation::{Act, Operation, Reach};
pub(crate) use self::warm::refusal as warm_refusal;

/// What a refused method is told.
const WHY_NOT_GET: &str = "GET changes nothing here: a link, a crawler or a web page must not";
/// A variable that stands for all that follows, slashes included.
const REST: &str = "uri}";
/// The largest body of a request in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// Finds the operation for a method and a path, and what stands in the path for the variable.
///
/// # Errors
/// 404 for an unknown path, 405 with the methods of a known one.
pub(crate) fn find(method: &Method, path: &str) -> Result<(&'static Operation, String), Refusal> {
    let here: Vec<_> = TABLE.iter().filter_map(|row| Some((row, matched(row.path, path)?))).collect();
    // HEAD is a GET whose content is not sent (RFC 9110 §9.3.2).
    let wanted = if *method == Method::HEAD { &Method::GET } else { method };
    let found = here.iter().find(|(row, _)| row.method == *wanted);
    match found {
        Some((row, name)) => Ok((row, (*name).to_owned())),
        None if here.is_empty() => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "unknown-path",
            "this Weir does not know the command; is it older than the client?",
        )
        .help("see /v1/openapi.json")),
        None => {
            let methods: Vec<&str> = here.iter().map(|(row, _)| row.method.as_str()).collect();
            let allowed = methods.join(", ");
            let refusal =
                Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method", format!("use {allowed} here"));
            Err(match http::HeaderValue::from_str(&allowed) {
                Ok(value) => match *method {
                    Method::GET => refusal.field(http::header::ALLOW, value).help(WHY_NOT_GET),
                    _ => refusal.field(http::header::ALLOW, value),
                },
                Err(_) => refusal,
            })
        }
    }
}

/// What stands for the variable, where the path is of that form; empty without a variable.
fn matched<'p>(form: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, variable)) = form.split_once('{') else { return (form == path).then_some("") };
    let is_rest = variable == REST;
    path.strip_prefix(before).filter(|name| is_rest || !(name.is_empty() || name.contains('/')))
}

#[cfg(test)]
mod tests;
