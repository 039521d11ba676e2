//! HAProxy's agent-check: a program beside an origin says in one line how much the origin can take.
//!
//! `line` reads it, `said` is what holds after it, `record` is what is remembered of an agent, `hear` is one
//! connection. `check::tend` says when. What an agent says is a mark of its own beside that of an operator:
//! the stricter one holds.

pub(crate) mod hear;
pub(crate) mod line;
pub(crate) mod record;
pub(crate) mod said;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
