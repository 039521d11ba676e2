//! Where sessions are at home, and how requests say to which one they belong.

pub mod affinity;
pub(crate) mod homes;
pub(crate) mod named;
pub(crate) mod node;
pub(crate) mod session;
pub(crate) mod session_end;
