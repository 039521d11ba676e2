//! A file of the accounts that cannot be read as a whole: its description, and the name under which it is set
//! aside. It must not touch a file.
//!
//! A file that is set aside stays as it was found. Its sound frames count like those of other processes, and
//! Weir does not write to it. Every answer about the accounts names it until its name says that somebody
//! knows.

use std::fmt;
use std::time::SystemTime;

use crate::day::Month;
use crate::form::Told;

/// Follows the month in the name of a file that is set aside.
const SET_ASIDE: &str = ".unsound-";
/// The end of the name of a file that answers no longer name.
const KNOWN: &str = ".known";

/// A file that cannot be read as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// Its name in the folder of the accounts.
    pub file: String,
    /// The month whose counts may be smaller than what was counted.
    pub month: Month,
    /// Bytes that are neither a sound frame nor the beginning of one.
    pub damaged_bytes: u64,
    /// Bytes at its end that are the beginning of a frame.
    pub torn_bytes: u64,
    /// Whether anything of it is sound.
    pub is_counted: bool,
}

impl Unsound {
    /// The description of a file; `None` where it is whole, or somebody knows.
    pub(crate) fn of(file: &str, month: Month, told: &Told) -> Option<Unsound> {
        let is_to_be_said = !told.is_sound() && !file.ends_with(KNOWN);
        is_to_be_said.then(|| Unsound {
            file: file.to_owned(),
            month,
            damaged_bytes: told.damaged_bytes,
            torn_bytes: told.torn_bytes,
            is_counted: !told.sheet.rows.is_empty(),
        })
    }
}

impl fmt::Display for Unsound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unsound { file, month, damaged_bytes, torn_bytes, is_counted } = self;
        write!(out, "accounts/{file}: ")?;
        match (damaged_bytes, torn_bytes) {
            (0, 0) => out.write_str("it is empty, which no crash can make")?,
            (0, torn) => write!(out, "{torn} bytes at its end are not whole, written last or cut off")?,
            (damaged, 0) => write!(out, "{damaged} bytes of it are damaged")?,
            (damaged, torn) => write!(out, "{damaged} bytes of it are damaged, {torn} at its end not whole")?,
        }
        if *is_counted {
            write!(
                out,
                "; what is sound of it counts, and the counts of {month} may be smaller than they were"
            )
        } else {
            write!(out, "; nothing of it can be read, and what it had of {month} is not counted")
        }
    }
}

/// A free name under which a month's file is set aside.
pub(crate) fn name_aside(file: &str, wall: SystemTime, names: &[String]) -> String {
    let mut stamp = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    loop {
        let name = format!("{file}{SET_ASIDE}{stamp}");
        // Somebody who knows of it may have renamed it.
        if !names.iter().any(|other| other.starts_with(&name)) {
            return name;
        }
        stamp += 1;
    }
}
