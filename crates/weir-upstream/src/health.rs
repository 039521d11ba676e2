//! How origins fare: what checks, agents and requests say of them, and what follows for their shares.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod conduct;
pub(crate) mod ejection;
pub(crate) mod notice;
pub(crate) mod ramp;
pub(crate) mod standing;
pub(crate) mod tended;
