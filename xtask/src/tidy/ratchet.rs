//! Bounds with exceptions that may only shrink: tables of names and numbers in `xtask/ratchets`, which are
//! checked in.
//!
//! A table lists what is above its bound, with its number. After a number has shrunk, or moved to another
//! name, run `cargo run -p xtask -- ratchet [TABLE ...]` to write the tables again. It refuses to let the sum
//! of a table grow.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::source::Offence;

/// Numbers by name.
pub(super) type Counts = BTreeMap<String, usize>;

/// A bound on all things of one kind.
pub(super) struct Ratchet {
    /// The name of its table in `xtask/ratchets`, without `.txt`.
    pub(super) name: &'static str,
    /// The bound for names that are not in the table.
    pub(super) bound: usize,
    pub(super) slack: Slack,
    /// The rule, in words.
    pub(super) rule: &'static str,
}

/// Whether a table may allow more than there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slack {
    None,
    /// For counts that change with every sentence: the table shrinks when it is written again.
    Some,
}

impl Ratchet {
    pub(super) fn path(&self) -> String {
        format!("xtask/ratchets/{}.txt", self.name)
    }

    /// Reads the table of exceptions. It is empty if nothing is above the bound.
    ///
    /// # Errors
    /// A line without a name and a number.
    pub(super) fn read(&self, root: &Path) -> Result<Counts> {
        let text = std::fs::read_to_string(root.join(self.path())).unwrap_or_default();
        let mut table = Counts::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let entry = line.rsplit_once(' ').map(|(name, number)| (name, number.parse::<usize>()));
            let Some((name, Ok(number))) = entry else { bail!("{}: `{line}`", self.path()) };
            let most = table.entry(name.to_owned()).or_default();
            *most = number.max(*most);
        }
        Ok(table)
    }

    /// What is above its bound, and what the table allows although nothing needs it.
    pub(super) fn judge(&self, table: &Counts, found: &Counts) -> Vec<Offence> {
        let offence = |what: String| Offence { path: self.path(), line: 1, what };
        let above = found.iter().filter_map(|(name, number)| {
            let most = *table.get(name).unwrap_or(&self.bound);
            (*number > most).then(|| offence(format!("{name} has {number}, at most {most}: {}", self.rule)))
        });
        let exact = table.iter().filter(|_| self.slack == Slack::None);
        let stale = exact.filter_map(|(name, number)| {
            let is = found.get(name).copied().unwrap_or_default();
            (is < *number).then(|| {
                offence(format!("{name} has {is}, not {number}: run `cargo run -p xtask -- ratchet`"))
            })
        });
        above.chain(stale).collect()
    }

    /// Writes the table with the present numbers.
    ///
    /// # Errors
    /// The sum above the bound has grown, or the table cannot be written.
    pub(super) fn write(&self, root: &Path, found: &Counts) -> Result<()> {
        let path = root.join(self.path());
        let above = |counts: &Counts| counts.values().map(|n| n.saturating_sub(self.bound)).sum::<usize>();
        let (before, now) = (above(&self.read(root)?), above(found));
        if path.exists() && now > before {
            bail!("{} would grow from {before} to {now} above the bound: {}", self.path(), self.rule);
        }
        let mut text = format!("# {}\n", self.rule);
        for (name, number) in found.iter().filter(|(_, number)| **number > self.bound) {
            let _ = writeln!(text, "{name} {number}");
        }
        std::fs::write(&path, text).with_context(|| format!("write {}", self.path()))
    }
}

/// The import circles of a package.
pub(super) const CIRCLES: Ratchet = Ratchet {
    name: "circles",
    bound: 3,
    slack: Slack::None,
    rule: "files of a package that import each other in a circle",
};
/// The parameters of a function.
pub(super) const PARAMETERS: Ratchet = Ratchet {
    name: "parameters",
    bound: 5,
    slack: Slack::None,
    rule: "parameters of a function, tuples by their members",
};
/// Words of `xtask/avoided-words.txt` in a folder. To add a word, remove the table first and have it written.
pub(super) const WORDS: Ratchet = Ratchet {
    name: "words",
    bound: 0,
    slack: Slack::Some,
    rule: "words that may not come back (xtask/avoided-words.txt): `cargo run -p xtask -- lines FOLDER`",
};
/// Wide lines in a folder.
pub(super) const WIDTHS: Ratchet = Ratchet {
    name: "widths",
    bound: 0,
    slack: Slack::Some,
    rule: "lines too wide: code and comments 110, pages 120: `cargo run -p xtask -- lines FOLDER`",
};
