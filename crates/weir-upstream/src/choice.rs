//! Which origin a request goes to: the roster of those that there are, and what chooses among them. It must
//! not send anything.

pub(crate) mod adjust;
pub(crate) mod answer;
pub(crate) mod decided;
pub(crate) mod decider;
pub(crate) mod dns;
pub(crate) mod explain;
pub(crate) mod guests;
pub(crate) mod listed;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod pick;
pub(crate) mod roster;
pub mod simulated;
pub(crate) mod wait;
