//! Conditions on lines of the logs, as `status >= 500 and first_byte > 200ms and url ~ ^/api`.
//!
//! A condition is read once and tried in two steps. Workers try it on the numbers of a request, before any
//! text is made ([`Condition::may_fit`]). The log's thread tries all of it on what is left.

mod measure;
mod names;
mod parse;
mod tokens;
mod tree;
mod trial;

use self::tree::Node;
use crate::asked::Asked;
use crate::record::{Facts, Record};
use crate::site::SiteId;

pub use self::names::LogOf;
pub use self::tree::{CONDITION_BYTES_MAX, ConditionError, Unknown};

/// A condition on the lines of a log.
#[derive(Clone, Debug)]
pub struct Condition {
    root: Node,
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn read(text: &str, log: LogOf) -> Result<Condition, ConditionError> {
        Ok(Condition { root: parse::parse(text, log)? })
    }

    /// Puts the names of sites in place of what stands for them: `named` knows a site by its name or by one
    /// of its hosts.
    ///
    /// # Errors
    /// What names no site.
    pub fn name_sites(&mut self, named: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
        trial::name_sites(&mut self.root, named)
    }

    /// The same with the numbers of sites in place of their names, where `number` knows them: workers know a
    /// site by its number.
    #[must_use]
    pub(crate) fn of_sites(mut self, number: &dyn Fn(&str) -> Option<SiteId>) -> Condition {
        trial::number_sites(&mut self.root, number);
        self
    }

    /// Whether a request of these numbers may fit; its texts may still say otherwise.
    pub fn may_fit(&self, facts: &Facts) -> bool {
        self.root.tried(facts) != Some(false)
    }

    /// Whether the record of a request fits.
    pub fn fits(&self, record: &Record) -> bool {
        self.root.fits(record)
    }

    /// Whether a request to an origin fits.
    pub fn fits_asked(&self, asked: &Asked) -> bool {
        self.root.fits(asked)
    }
}

#[cfg(test)]
mod tests;
