//! `weir warm`: has the running Weir ask for URLs, so that it holds them before clients want them.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{ArgGroup, Args};
use http::{Method, StatusCode};
use weir_control::{Asked, JobShown, JobState, WarmFolder, WarmOrder, WarmPiece, Warmed};

use super::find::Find;
use super::{jobs, live};
use crate::print::{plain, say};
use crate::warming::list::Pieces;

/// The path.
const WARM: &str = "/v1/warm";
/// How long to wait for a warming that goes on in another process.
const AGAIN_MAX: u32 = 60;
const AGAIN_EVERY: Duration = Duration::from_secs(1);

/// Where URLs come from.
const WHAT: [&str; 4] = ["urls", "list", "sitemap", "folder"];

/// The command line of `weir warm`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(WHAT)))]
pub(crate) struct Warm {
    /// URLs, as clients ask for them.
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// A file with a URL a line; `-` is the standard input. May be given several times.
    #[arg(long, value_name = "FILE")]
    list: Vec<PathBuf>,
    /// A sitemap, or an index of sitemaps, of a site of this Weir; may be given several times.
    #[arg(long, value_name = "URL")]
    sitemap: Vec<String>,
    /// Put in the files below this folder, as if the origin had answered with them. Only on the machine of
    /// the running Weir.
    #[arg(long, value_name = "DIR", requires = "url_of_folder")]
    folder: Option<PathBuf>,
    /// The URL of that folder.
    #[arg(id = "url_of_folder", long = "as", value_name = "URL", requires = "folder")]
    url_of_folder: Option<String>,
    /// URLs a second at most [default: as fast as clients leave room].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// URLs at a time at most [default: 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: Option<u16>,
    /// A field of each request, such as `Accept-Encoding: br`, to warm that variant; may be given several
    /// times.
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    header: Vec<String>,
    /// Fetch also what is fresh.
    #[arg(long)]
    refresh: bool,
    /// Do not wait for the end: `weir jobs` shows it.
    #[arg(long)]
    background: bool,
    #[command(flatten)]
    find: Find,
}

impl Warm {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let begun = match self.send()? {
            Sent::Begun(job) => job,
            Sent::Refused(asked) => return self.find.answer(&asked, |_: &JobShown| String::new()),
        };
        if self.background {
            if self.find.json {
                crate::print::say_json(&begun)?;
            } else {
                let id = &begun.id;
                let text = format!("the job {id} goes on by itself; `weir jobs {id} --cancel` ends it\n");
                say(&plain(&text))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if io::stderr().is_terminal() {
            let id = &begun.id;
            let text = format!("the job {id} goes on if you leave it; `weir jobs {id} --cancel` ends it\n");
            write!(io::stderr(), "{}", plain(&text))?;
        }
        let ended = self.wait(&begun.id)?;
        let asked = jobs::outcome(&ended)?;
        let code = self.find.answer(&asked, show)?;
        let has_failed =
            serde_json::from_slice(&asked.body).is_ok_and(|warmed: Warmed| !warmed.failed.is_empty());
        Ok(if has_failed { ExitCode::FAILURE } else { code })
    }

    /// Sends the order, and the list in pieces.
    fn send(&self) -> anyhow::Result<Sent> {
        let mut pieces = Pieces::of(&self.urls, &self.list);
        let first = pieces.next()?;
        let next = pieces.next()?;
        let order = self.order(first.clone(), next.is_some())?;
        let asked = live::ask_again(&self.find, &Method::POST, WARM, &serde_json::to_vec(&order)?)?;
        if asked.status != StatusCode::ACCEPTED {
            return Ok(Sent::Refused(asked));
        }
        let job: JobShown = serde_json::from_slice(&asked.body)
            .context("cannot read the running Weir's answer; is it of another version?")?;
        let begun = first.map_or(0, |piece| piece.len() as u64);
        let sent = self.send_rest(&job, (&mut pieces, next), begun);
        if !matches!(sent, Ok(None)) {
            // A job without its list would wait for it.
            let _ = self.find.ask(Method::DELETE, &format!("{}/{}", jobs::JOBS, job.id), Vec::new());
        }
        Ok(sent?.map_or_else(|| Sent::Begun(Box::new(job)), Sent::Refused))
    }

    /// Sends the rest of the list. Returns the refusal where a piece is refused.
    fn send_rest(
        &self,
        job: &JobShown,
        (pieces, mut next): (&mut Pieces<'_>, Option<Vec<String>>),
        mut at: u64,
    ) -> anyhow::Result<Option<Asked>> {
        while let Some(urls) = next {
            next = pieces.next()?;
            let (count, more) = (urls.len() as u64, next.is_some());
            let piece = serde_json::to_vec(&WarmPiece { at, urls, more })?;
            let path = format!("{WARM}/{}", job.id);
            let asked = live::ask_again(&self.find, &Method::POST, &path, &piece)?;
            if !asked.status.is_success() {
                return Ok(Some(asked));
            }
            at += count;
        }
        Ok(None)
    }

    fn order(&self, urls: Option<Vec<String>>, more: bool) -> anyhow::Result<WarmOrder> {
        let folder = match (&self.folder, &self.url_of_folder) {
            (Some(path), Some(url)) => {
                let whole = path.canonicalize();
                let path = whole.with_context(|| format!("cannot use the folder {}", path.display()))?;
                Some(WarmFolder { path, url: url.clone() })
            }
            _ => None,
        };
        Ok(WarmOrder {
            urls: urls.unwrap_or_default(),
            sitemaps: self.sitemap.clone(),
            folder,
            headers: self.header.clone(),
            rate: self.rate,
            parallel: self.parallel,
            refresh: self.refresh,
            more,
        })
    }

    /// Waits until the job has ended, in whichever process.
    fn wait(&self, id: &str) -> anyhow::Result<JobShown> {
        let path = format!("{}/{id}", jobs::JOBS);
        let mut again = 0;
        loop {
            if let Some(ended) = jobs::wait(&self.find, &path)? {
                return Ok(ended);
            }
            // The next process goes on with it, under the same id.
            loop {
                again += 1;
                if again > AGAIN_MAX {
                    bail!("the job {id} is not known any more; see `weir jobs` and `weir history`");
                }
                std::thread::sleep(AGAIN_EVERY);
                let asked = live::ask_again(&self.find, &Method::GET, &path, &[])?;
                let shown: Option<JobShown> = serde_json::from_slice(&asked.body).ok();
                if shown.is_some_and(|job| job.state != JobState::Interrupted) {
                    again = 0;
                    break;
                }
            }
        }
    }
}

/// How sending went.
enum Sent {
    Begun(Box<JobShown>),
    Refused(Asked),
}

/// What came of the URLs.
pub(super) fn show(warmed: &Warmed) -> String {
    let Warmed { stored, confirmed, fresh, not_stored, failed, examples } = warmed;
    let mut text = format!("stored {stored}, confirmed by the origin {confirmed}, fresh already {fresh}\n");
    for (words, what) in [(not_stored, "not stored"), (failed, "failed")] {
        if !words.is_empty() {
            text += &format!("{what} {}: {}\n", words.values().sum::<u64>(), listed(words));
        }
    }
    for example in examples {
        text += &format!("  {}  {}\n", example.url, example.why);
    }
    text
}

/// `no-store 3, set-cookie 1`: the most frequent first.
fn listed(words: &BTreeMap<String, u64>) -> String {
    let mut all: Vec<_> = words.iter().collect();
    all.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), word.as_str()));
    all.into_iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use weir_control::WarmExample;

    use super::*;

    #[test]
    fn it_says_what_came_of_the_urls() {
        let words = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            pairs.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
        };
        let warmed = Warmed {
            stored: 5,
            confirmed: 1,
            fresh: 2,
            not_stored: words(&[("no-store", 3), ("set-cookie", 4)]),
            failed: words(&[("503", 1)]),
            examples: vec![WarmExample { url: "http://a.test/".to_owned(), why: "503".to_owned() }],
        };
        let expect = "stored 5, confirmed by the origin 1, fresh already 2\n\
                      not stored 7: set-cookie 4, no-store 3\nfailed 1: 503 1\n  http://a.test/  503\n";
        assert_eq!(show(&warmed), expect);
    }
}
