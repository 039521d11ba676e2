//! Pages with a row for names of files: what lacks one offends, and so does a row that names nothing. It must
//! not know which names need a row.

use std::collections::BTreeSet;

use anyhow::Result;

use super::source::{Offence, Source};

/// The cells of a row: file, names, and three of what there is to say.
const CELLS: usize = 5;

/// A name in a file.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) line: usize,
    /// Whether it must have a row. Any may have one.
    pub(super) needs_row: bool,
}

/// A page, and what is said of names.
pub(super) struct Says {
    pub(super) page: &'static str,
    /// Why a name needs a row.
    pub(super) lacks_row: &'static str,
    /// What a file has not that a row names.
    pub(super) is_nowhere: &'static str,
}

impl Says {
    /// Names without a row, and rows without such a name, where `named` has those of a file.
    ///
    /// # Errors
    /// Those of `named`.
    pub(super) fn judge(
        &self,
        sources: &[Source],
        named: impl Fn(&Source) -> Result<Vec<Named>>,
    ) -> Result<Vec<Offence>> {
        let Some(page) = sources.iter().find(|source| source.path == self.page) else {
            return Ok(vec![Offence {
                path: self.page.to_owned(),
                line: 1,
                what: "no such page".to_owned(),
            }]);
        };
        let rows = rows(&page.text);
        let mut offences = Vec::new();
        let mut there = BTreeSet::new();
        for source in sources {
            let path = source.path.trim_start_matches("crates/");
            for Named { name, line, needs_row } in named(source)? {
                let row = (path.to_owned(), name);
                if needs_row && !rows.iter().any(|(_, named)| *named == row) {
                    let what = format!("`{}` {}: {} needs a row", row.1, self.lacks_row, self.page);
                    offences.push(source.offence(line, what));
                }
                there.insert(row);
            }
        }
        let stale = rows.iter().filter(|(_, row)| !there.contains(row));
        offences.extend(stale.map(|(line, (path, name))| {
            page.offence(*line, format!("`{path}` {} `{name}`, or the row lacks a cell", self.is_nowhere))
        }));
        Ok(offences)
    }
}

/// The files and functions, or other names, of a page, each with its line. One that lacks a cell names none.
fn rows(text: &str) -> Vec<(usize, (String, String))> {
    let lines = text.lines().enumerate().filter(|(_, line)| line.starts_with("| `weir-"));
    lines
        .flat_map(|(at, line)| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let is_whole = cells.len() == CELLS && cells.iter().all(|cell| !cell.is_empty());
            let names = if is_whole { cells[1] } else { "" };
            let path = cells[0].trim_matches('`').to_owned();
            names
                .split(',')
                .map(move |name| (at + 1, (path.clone(), name.trim().trim_matches('`').to_owned())))
                .collect::<Vec<_>>()
        })
        .collect()
}
