//! Scenarios: servers, an origin and modules that work on them, from a file.
//!
//! Flow: [`file`] → [`run`] starts [`server`]s and the [`origin`], and lets [`modules`] work on a [`stage`],
//! one server after the other → [`outcome`] → a table, JSON, CSV, a page. What the origin has is its
//! [`catalogue`], by which everything that arrives is checked.

pub(crate) mod catalogue;
mod client;
mod csv;
mod file;
mod limits;
mod machine;
mod memcheck;
mod module;
mod modules;
mod origin;
mod outcome;
mod page;
mod playlog;
mod plots;
mod process;
mod run;
mod says;
mod server;
pub(crate) mod settings;
mod sizes;
mod span;
mod stage;
mod table;
mod watch;

pub use outcome::Outcome;
pub use run::{is_scenario, run};

#[cfg(test)]
mod tests;
