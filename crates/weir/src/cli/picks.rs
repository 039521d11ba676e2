//! `weir picks test`: runs a script's samples and tests, or asks it once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use weir_script::{
    MadeOrigin, MadeRequest, MadeRow, Mistake, Program, Settings, State, trial, usual_origins, usual_rows,
};

use crate::diagnostics;
use crate::print::{counted, say};
use crate::written_picks::{read_script, settings};

/// The command line of `weir picks`.
#[derive(Debug, Args)]
pub(crate) struct Picks {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a script's samples and the tests beside it (FILE.tests.toml), or ask it once about a request.
    Test(Test),
}

#[derive(Debug, Args)]
struct Test {
    /// The script.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Ask it about this request: `GET https://host/path`.
    #[arg(long, value_name = "REQUEST")]
    request: Option<String>,
    /// A field of the request: `Cookie: a=b`. May be given again.
    #[arg(long, value_name = "FIELD", requires = "request")]
    header: Vec<String>,
    /// The client's address, with or without port.
    #[arg(long, value_name = "ADDRESS", requires = "request")]
    client: Option<String>,
    /// The client's session.
    #[arg(long, value_name = "TEXT", requires = "request", conflicts_with = "fill")]
    session: Option<String>,
    /// Ask as for a fill: for all clients, so that there is none.
    #[arg(long, requires = "request", conflicts_with = "client")]
    fill: bool,
    /// An origin: `URL,cpu=0.3,in_flight=2,id=a,weight=2,backup,down`. May be given again.
    #[arg(long, value_name = "ORIGIN", requires = "request")]
    origin: Vec<String>,
    /// Ask so many times; each answer is shown with how often it came.
    #[arg(long, value_name = "NUMBER", requires = "request", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    times: u32,
    /// Take the values of its constants from the `[pick.NAME]` of this configuration that names the script.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Picks {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let What::Test(test) = self.what;
        test.run()
    }
}

impl Test {
    fn run(self) -> anyhow::Result<ExitCode> {
        let source = read_script(&self.file).map_err(|why| anyhow!(why))?;
        let (settings, known) = self.of_config()?;
        let rows = match (&known, self.origin.is_empty()) {
            (None, true) => usual_rows().to_vec(),
            _ => Vec::from([self.origins(known.clone())?]),
        };
        let program = match Program::compile(source.clone(), &settings) {
            Ok(program) => program,
            Err(mistake) => return wrong(&mistake),
        };
        let sampled = rows.iter().try_for_each(|row| program.sample(row));
        match (&self.request, sampled) {
            (None, Ok(())) => self.tests(&source),
            (None, Err(mistake)) => wrong(&mistake),
            (Some(request), sampled) => {
                let asked = self.ask(request, &program, MadeRow(self.origins(known)?))?;
                // The answer is of use where the script would not be taken, too.
                sampled.map_or_else(|mistake| wrong(&mistake), |()| Ok(asked))
            }
        }
    }

    /// The values of constants that a configuration gives the script, and the origins that it will see.
    fn of_config(&self) -> anyhow::Result<(Settings, Option<Vec<MadeOrigin>>)> {
        let Some(config) = &self.config else { return Ok((Vec::new(), None)) };
        let loaded = weir_config::load(config).map_err(|mistakes| anyhow!("{mistakes}"))?;
        let found = settings(&loaded.config, &self.file);
        let (settings, origins) =
            found.with_context(|| format!("{} has no [pick.NAME] with this script", config.display()))?;
        Ok((settings, Some(origins)))
    }

    fn origins(&self, known: Option<Vec<MadeOrigin>>) -> anyhow::Result<Vec<MadeOrigin>> {
        if self.origin.is_empty() {
            return Ok(known.unwrap_or_else(usual_origins));
        }
        self.origin.iter().map(|text| trial::origin(text).map_err(|why| anyhow!(why))).collect()
    }

    fn asked(&self, text: &str) -> Result<MadeRequest, String> {
        let mut request = trial::request(text)?;
        for header in &self.header {
            let (name, value) =
                header.split_once(':').ok_or_else(|| format!("`{header}` is no field: `Name: value`"))?;
            trial::field(&mut request, name, value)?;
        }
        if let Some(client) = &self.client {
            request.about.client = Some(trial::client(client)?);
        }
        request.about.session = self.session.as_deref().map(Into::into);
        if self.fill {
            trial::for_all(&mut request);
        }
        Ok(request)
    }

    fn ask(&self, text: &str, program: &Program, row: MadeRow) -> anyhow::Result<ExitCode> {
        let request = self.asked(text).map_err(|why| anyhow!(why))?;
        let state = State::new(weir_clock::now().mono);
        let (begun, last) = (weir_clock::now().mono, Cell::new(None));
        let mut came: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..self.times {
            let now = weir_clock::now();
            let chance = now.wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            let tried = request.ask(program, &row, &state, (now.mono, chance));
            *came.entry(trial::words(&tried.answer, &row)).or_default() += 1;
            last.set(Some(tried));
        }
        let took = weir_clock::now().mono.saturating_duration_since(begun) / self.times;
        let Some(tried) = last.into_inner() else { bail!("it was not asked") };
        let mut text = String::new();
        tried.printed.iter().for_each(|line| text.push_str(&format!("print: {line}\n")));
        match came.len() {
            1 => came.keys().for_each(|words| text.push_str(&format!("{words}\n"))),
            _ => came.iter().for_each(|(words, times)| text.push_str(&format!("{times} times {words}\n"))),
        }
        text.push_str(&format!("{}, {}\n", counted(tried.operations as usize, "operation"), micros(took)));
        say(&text)?;
        Ok(if tried.answer.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn tests(&self, source: &weir_script::Source) -> anyhow::Result<ExitCode> {
        let mut file = self.file.clone().into_os_string();
        file.push(".tests.toml");
        let file = PathBuf::from(file);
        if !file.exists() {
            say(&format!("{}: the samples pass; there are no tests ({})\n", source.file, file.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let tests =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let outcomes = trial::tests(source, &tests).map_err(|why| anyhow!("{}: {why}", file.display()))?;
        let mut text = String::new();
        for outcome in &outcomes {
            match &outcome.failed {
                None => text.push_str(&format!("ok      {}\n", outcome.name)),
                Some(why) => text.push_str(&format!("FAILED  {}: {why}\n", outcome.name)),
            }
        }
        let failed = outcomes.iter().filter(|outcome| outcome.failed.is_some()).count();
        text.push_str(&format!("{} passed, {failed} failed\n", outcomes.len() - failed));
        say(&text)?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn wrong(mistake: &Mistake) -> anyhow::Result<ExitCode> {
    let text = if diagnostics::is_coloured() { mistake.render_coloured() } else { mistake.to_string() };
    writeln!(stderr(), "{text}")?;
    Ok(ExitCode::FAILURE)
}

fn micros(took: Duration) -> String {
    format!("{:.1} µs", took.as_secs_f64() * 1e6)
}
