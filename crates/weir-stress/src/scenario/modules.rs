//! The modules, by kind.

mod faults;
mod herd;
mod loads;
mod mixed;
mod program;
mod range;
mod simple;
mod slow;
mod statistics;

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use toml::Table;

use crate::plan::StressError;
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

type Read = fn(Table) -> Result<Box<dyn Module>, String>;

/// All kinds.
const KINDS: [(&str, Read); 12] = [
    ("simple", of::<simple::Simple>),
    ("range", of::<range::Ranges>),
    ("statistics", of::<statistics::Statistics>),
    ("herd", of::<herd::Herd>),
    ("spread", of::<loads::Spread>),
    ("files", of::<loads::Files>),
    ("miss", of::<loads::Miss>),
    ("connect", of::<loads::Connect>),
    ("slow", of::<slow::Slow>),
    ("origin-faults", of::<faults::OriginFaults>),
    ("mixed", of::<mixed::Mixed>),
    ("program", of::<program::Program>),
];

/// Reads the settings of a module of this kind.
///
/// # Errors
/// What is wrong, and what to write instead.
pub(crate) fn read(kind: &str, table: Table) -> Result<Box<dyn Module>, String> {
    let found = KINDS.iter().find(|(known, _)| *known == kind);
    let Some((_, read)) = found else {
        let known: Vec<&str> = KINDS.iter().map(|(known, _)| *known).collect();
        return Err(format!("there is no kind `{kind}`; write one of {}", known.join(", ")));
    };
    let module = read(table)?;
    module.check()?;
    Ok(module)
}

fn of<M: Module + DeserializeOwned + 'static>(table: Table) -> Result<Box<dyn Module>, String> {
    let module: M = table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    Ok(Box::new(module))
}

/// Refuses numbers of users that are no load, or more than one machine plays.
fn check_users(users: usize) -> Result<(), String> {
    match (1..=100_000).contains(&users) {
        true => Ok(()),
        false => Err("`users` is 1 to 100000".to_owned()),
    }
}

/// Refuses times that are none.
fn check_time(name: &str, seconds: f64) -> Result<(), String> {
    match crate::scenario::file::is_time(seconds) {
        true => Ok(()),
        false => Err(format!("`{name}` is a number of seconds above 0, up to a week")),
    }
}
