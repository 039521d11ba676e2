//! The command as a whole: a load or a scenario, and its report in the form that was asked for.

use std::io::{self, Write};
use std::path::Path;

use crate::args::{ScenarioArgs, StressArgs};
use crate::plan::StressError;
use crate::scenario;

/// Runs what the arguments describe and writes its report to `out`. Returns whether everything was as it
/// should be.
///
/// # Errors
/// [`StressError`] if it could not run, or a report cannot be written. One that gave up in the middle, or was
/// told to end, has written its report of what it measured.
pub fn perform(args: &StressArgs, out: &mut dyn Write) -> Result<bool, StressError> {
    let unwritten = |source| StressError::System { act: "writing the report", source };
    if !scenario::is_scenario(&args.url) {
        refuse(&args.scenario)?;
        let report = crate::run(args)?;
        let written = match args.json {
            true => writeln!(out, "{}", report.json()),
            false => write!(out, "{report}"),
        };
        written.map_err(unwritten)?;
        return Ok(report.is_clean());
    }
    // Found before an hour has been measured.
    let files = [&args.scenario.html, &args.scenario.csv];
    for path in files.into_iter().flatten() {
        write_file(path, "")?;
    }
    let mut outcome = scenario::run(args)?;
    if let Some(path) = &args.scenario.html {
        write_file(path, &outcome.html())?;
    }
    if let Some(path) = &args.scenario.csv {
        write_file(path, &outcome.csv())?;
    }
    let written = match args.json {
        true => writeln!(out, "{}", outcome.json()),
        false => write!(out, "{outcome}"),
    };
    written.map_err(unwritten)?;
    match outcome.gave_up.take() {
        Some(why) => Err(why),
        None if !outcome.is_whole() => Err(StressError::Interrupted),
        None => Ok(outcome.is_good()),
    }
}

fn refuse(args: &ScenarioArgs) -> Result<(), StressError> {
    let is_given = args.html.is_some()
        || args.csv.is_some()
        || args.wrap.is_some()
        || args.scratch.is_some()
        || args.valgrind
        || args.quick
        || !args.only.is_empty()
        || !args.servers.is_empty();
    match is_given {
        true => Err(StressError::Arguments(
            "--html, --csv, --only, --servers, --quick, --valgrind, --wrap and --scratch need a scenario: \
             FILE.toml",
        )),
        false => Ok(()),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), StressError> {
    std::fs::write(path, text).map_err(|error: io::Error| StressError::File {
        file: path.display().to_string(),
        what: error.to_string(),
    })
}
