//! The project's chores. `cargo run -p xtask -- tidy` judges the tree by the rules of STYLE.md and
//! docs/files.md.
//!
//! A test of this crate makes the same judgement, so that `cargo test` fails on an untidy tree. [`HELP`] has
//! the other chores.

#![forbid(unsafe_code)]

mod simulate;
mod tidy;

use anyhow::{Result, bail};

/// What is printed where no chore is named.
const HELP: &str = "\
cargo run -p xtask -- CHORE

  tidy                    judge the tree
  circles [PACKAGE]       which files import each other in circles
  lines FOLDER            lines with avoided words, and lines that are too wide
  product                 product lines of each crate: without blank lines, comments and tests
  files                   write the map of all files in docs/files.md
  ratchet [TABLE ...]     write the tables in xtask/ratchets again, smaller
  simulate [SEED [DIR]]   drive the decisions of the store
  simulate origins [SEED] drive the picks";

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => {
            let offences = tidy::judge(&tidy::root())?;
            for offence in &offences {
                eprintln!("{offence}");
            }
            match offences.len() {
                0 => Ok(()),
                n => bail!("{n} untidy places"),
            }
        }
        Some("circles") => {
            print!("{}", tidy::circles(&tidy::root(), std::env::args().nth(2).as_deref())?);
            Ok(())
        }
        Some("lines") => {
            let folder = std::env::args().nth(2).unwrap_or_default();
            tidy::lines(&tidy::root(), &folder)?.iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        Some("product") => {
            print!("{}", tidy::product(&tidy::root())?);
            Ok(())
        }
        Some("files") => tidy::write_map(&tidy::root()),
        Some("help" | "--help") => {
            println!("{HELP}");
            Ok(())
        }
        Some("ratchet") => tidy::write_ratchets(&tidy::root(), &std::env::args().skip(2).collect::<Vec<_>>()),
        Some("simulate") if std::env::args().nth(2).as_deref() == Some("origins") => {
            let seed = std::env::args().nth(3).map_or(Ok(simulate::SEED), |seed| seed.parse())?;
            print!("{}", simulate::origins::table(seed));
            Ok(())
        }
        Some("simulate") => {
            let seed = std::env::args().nth(2).map_or(Ok(simulate::SEED), |seed| seed.parse())?;
            print!("{}", simulate::table(seed));
            if let Some(folder) = std::env::args_os().nth(3) {
                print!("\n{}", simulate::real_table(seed, folder.as_ref())?);
            }
            Ok(())
        }
        Some(other) => bail!("no chore `{other}`\n\n{HELP}"),
        None => bail!("no chore\n\n{HELP}"),
    }
}
