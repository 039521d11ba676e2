//! How far a question comes: the gates up to the one at which it ends. Those before the look into the cache
//! are asked here.

use crate::gates::{BEFORE, Before, GATES, Gate};
use crate::plan::Route;
use crate::route::Rewritten;
use crate::shared::Running;
use crate::values::OfRequest;
use crate::{content, files};

/// The text for a path that is not rewritten.
const DOT_SEGMENT: &str = "400: a rule of `rewrite` fits, and the path has, or would have, a dot segment";

/// The gates up to this one.
pub(super) fn up_to(gate: Gate) -> Vec<(&'static str, &'static str)> {
    let at = GATES.iter().position(|(one, ..)| *one == gate).map_or(0, |at| at + 1);
    GATES[..at].iter().map(|(_, name, asks)| (*name, *asks)).collect()
}

/// What the path is rewritten to, where the gates before the look into the cache let a request through.
///
/// # Errors
/// The gate that does not; why, in a word and in a sentence.
pub(super) fn before(
    running: &Running,
    site: u64,
    route: &Route,
    known: &OfRequest<'_>,
) -> Result<Option<Rewritten>, (Gate, &'static str, String)> {
    let mut rewritten = None;
    for gate in BEFORE {
        let answered = match gate {
            Before::ByHand => content::explained(running, site, route, &known.view),
            Before::Rewrite => match route.rewritten(known) {
                Ok(found) => {
                    rewritten = found;
                    None
                }
                Err(_) => Some(("dot-segment", DOT_SEGMENT.into())),
            },
            Before::File => files::explained(route, known, rewritten.as_ref()),
        };
        if let Some((reason, because)) = answered {
            return Err((Gate::Before(gate), reason, because));
        }
    }
    Ok(rewritten)
}
