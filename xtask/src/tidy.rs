//! Tidy: ratchets and absences, judged on the text of the tracked files and on cargo's view of the crates.
//!
//! A rule is a function from one file to its offences ([`rules`]). The direction of imports is a rule on the
//! whole workspace ([`rooms`]), and so is the use of dependencies ([`dependencies`]). Rules read text, not
//! syntax; rustfmt's layout makes that enough. Bounds with exceptions that may only shrink ([`ratchet`]) are:
//! circles of imports ([`circles`]) and parameters ([`parameters`]), which do need syntax ([`syntax`]), and
//! words and the width of lines ([`wording`]). Every page is in its index ([`indexes`]), every loop that
//! waits for a peer in a table ([`loops`]), and what counts by connection in another ([`connections`]). The
//! pages for newcomers name what is there ([`pages`]), and show
//! what the files' cards say ([`map`]).
//!
//! [`product`] counts what is left without tests and comments, and judges nothing.

mod circles;
mod connections;
mod dependencies;
mod indexes;
mod loops;
mod map;
mod pages;
mod parameters;
mod product;
mod ratchet;
mod rooms;
mod rows;
mod rules;
mod source;
mod syntax;
#[cfg(test)]
mod tests;
mod wording;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub(crate) use circles::table as circles;
use ratchet::{Counts, Ratchet};
use source::{Offence, Source, sources};

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// All offences of the tree at `root`.
///
/// # Errors
/// The tree or cargo's metadata cannot be read.
pub(crate) fn judge(root: &Path) -> Result<Vec<Offence>> {
    let metadata = rooms::metadata(root)?;
    let mut offences = rooms::judge(&metadata)?;
    let sources = sources(root)?;
    offences.extend(dependencies::judge(&metadata, &sources));
    for source in &sources {
        offences.extend(rules::ALL.iter().flat_map(|rule| rule(source)));
    }
    offences.extend(indexes::judge(&sources));
    offences.extend(loops::judge(&sources)?);
    offences.extend(pages::judge(&sources));
    offences.extend(map::judge(&sources));
    offences.extend(connections::judge(&sources)?);
    for (ratchet, found) in counted(root, &sources)? {
        offences.extend(ratchet.judge(&ratchet.read(root)?, &found));
    }
    Ok(offences)
}

/// What the ratchets count now.
fn counted(root: &Path, sources: &[Source]) -> Result<Vec<(Ratchet, Counts)>> {
    let found = vec![
        (ratchet::CIRCLES, circles::largest(root)?),
        (ratchet::PARAMETERS, parameters::count(sources)?),
        (ratchet::WORDS, wording::by_folder(sources, &wording::avoided(root)?)),
        (ratchet::WIDTHS, wording::by_folder(sources, &wording::wide())),
    ];
    Ok(found)
}

/// Writes the named tables of the ratchets again, or all.
///
/// # Errors
/// A sum that may only shrink has grown.
pub(crate) fn write_ratchets(root: &Path, names: &[String]) -> Result<()> {
    let is_named = |name: &str| names.is_empty() || names.iter().any(|other| other == name);
    let counted = counted(root, &sources(root)?)?;
    let mut named = counted.iter().filter(|(ratchet, _)| is_named(ratchet.name));
    named.try_for_each(|(ratchet, found)| ratchet.write(root, found))
}

/// The lines of a folder that have avoided words or are too wide.
///
/// # Errors
/// The tree cannot be read.
pub(crate) fn lines(root: &Path, folder: &str) -> Result<Vec<Offence>> {
    let sources = sources(root)?;
    let mut found = wording::places(&sources, &wording::avoided(root)?, folder);
    found.extend(wording::places(&sources, &wording::wide(), folder));
    Ok(found)
}

/// The product lines of each crate, and of all.
///
/// # Errors
/// The tree cannot be read.
pub(crate) fn product(root: &Path) -> Result<String> {
    Ok(product::table(&product::count(&sources(root)?)))
}

/// Writes the map of all files on its page.
///
/// # Errors
/// The tree or the page cannot be read, or the page not written.
pub(crate) fn write_map(root: &Path) -> Result<()> {
    map::write(root, &sources(root)?)
}
