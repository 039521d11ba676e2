//! How far the login on a connection has come, by what request and response say (RFC 4559 §4, §6). Pure.

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, StatusCode};

/// Schemes that log a connection in. Nego2 is Negotiate with extensions (MS-N2HT).
const SCHEMES: [&str; 3] = ["ntlm", "negotiate", "nego2"];

/// How far the login on a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The origin has asked for it. Nobody is logged in.
    Offered,
    /// The origin has sent a message that the client's next credentials answer. A request without any would
    /// make it begin again.
    Midway,
    /// The client has sent credentials: what follows is done in its name.
    Open,
}

/// Whether a request has credentials that log its connection in.
pub fn logs_in(headers: &HeaderMap) -> bool {
    challenge(headers, &AUTHORIZATION).is_some()
}

/// What of a field names a scheme that logs a connection in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Challenge {
    /// The name alone.
    Bare,
    /// With a message of the scheme.
    Message,
}

/// The field's value is a list, in which a quoted comma may look like its end: what is taken for a scheme too
/// many costs a connection.
fn challenge(headers: &HeaderMap, name: &HeaderName) -> Option<Challenge> {
    let members = headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let found = members.filter_map(|member| {
        let mut words = member.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let scheme = words.next()?;
        let is_one = SCHEMES.iter().any(|one| scheme.eq_ignore_ascii_case(one.as_bytes()));
        is_one.then(|| if words.next().is_some() { Challenge::Message } else { Challenge::Bare })
    });
    found.reduce(|one, other| if one == Challenge::Message { one } else { other })
}

/// How far the login on a connection has come with this response; `None` where there is none.
pub(crate) fn stage_after(
    before: Option<Stage>,
    request: &HeaderMap,
    (status, response): (StatusCode, &HeaderMap),
) -> Option<Stage> {
    let asked = Some(response).filter(|_| status == StatusCode::UNAUTHORIZED);
    match (asked.and_then(|response| challenge(response, &WWW_AUTHENTICATE)), logs_in(request)) {
        (Some(Challenge::Message), _) => Some(Stage::Midway),
        // Whatever the answer is: somebody who is known may still be refused one resource.
        (_, true) => Some(Stage::Open),
        (Some(Challenge::Bare), false) => Some(before.unwrap_or(Stage::Offered)),
        (None, false) => before,
    }
}

#[cfg(test)]
mod tests;
