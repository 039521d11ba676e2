//! `weir top`: what is asked for most, rates, times, volumes and jobs, on a screen or once as text. The
//! screen is `screen`, its words are `text`, and `asking` asks the running Weir. A build without the feature
//! `screen` says so, and prints the text once.

#[cfg(feature = "screen")]
mod asking;
#[cfg(feature = "screen")]
mod screen;
#[cfg(feature = "screen")]
mod terminal;
mod text;

#[cfg(not(feature = "screen"))]
use std::io::Write;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use http::Method;
use weir_control::{TOP_ROWS, Top, TopWanted};
use weir_observe::{TopBy, TopOrder, TopWindow};

use super::find::Find;

/// The command line of `weir top`.
#[derive(Debug, Args)]
pub(crate) struct ShowTop {
    /// What is listed: url, client, site or origin.
    #[arg(long, value_name = "WHAT", default_value = "url", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(TopBy::ALL.map(TopBy::word)))]
    by: String,
    /// What the list is ordered by: asked, missed, bytes or not-stored.
    #[arg(long, value_name = "ORDER", default_value = "asked", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(TopOrder::ALL.map(TopOrder::word)))]
    order: String,
    /// The span of time: minute or hour.
    #[arg(long, value_name = "SPAN", default_value = "minute", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(TopWindow::ALL.map(TopWindow::word)))]
    window: String,
    /// Only of this site, by its name (its first host) or another of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The most rows, 1 to 100.
    #[arg(long, value_name = "ROWS", default_value_t = TOP_ROWS)]
    limit: usize,
    /// Print it once as text, for scripts; with --json as JSON.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    find: Find,
}

impl ShowTop {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let wanted = self.wanted();
        if self.once || self.find.json {
            return self.once(&wanted);
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            anyhow::bail!("`weir top` needs a terminal; print it once with --once");
        }
        self.watch(wanted)
    }

    fn once(&self, wanted: &TopWanted) -> anyhow::Result<ExitCode> {
        let asked = self.find.ask(Method::GET, &wanted.write(), Vec::new())?;
        self.find.answer(&asked, |top: &Top| text::whole(top))
    }

    #[cfg(feature = "screen")]
    fn watch(&self, wanted: TopWanted) -> anyhow::Result<ExitCode> {
        screen::run(&self.find, wanted)
    }

    #[cfg(not(feature = "screen"))]
    fn watch(&self, wanted: TopWanted) -> anyhow::Result<ExitCode> {
        let lack = crate::build::Feature::Screen.lack();
        writeln!(io::stderr(), "weir: {lack}; as with --once:\n")?;
        self.once(&wanted)
    }

    fn wanted(&self) -> TopWanted {
        TopWanted {
            by: chosen(&self.by, TopBy::ALL, TopBy::word),
            order: chosen(&self.order, TopOrder::ALL, TopOrder::word),
            window: chosen(&self.window, TopWindow::ALL, TopWindow::word),
            limit: self.limit,
            site: self.site.clone(),
        }
    }
}

/// The one with this word, which the command line has checked.
fn chosen<T: Copy, const N: usize>(text: &str, all: [T; N], word: fn(T) -> &'static str) -> T {
    all.into_iter().find(|one| word(*one) == text).unwrap_or(all[0])
}
