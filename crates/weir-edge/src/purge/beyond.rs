//! What a purge takes beyond its words where the ledger has no room for so many marks: all of a site, or
//! everything. What others lose by it is for the log alone.

use std::collections::BTreeSet;

use weir_store::{Made, Mark, Scope};

use crate::plan::Plan;

/// What stands for all sites.
const EVERYTHING: &str = "everything";

/// The sites of which some marks name a part; none where everything is named.
#[derive(Debug)]
pub(crate) struct Words(Option<BTreeSet<u64>>);

impl Words {
    pub(crate) fn of(marks: &[Mark]) -> Words {
        let (mut parts, mut wholes) = (BTreeSet::new(), BTreeSet::new());
        for mark in marks {
            match mark.scope {
                Scope::All => return Words(None),
                Scope::Site(site) => drop(wholes.insert(site)),
                Scope::Prefix { site, .. } | Scope::Tag { site, .. } | Scope::Url { site, .. } => {
                    parts.insert(site);
                }
            }
        }
        Words(Some(parts.difference(&wholes).copied().collect()))
    }

    /// Whether more went of what they name than they say.
    pub(crate) fn fall_short(&self, made: &Made) -> bool {
        made.wider.iter().any(|site| self.name_less_than(*site))
    }

    /// The names of the sites that went as wholes and of which these words name a part; where all went,
    /// [`EVERYTHING`]. All others are logged as well.
    pub(crate) fn beyond(&self, plan: &Plan, made: &Made) -> Vec<String> {
        let mut own = Vec::new();
        for gone in &made.wider {
            let site = plan.sites().iter().find(|site| site.mark == *gone);
            let name = match gone {
                0 => EVERYTHING,
                _ => site.map_or("a site of an earlier configuration", |site| &site.name),
            };
            tracing::warn!(purged = name, "the ledger has no room for so many marks, and more was purged");
            if self.name_less_than(*gone) {
                own.push(name.to_owned());
            }
        }
        own
    }

    fn name_less_than(&self, site: u64) -> bool {
        self.0.as_ref().is_some_and(|parts| site == 0 || parts.contains(&site))
    }
}
