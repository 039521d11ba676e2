//! `weir list`: what the running Weir has cached.

mod columns;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde::Deserialize;
use weir_control::{CachedObject, Followed, ListOrder, ListSum, query};

use super::find::Find;
use super::live;
use crate::print::{plain, say, size};
use columns::Column;

/// The command line of `weir list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only objects of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Only URLs that begin with this text, as in `weir purge --prefix`.
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// Only URLs that this glob takes as a whole, such as '*.jpg'; or behind ~ a regular expression:
    /// '~\.php($|\?)'.
    #[arg(long = "match", value_name = "PATTERN")]
    matching: Option<String>,
    /// Only objects with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only these statuses: 404, 200-299,404 or 5xx.
    #[arg(long, value_name = "STATUSES")]
    status: Option<String>,
    /// Only these media types: text/html or 'image/*'.
    #[arg(long = "type", value_name = "TYPES")]
    media_type: Option<String>,
    /// Only so many bytes held: 1MiB.. (at least), ..10KiB (at most), 1KiB..2KiB.
    #[arg(long, value_name = "RANGE")]
    size: Option<String>,
    /// Only of that age: 1h.. (at least), ..10m (at most).
    #[arg(long, value_name = "RANGE")]
    age: Option<String>,
    /// Only what is fresh or stale, or with a time such as 10m what expires within it.
    #[arg(long, value_name = "fresh|stale|TIME")]
    freshness: Option<String>,
    /// Only what is held in part.
    #[arg(long)]
    part: bool,
    /// Only what is held whole.
    #[arg(long, conflicts_with = "part")]
    whole: bool,
    /// Only what is in memory, or on the volume of that name.
    #[arg(long, value_name = "memory|VOLUME")]
    place: Option<String>,
    /// Only content by hand, which operators have laid over URLs.
    #[arg(long)]
    by_hand: bool,
    /// Everything but content by hand.
    #[arg(long, conflicts_with = "by_hand")]
    not_by_hand: bool,
    /// Show the first of an order: the URLs, the largest, the oldest, or what expires soonest.
    #[arg(long, value_name = "url|size|age|expires", conflicts_with_all = ["after", "all"])]
    sort: Option<String>,
    /// Show only how many objects and bytes there are.
    #[arg(long, conflicts_with_all = ["sort", "after", "all", "columns", "csv"])]
    sum: bool,
    /// The most objects to show, up to 10000.
    #[arg(long, value_name = "N", default_value_t = query::LIMIT)]
    limit: usize,
    /// Continue after the previous page: the value that it printed at its end.
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,
    /// Show all pages, one after another.
    #[arg(long)]
    all: bool,
    /// The columns to show, with commas between them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "json")]
    columns: Vec<Column>,
    /// Print CSV (RFC 4180), with all columns or those of --columns.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    find: Find,
}

/// How objects are printed.
enum Form {
    /// A line each, as it came.
    Json,
    /// A line each.
    Lines,
    /// Only these columns.
    Columns(Vec<Column>),
    /// The same as CSV.
    Csv(Vec<Column>),
}

/// A line of the stream that is no object.
#[derive(Debug, Default, Deserialize)]
struct Told {
    event: String,
    #[serde(default)]
    done: u64,
    total: Option<u64>,
    next: Option<String>,
    sum: Option<ListSum>,
    #[serde(default)]
    walked: usize,
    #[serde(default)]
    message: String,
}

impl List {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let held = match (self.part, self.whole) {
            (true, _) => Some("part".to_owned()),
            (_, true) => Some("whole".to_owned()),
            _ => None,
        };
        let mut order = ListOrder {
            site: self.site,
            prefix: self.prefix,
            tag: self.tag,
            matching: self.matching,
            status: self.status,
            media_type: self.media_type,
            size: self.size,
            age: self.age,
            freshness: self.freshness,
            held,
            place: self.place,
            by_hand: self.by_hand.then_some(true).or(self.not_by_hand.then_some(false)),
            sort: self.sort,
            is_sum: self.sum,
            limit: if self.all { query::LIMIT_MAX } else { self.limit },
            after: self.after,
        };
        let columns = if self.csv && self.columns.is_empty() { Column::ALL.to_vec() } else { self.columns };
        let form = match (self.find.json, self.csv) {
            (true, _) => Form::Json,
            (false, true) => Form::Csv(columns),
            (false, false) if columns.is_empty() => Form::Lines,
            (false, false) => Form::Columns(columns),
        };
        let mut printing = Printing { form, objects: 0, progress: 0 };
        printing.head()?;
        let is_first = order.after.is_none();
        loop {
            let Some(end) = printing.page(&self.find, &query::write(&order))? else {
                return Ok(ExitCode::SUCCESS);
            };
            if end.walked > 0 && is_first {
                let volumes = crate::print::counted(end.walked, "volume");
                let why = "without rows that are up to date: this takes longer";
                writeln!(io::stderr(), "{volumes} read from end to end, {why}")?;
            }
            if let (Some(next), true) = (&end.next, self.all) {
                order.after = Some(next.clone());
                continue;
            }
            printing.end(&end, is_first)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

struct Printing {
    form: Form,
    objects: u64,
    /// The width of the progress that is on the terminal.
    progress: usize,
}

impl Printing {
    fn head(&self) -> io::Result<()> {
        match &self.form {
            Form::Csv(columns) => say(&columns::csv_head(columns)),
            Form::Columns(columns) => say(&columns::head(columns)),
            Form::Json | Form::Lines => Ok(()),
        }
    }

    /// Prints a page as it comes. Returns its end, or `None` where the reader of the lines has seen enough.
    fn page(&mut self, find: &Find, path: &str) -> anyhow::Result<Option<Told>> {
        let (mut ended, mut failed) = (None, None);
        let followed = live::once(&find.way()?, path, &mut |line| match self.print(line) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(told) => {
                ended = told;
                ControlFlow::Break(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        })?;
        self.clear();
        if let Followed::Refused(asked) = followed {
            bail!(plain(&asked.refusal().unwrap_or_default()));
        }
        if let Some(error) = failed {
            let is_enough = error.kind() == io::ErrorKind::BrokenPipe;
            return if is_enough { Ok(None) } else { Err(error.into()) };
        }
        let end = ended.context("the list broke off, as at an upgrade: ask again")?;
        if end.event == "failed" {
            bail!(plain(&end.message));
        }
        Ok(Some(end))
    }

    /// Prints a line of the stream; returns the last one.
    fn print(&mut self, line: &[u8]) -> io::Result<Option<Told>> {
        if let Ok(told) = serde_json::from_slice::<Told>(line) {
            match told.event.as_str() {
                "progress" => self.show(&told),
                "end" | "failed" => return Ok(Some(told)),
                _ => {}
            }
            return Ok(None);
        }
        self.clear();
        let object: CachedObject = serde_json::from_slice(line)?;
        if let (Form::Lines, 0) = (&self.form, self.objects) {
            say(&columns::line_head())?;
        }
        self.objects += 1;
        say(&match &self.form {
            Form::Json => plain(&String::from_utf8_lossy(line)) + "\n",
            Form::Lines => columns::line(&object),
            Form::Columns(columns) => columns::row(columns, &object),
            Form::Csv(columns) => columns::csv_row(columns, &object),
        })?;
        Ok(None)
    }

    fn end(&self, end: &Told, is_first: bool) -> io::Result<()> {
        let Told { next, sum, walked, .. } = end;
        if let Form::Json = self.form {
            let end = serde_json::json!({ "event": "end", "next": next, "sum": sum, "walked": walked });
            return say(&format!("{end}\n"));
        }
        // Programs read rows; what is said beside them goes elsewhere.
        let is_read = matches!(self.form, Form::Csv(_));
        let tell = |text: &str| if is_read { io::stderr().write_all(text.as_bytes()) } else { say(text) };
        if let Some(sum) = sum {
            let shown = if self.objects > 0 { format!("{} of ", self.objects) } else { String::new() };
            let objects = crate::print::counted(usize::try_from(sum.objects).unwrap_or(usize::MAX), "object");
            return tell(&format!("{shown}{objects}, {} held\n", size(sum.held_bytes)));
        }
        match next {
            Some(next) => tell(&format!("there may be more: --after {next}\n")),
            None if self.objects > 0 => Ok(()),
            None if is_first => tell("nothing like that is cached\n"),
            None => tell("nothing more is cached\n"),
        }
    }

    fn show(&mut self, told: &Told) {
        if !io::stderr().is_terminal() {
            return;
        }
        let total = told.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let text = format!("{}{total} objects looked at", told.done);
        let width = self.progress.max(text.len());
        self.progress = text.len();
        let _ = write!(io::stderr(), "\r{text:<width$}");
    }

    fn clear(&mut self) {
        if self.progress > 0 {
            let _ = write!(io::stderr(), "\r{:1$}\r", "", self.progress);
        }
        self.progress = 0;
    }
}
