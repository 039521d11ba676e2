//! `weir content`: lays content over URLs by hand, lists it, and resets URLs.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use http::{HeaderValue, Method, StatusCode};
use weir_control::query::{self, ContentNamed};
use weir_control::{Ask, Asked, ContentLaid, ContentListing, ContentShown, ContentWanted, Sending, client};

use super::find::Find;
use crate::print::{counted, plain, size};

/// How long an answer may take beside the sending.
const PATIENCE: Duration = Duration::from_secs(60);
/// A connection is at least so fast, in bytes a second.
const SPEED_MIN: u64 = 64 << 10;
/// How often content is sent again where a new process takes over, and how long before each.
const SENT_MAX: usize = 10;
const PAUSE: Duration = Duration::from_millis(500);
/// What stands for the standard input.
const STDIN: &str = "-";
/// The media type of what has no known ending.
const UNKNOWN: &str = "application/octet-stream";

/// The command line of `weir content`.
#[derive(Debug, Args)]
pub(crate) struct Content {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Lay a file over a URL: a new one, or in place of what the origin has. It is there until it is reset.
    Put(Put),
    /// List what is laid.
    List(List),
    /// Take away what is laid over URLs: the cache and the origin answer again.
    Reset(Reset),
}

#[derive(Debug, Args)]
struct Put {
    /// The URL, as clients ask for it, with its query. It is laid for http and https alike.
    #[arg(value_name = "URL")]
    url: String,
    /// The file with the content; `-` reads it from the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its media type [default: by the ending of the URL's path, else of FILE].
    #[arg(long = "type", value_name = "TYPE")]
    content_type: Option<String>,
    /// End it by itself after this time: 90s, 1h, 7d [default: it stays until it is reset].
    #[arg(long, value_name = "DURATION")]
    ttl: Option<weir_config::value::Duration>,
    #[command(flatten)]
    find: Find,
}

#[derive(Debug, Args)]
struct List {
    /// Only that of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Only URLs that begin with this text.
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// The most pieces to show, up to 10000.
    #[arg(long, value_name = "N", default_value_t = query::LIMIT)]
    limit: usize,
    /// Continue after the previous page: the URL that it printed at its end.
    #[arg(long, value_name = "URL")]
    after: Option<String>,
    #[command(flatten)]
    find: Find,
}

#[derive(Debug, Args)]
struct Reset {
    /// The URLs.
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
    #[command(flatten)]
    find: Find,
}

impl Content {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.act {
            Act::Put(put) => put.run(),
            Act::List(List { site, prefix, limit, after, find }) => {
                let is_first = after.is_none();
                let wanted = ContentWanted { site, sites: None, prefix, limit, after };
                let asked = find.ask(Method::GET, &query::write_content_list(&wanted), Vec::new())?;
                find.answer(&asked, |listing| listed(listing, is_first))
            }
            Act::Reset(reset) => reset.run(),
        }
    }
}

impl Reset {
    /// Resets each URL, also where another could not be.
    fn run(self) -> anyhow::Result<ExitCode> {
        let Reset { urls, find } = self;
        let mut all = ExitCode::SUCCESS;
        for url in urls {
            let named = ContentNamed { url: Some(url), ..ContentNamed::default() };
            let asked = find.ask(Method::DELETE, &query::write_content(&named), Vec::new())?;
            let reset = find.answer(&asked, |gone: &ContentShown| format!("reset: {}\n", gone.url));
            let code = reset.or_else(|error| {
                let why = plain(&crate::print::sentence(&error));
                writeln!(io::stderr(), "weir: {why}").map(|()| ExitCode::FAILURE)
            })?;
            if code != ExitCode::SUCCESS {
                all = code;
            }
        }
        Ok(all)
    }
}

impl Put {
    fn run(self) -> anyhow::Result<ExitCode> {
        let Put { url, file, content_type, ttl, find } = self;
        let content_type = content_type.or_else(|| by_file(&url, &file));
        let ttl = ttl.map(|ttl| ttl.0);
        let named = ContentNamed { url: Some(url), site: None, content_type, ttl };
        let path = query::write_content(&named);
        let content = open(&file)?;
        let send = || {
            let mut content = content.try_clone()?;
            content.rewind()?;
            send(&find, &path, content).with_context(|| format!("cannot send {}", file.display()))
        };
        for _ in 1..SENT_MAX {
            let asked = send()?;
            if asked.status != StatusCode::SERVICE_UNAVAILABLE {
                return find.answer(&asked, laid);
            }
            std::thread::sleep(PAUSE);
        }
        let asked = send()?;
        find.answer(&asked, laid)
    }
}

/// The file that is to be sent. What has no length beforehand, such as the standard input or a pipe, is read
/// into a file without a name first: it may have to be sent again.
fn open(path: &Path) -> anyhow::Result<File> {
    let cannot = || format!("cannot read {}", path.display());
    if path == Path::new(STDIN) {
        return spooled(io::stdin().lock()).with_context(|| "cannot read the standard input");
    }
    let file = File::open(path).with_context(cannot)?;
    let kind = file.metadata().with_context(cannot)?.file_type();
    if kind.is_dir() {
        bail!("{} is a folder: name a file; each URL has one of its own", path.display());
    }
    if kind.is_file() { Ok(file) } else { spooled(file).with_context(cannot) }
}

/// The bytes of a stream, in a file without a name.
fn spooled(mut stream: impl Read) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = File::from(open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR)?);
    io::copy(&mut stream, &mut file)?;
    Ok(file)
}

fn send(find: &Find, path: &str, file: File) -> anyhow::Result<Asked> {
    let sending = Sending::of(file)?;
    let patience = PATIENCE + Duration::from_secs(sending.left() / SPEED_MIN);
    let asked = Ask { method: Method::PUT, path: path.to_owned(), body: Vec::new(), patience };
    Ok(client::send(&find.way()?, asked, None::<&HeaderValue>, sending)?)
}

/// The media type by the file's name, where the URL's path does not tell it.
fn by_file(url: &str, file: &Path) -> Option<String> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let path = path.find('/').map_or("", |at| &path[at..]);
    let is_known = weir_files::media_type(path.as_bytes()) != UNKNOWN;
    let own = weir_files::media_type(file.as_os_str().as_encoded_bytes());
    (!is_known && own != UNKNOWN).then(|| own.to_owned())
}

fn laid(laid: &ContentLaid) -> String {
    let ContentLaid { replaced, content } = laid;
    let what = if *replaced { "laid again" } else { "laid" };
    let until = match &content.ends {
        Some(ends) => format!("until {ends}"),
        None => "until it is reset".to_owned(),
    };
    format!("{what}: {}  {}  {}  {until}\n", content.url, size(content.body_bytes), content.content_type)
}

fn listed(listing: &ContentListing, is_first: bool) -> String {
    let mut text: String = listing.content.iter().map(line).collect();
    if listing.content.is_empty() {
        text += if is_first { "nothing like that is laid by hand\n" } else { "nothing more is laid\n" };
    }
    if let Some(next) = &listing.next {
        text += &format!("there is more: --after '{}'\n", plain(next));
    }
    if let Some(all) = listing.in_use.filter(|_| is_first) {
        let objects = usize::try_from(all.objects).unwrap_or(usize::MAX);
        let (used, most) = (size(all.used_bytes), size(all.size_bytes));
        text += &format!("{} in all, {used} of {most}\n", counted(objects, "piece"));
    }
    text
}

fn line(content: &ContentShown) -> String {
    let state = match (content.shown, content.damaged, &content.covered_by) {
        (_, true, _) => "  damaged: lay it again".to_owned(),
        (false, false, Some(url)) => {
            format!("  not shown: {url} covers it, which has the same key and is newer")
        }
        (false, false, None) => "  not shown: its URL leads to none of its site's routes any more".to_owned(),
        (true, false, _) => String::new(),
    };
    let until = content.ends.as_ref().map(|ends| format!("  until {ends}")).unwrap_or_default();
    let ContentShown { url, content_type, laid, body_bytes, .. } = content;
    plain(&format!("{:>10}  {laid}  {content_type}  {url}{until}{state}", size(*body_bytes))) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each_and_what_there_is_in_all() {
        let content = ContentShown {
            url: "a.test/x\u{1b}[2J".to_owned(),
            content_type: "text/html".to_owned(),
            body_bytes: 2048,
            laid: "2026-11-23T10:00:00Z".to_owned(),
            shown: true,
            ..ContentShown::default()
        };
        let ends = Some("2026-11-24T10:00:00Z".to_owned());
        let gone = ContentShown { shown: false, ends, ..content.clone() };
        let in_use =
            weir_control::ContentUse { objects: 2, bytes: 4096, used_bytes: 16_384, size_bytes: 1 << 30 };
        let listing =
            ContentListing { content: vec![content, gone], next: Some("b".into()), in_use: Some(in_use) };
        let line = "   2.0 KiB  2026-11-23T10:00:00Z  text/html  a.test/x\\u001b[2J";
        let expect = format!(
            "{line}\n{line}  until 2026-11-24T10:00:00Z  not shown: its URL leads to none of its site's \
             routes any more\nthere is more: --after 'b'\n2 pieces in all, 16.0 KiB of 1.0 GiB\n"
        );
        assert_eq!(listed(&listing, true), expect);
        assert_eq!(listed(&ContentListing::default(), true), "nothing like that is laid by hand\n");
    }

    #[test]
    fn the_file_tells_the_type_where_the_url_does_not() {
        for (url, file, expect) in [
            ("https://a.test/", "x/index.html", Some("text/html; charset=utf-8")),
            ("a.test/style.css?v=1", "x.html", None),
            ("http://a.test", "x", None),
            ("a.html/none", "x.png", Some("image/png")),
        ] {
            assert_eq!(by_file(url, Path::new(file)).as_deref(), expect, "{url}");
        }
    }
}
