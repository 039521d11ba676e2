//! Tidy: ratchets and absences, judged on the text of the tracked files and on cargo's own view of the crates.
//!
//! A rule is a function from one file to its offences ([`rules`]); the direction of imports is one of the whole
//! workspace ([`rooms`]). They read text, not syntax: rustfmt's layout is what makes that enough. What is counted with
//! exceptions that may only shrink ([`ratchet`]) is: circles of imports ([`circles`]) and parameters ([`parameters`]),
//! which do need syntax ([`syntax`]).

mod circles;
mod parameters;
mod ratchet;
mod rooms;
mod rules;
mod source;
mod syntax;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub(crate) use circles::table as circles;
use source::{Offence, Source, sources};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Every offence of the tree at `root`.
///
/// # Errors
/// Where the tree or cargo's metadata cannot be read.
pub(crate) fn judge(root: &Path) -> Result<Vec<Offence>> {
    let mut offences = rooms::judge(root)?;
    let sources = sources(root)?;
    for source in &sources {
        offences.extend(rules::ALL.iter().flat_map(|rule| rule(source)));
    }
    for (ratchet, found) in counted(root, &sources)? {
        offences.extend(ratchet.judge(&ratchet.read(root)?, &found));
    }
    Ok(offences)
}

/// What the ratchets bound, as it is now.
fn counted(root: &Path, sources: &[Source]) -> Result<Vec<(ratchet::Ratchet, ratchet::Counts)>> {
    let found =
        vec![(ratchet::CIRCLES, circles::largest(root)?), (ratchet::PARAMETERS, parameters::count(sources)?)];
    Ok(found)
}

/// Writes the tables of the ratchets again.
///
/// # Errors
/// Something that may only shrink has grown.
pub(crate) fn write_ratchets(root: &Path) -> Result<()> {
    counted(root, &sources(root)?)?.iter().try_for_each(|(ratchet, found)| ratchet.write(root, found))
}
