//! The project's chores. `cargo run -p xtask -- tidy` judges the tree by the rules of STYLE.md and
//! ARCHITECTURE.md.
//!
//! A test of this crate makes the same judgement, so that `cargo test` fails on an untidy tree.

#![forbid(unsafe_code)]

mod simulate;
mod tidy;

use anyhow::{Result, bail};

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
        other => bail!("say `tidy`, `circles`, `lines`, `ratchet` or `simulate`, not {other:?}"),
    }
}
