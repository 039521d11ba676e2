//! A request on its way: its seat at an origin, its attempts, and when it is sent again or a second time.

pub(crate) mod attempt;
pub(crate) mod budget;
pub(crate) mod hedge;
pub(crate) mod moves;
pub(crate) mod retry;
pub(crate) mod seat;
pub(crate) mod send;
pub(crate) mod track;
pub(crate) mod waits;
