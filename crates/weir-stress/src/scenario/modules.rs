//! The modules, by kind.

mod faults;
mod fill;
mod herd;
mod loads;
mod mixed;
mod program;
mod range;
mod simple;
mod slow;
mod statistics;

use serde::de::DeserializeOwned;
use toml::Table;

use crate::scenario::module::Module;

type Read = fn(Table) -> Result<Box<dyn Module>, String>;

/// All kinds.
const KINDS: [(&str, Read); 13] = [
    ("simple", of::<simple::Simple>),
    ("range", of::<range::Ranges>),
    ("statistics", of::<statistics::Statistics>),
    ("herd", of::<herd::Herd>),
    ("spread", of::<loads::Spread>),
    ("files", of::<loads::Files>),
    ("fill", of::<fill::Fill>),
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
