//! `weir check`: every mistake of a configuration file at once, or each route with what it inherits.

use std::collections::BTreeSet;
use std::io::{self, Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use weir_config::{Loaded, Mistakes};

use crate::certificates;
use crate::diagnostics;
use crate::distributors;
use crate::print::{counted, say, say_json};
use crate::written_picks;

/// The command line of `weir check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The configuration file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show each site and route with what it inherits, and from where.
    #[arg(long)]
    show: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match weir_config::load(&self.file) {
            Ok(loaded) => {
                if let Err(lacking) = crate::build::fits(&loaded)
                    && !self.show
                {
                    self.wrong(&lacking)?;
                    return Ok(ExitCode::FAILURE);
                }
                let mut findings = certificates::check(&loaded);
                findings.mistakes.extend(written_picks::check(&loaded.config));
                if !findings.mistakes.is_empty() && !self.show {
                    self.unusable(&findings.mistakes)?;
                    return Ok(ExitCode::FAILURE);
                }
                self.right(&loaded, findings.warnings)?;
                Ok(ExitCode::SUCCESS)
            }
            Err(mistakes) => {
                self.wrong(&mistakes)?;
                Ok(ExitCode::FAILURE)
            }
        }
    }

    fn right(&self, loaded: &Loaded, of_certificates: Vec<String>) -> anyhow::Result<()> {
        let mut warnings = loaded.warnings();
        warnings.extend(of_certificates);
        if !self.json {
            for warning in &warnings {
                writeln!(stderr(), "warning: {warning}")?;
            }
        }
        match (self.show, self.json) {
            (true, true) => say_json(&weir_config::show_json(loaded)),
            (true, false) => Ok(say(&weir_config::show(loaded))?),
            (false, true) => say_json(&json!({ "valid": true, "mistakes": [], "warnings": warnings })),
            (false, false) => {
                let routes = loaded.resolved().iter().map(|site| site.routes.len()).sum();
                let sites = counted(loaded.resolved().len(), "site");
                let routes = counted(routes, "route");
                let answers = answered(loaded);
                Ok(say(&format!("{} is valid: {sites}, {routes}\n{answers}", self.file.display()))?)
            }
        }
    }

    /// The configuration has no mistake, but files that it names cannot be used.
    fn unusable(&self, mistakes: &[String]) -> anyhow::Result<()> {
        if self.json {
            let all: Vec<_> = mistakes.iter().map(|mistake| json!({ "mistake": mistake })).collect();
            return say_json(&json!({ "valid": false, "mistakes": all }));
        }
        for mistake in mistakes {
            writeln!(stderr(), "error: {mistake}")?;
        }
        Ok(())
    }

    fn wrong(&self, mistakes: &Mistakes) -> anyhow::Result<()> {
        if self.json {
            let all: Vec<_> = mistakes.sentences().into_iter().map(as_json).collect();
            return say_json(&json!({ "valid": false, "mistakes": all }));
        }
        Ok(report(mistakes)?)
    }
}

/// What `weir distributor` answers with this configuration, in a line; empty where it answers nothing.
fn answered(loaded: &Loaded) -> String {
    let Some(settings) = &loaded.config.distributor else { return String::new() };
    let all: BTreeSet<&str> =
        settings.policy.keys().chain(loaded.config.upstream.keys()).map(String::as_str).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let places: Vec<String> =
        settings.listen.iter().map(|url| distributors::place(url).to_string()).collect();
    format!("weir distributor answers at {} for the policies {}\n", places.join(", "), all.join(", "))
}

/// Prints all mistakes to the standard error, on a terminal in colours.
pub(super) fn report(mistakes: &Mistakes) -> io::Result<()> {
    let text = if diagnostics::is_coloured() { mistakes.render_coloured() } else { mistakes.to_string() };
    stderr().write_all(text.as_bytes())
}

fn as_json((place, sentence): (Option<weir_config::Place>, String)) -> serde_json::Value {
    match place {
        Some(place) => json!({ "file": &*place.file, "line": place.line, "mistake": sentence }),
        None => json!({ "mistake": sentence }),
    }
}
