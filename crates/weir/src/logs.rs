//! Which logs are written: the access log of `--log`, else of the configuration; on a terminal lines for
//! people; the upstream log of the configuration.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::str::FromStr;

use weir_config::model::{AccessFormat, Log};
use weir_config::value;
use weir_observe::{Colour, LogFormat, LogSettings, LogTarget};

/// The value of `--log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogChoice {
    /// Nothing: the configuration decides, and a terminal gets lines for people.
    #[default]
    Unsaid,
    /// No log.
    Off,
    /// Lines for people on the standard output.
    Terminal,
    /// JSON or combined, to a file or the standard output.
    Access(AccessFormat, Option<PathBuf>),
}

impl FromStr for LogChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<LogChoice, String> {
        let (form, path) = match text.split_once(':') {
            Some((_, "")) => return Err("the file's name is missing after the colon".to_owned()),
            Some((form, path)) => (form, Some(PathBuf::from(path))),
            None => (text, None),
        };
        match (form, path) {
            ("json", path) => Ok(LogChoice::Access(AccessFormat::Json, path)),
            ("combined", path) => Ok(LogChoice::Access(AccessFormat::Combined, path)),
            ("terminal", None) => Ok(LogChoice::Terminal),
            ("off", None) => Ok(LogChoice::Off),
            _ => Err("write json, combined, json:FILE, combined:FILE, terminal or off".to_owned()),
        }
    }
}

/// A terminal at the standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    columns: usize,
    colour: Colour,
}

impl Terminal {
    /// The terminal, if there is one.
    pub(crate) fn at_stdout() -> Option<Terminal> {
        let colour = match std::env::var_os("NO_COLOR") {
            Some(set) if !set.is_empty() => Colour::Never,
            _ => Colour::Always,
        };
        std::io::stdout().is_terminal().then(|| Terminal { columns: columns(), colour })
    }
}

fn columns() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// The logs to write.
pub(crate) fn settings(choice: &LogChoice, config: &Log, terminal: Option<Terminal>) -> Vec<LogSettings> {
    let bytes_max = config.max_size.map(|size| size.0);
    let people = |terminal: Terminal| LogSettings {
        format: LogFormat::Terminal { columns: terminal.columns, colour: terminal.colour },
        target: LogTarget::Stdout,
        bytes_max: None,
    };
    let access = |format, target| LogSettings {
        format: match format {
            AccessFormat::Json => LogFormat::Json,
            AccessFormat::Combined => LogFormat::Combined,
        },
        target,
        bytes_max,
    };
    let mut logs = match choice {
        LogChoice::Off => Vec::new(),
        LogChoice::Terminal => {
            vec![people(terminal.unwrap_or(Terminal { columns: 100, colour: Colour::Never }))]
        }
        LogChoice::Access(format, path) => {
            vec![access(*format, path.clone().map_or(LogTarget::Stdout, LogTarget::File))]
        }
        LogChoice::Unsaid => {
            let target = target(&config.path);
            let mut all: Vec<LogSettings> =
                config.access.map(|format| access(format, target.clone())).into_iter().collect();
            if config.format.is_some() {
                all = vec![LogSettings { format: LogFormat::Own, target, bytes_max }];
            }
            if all.iter().all(|log| log.target != LogTarget::Stdout) {
                all.extend(terminal.map(people));
            }
            all
        }
    };
    let upstream = config.upstream.as_ref().map(target);
    logs.extend(upstream.map(|target| LogSettings { format: LogFormat::Upstream, target, bytes_max }));
    logs
}

fn target(configured: &value::LogTarget) -> LogTarget {
    match configured {
        value::LogTarget::Stdout => LogTarget::Stdout,
        value::LogTarget::File(path) => LogTarget::File(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(choice: &str, config: &Log, terminal: bool, expect: &[(&str, LogTarget)]) {
        let choice = if choice.is_empty() { LogChoice::Unsaid } else { choice.parse().unwrap() };
        let terminal = terminal.then_some(Terminal { columns: 80, colour: Colour::Never });
        let found: Vec<(&str, LogTarget)> = settings(&choice, config, terminal)
            .into_iter()
            .map(|log| match log.format {
                LogFormat::Json => ("json", log.target),
                LogFormat::Combined => ("combined", log.target),
                LogFormat::Own => ("own", log.target),
                LogFormat::Terminal { .. } => ("terminal", log.target),
                LogFormat::Upstream => ("upstream", log.target),
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn the_flag_wins_and_a_terminal_gets_lines() {
        let none = Log::default();
        let own = Log { format: Some("{status}".parse().unwrap()), ..Log::default() };
        check("", &own, true, &[("own", LogTarget::Stdout)]);
        check("json", &own, true, &[("json", LogTarget::Stdout)]);
        let stdout = Log { access: Some(AccessFormat::Json), ..Log::default() };
        let file = || LogTarget::File(PathBuf::from("/a"));
        let to_file = Log {
            access: Some(AccessFormat::Combined),
            path: value::LogTarget::File("/a".into()),
            ..Log::default()
        };
        let upstream = Log { upstream: Some(value::LogTarget::File("/a".into())), ..stdout.clone() };
        check("", &none, false, &[]);
        check("", &none, true, &[("terminal", LogTarget::Stdout)]);
        check("", &stdout, true, &[("json", LogTarget::Stdout)]);
        check("", &to_file, true, &[("combined", file()), ("terminal", LogTarget::Stdout)]);
        check("off", &to_file, true, &[]);
        check("terminal", &none, false, &[("terminal", LogTarget::Stdout)]);
        check("json:/a", &none, true, &[("json", file())]);
        check("combined", &to_file, false, &[("combined", LogTarget::Stdout)]);
        check("", &upstream, true, &[("json", LogTarget::Stdout), ("upstream", file())]);
        check("off", &upstream, true, &[("upstream", file())]);
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "xml", "json:", "off:/a", "terminal:/a"] {
            assert!(text.parse::<LogChoice>().is_err(), "{text}");
        }
    }
}
