//! What every module is: settings that make sense, and a run against one server.

use std::fmt::Debug;

use crate::plan::StressError;
use crate::scenario::settings::ServerSettings;
use crate::scenario::stage::{Measured, Stage};

/// One kind of work and its checks.
pub(crate) trait Module: Debug + Send + Sync {
    /// Whether the settings make sense.
    ///
    /// # Errors
    /// What to write instead.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether it can run on this server.
    ///
    /// # Errors
    /// What the server lacks.
    fn check_server(&self, _server: &ServerSettings) -> Result<(), String> {
        Ok(())
    }

    /// Whether it does to the server or the origin what others would not survive.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Runs against one server, to its end.
    ///
    /// # Errors
    /// It cannot go on. What is wrong with responses is in [`Measured`] instead.
    fn run(&self, stage: &Stage) -> Result<Measured, StressError>;
}

/// Refuses numbers of users that are no load, or more than one machine plays.
pub(crate) fn check_users(users: usize) -> Result<(), String> {
    match (1..=100_000).contains(&users) {
        true => Ok(()),
        false => Err("`users` is 1 to 100000".to_owned()),
    }
}

/// Refuses times that are none.
pub(crate) fn check_time(name: &str, seconds: f64) -> Result<(), String> {
    match crate::scenario::settings::is_time(seconds) {
        true => Ok(()),
        false => Err(format!("`{name}` is a number of seconds above 0, up to a week")),
    }
}

/// Refuses servers that a run cannot end and start again.
pub(crate) fn check_own(server: &ServerSettings) -> Result<(), String> {
    match server.command {
        Some(_) => Ok(()),
        None => Err("it needs a server that this scenario starts, one with `command`".to_owned()),
    }
}
