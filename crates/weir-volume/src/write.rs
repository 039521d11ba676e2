//! What writes: the queue in front of the engine, the engine (one thread, one order), and what decides what
//! may be written.

pub(crate) mod books;
pub(crate) mod budget;
pub(crate) mod engine;
pub(crate) mod intake;
pub(crate) mod put;
pub mod reinsert;
pub(crate) mod running;
pub(crate) mod spent;
pub(crate) mod storing;
pub(crate) mod tasks;
