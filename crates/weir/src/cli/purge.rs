//! `weir purge`: takes objects out of the running Weir's cache, or makes them stale, or counts them.

use std::io::{self, BufRead};
use std::process::ExitCode;

use anyhow::Context;
use clap::{ArgGroup, Args};
use http::Method;
use weir_control::{Counted, PurgeOrder, PurgeScope, Purged, SCOPES_MAX};

use super::find::Find;
use super::jobs;
use crate::print::{counted, size};

/// What can be purged.
const WHAT: [&str; 5] = ["urls", "prefix", "tag", "site", "all"];

/// The command line of `weir purge`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(WHAT)))]
pub(crate) struct Purge {
    /// URLs with all their variants, as clients ask for them. Without `http://` or `https://` one means both.
    /// `-` reads them from the standard input, one a line.
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// Everything whose URL begins with this text; may be given several times.
    #[arg(long, value_name = "URL")]
    prefix: Vec<String>,
    /// Everything with this tag, of all sites or of `--site`; may be given several times.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Everything of this site: its first host. With `--tag`: what has one of the tags. Not with URLs or
    /// `--prefix`, which have their host themselves.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Everything.
    #[arg(long, conflicts_with_all = ["urls", "prefix", "tag", "site"])]
    all: bool,
    /// Only make it stale: Weir revalidates it before it uses it, or serves it stale where the rules allow.
    #[arg(long)]
    soft: bool,
    /// Purge nothing, and say how much it would take. Reads the head of everything that is held.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    find: Find,
}

impl Purge {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let scopes = self.scopes()?;
        if scopes.is_empty() {
            anyhow::bail!("the standard input has no URL");
        }
        if self.dry_run {
            return self.count(scopes);
        }
        for some in scopes.chunks(SCOPES_MAX) {
            let order = PurgeOrder { scope: None, scopes: some.to_vec(), soft: self.soft };
            let asked = self.find.ask(Method::POST, "/v1/purge", serde_json::to_vec(&order)?)?;
            let code = self.find.answer(&asked, show)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// An object that two orders concern would be counted twice, so that all must be one order.
    fn count(&self, scopes: Vec<PurgeScope>) -> anyhow::Result<ExitCode> {
        let order = PurgeOrder { scope: None, scopes, soft: self.soft };
        let body = serde_json::to_vec(&order)?;
        let asked = jobs::carry_out(&self.find, "/v1/purge/dry-run", body)?;
        self.find.answer(&asked, |found: &Counted| {
            let objects = usize::try_from(found.objects).unwrap_or(usize::MAX);
            format!("would take {}, {}\n", counted(objects, "object"), size(found.bytes))
        })
    }

    fn scopes(&self) -> anyhow::Result<Vec<PurgeScope>> {
        if self.site.is_some() && !(self.urls.is_empty() && self.prefix.is_empty()) {
            anyhow::bail!(
                "--site purges a whole site, or with --tag the tags of one: it narrows no URL and no \
                 --prefix, which have their host themselves; leave --site out, or purge it by itself"
            );
        }
        let Purge { urls, prefix, tag, site, all, .. } = self;
        Flags { urls, prefix, tag, site: site.as_deref(), all: *all }.scopes()
    }
}

/// What the flags of a command name.
pub(super) struct Flags<'a> {
    /// URLs; `-` stands for those of the standard input.
    pub(super) urls: &'a [String],
    pub(super) prefix: &'a [String],
    pub(super) tag: &'a [String],
    pub(super) site: Option<&'a str>,
    pub(super) all: bool,
}

impl Flags<'_> {
    pub(super) fn scopes(&self) -> anyhow::Result<Vec<PurgeScope>> {
        let mut scopes = Vec::new();
        for url in self.urls {
            if url == "-" {
                read(io::stdin().lock(), &mut scopes).context("cannot read the standard input")?;
            } else {
                scopes.push(PurgeScope::Url(url.clone()));
            }
        }
        scopes.extend(self.prefix.iter().cloned().map(PurgeScope::Prefix));
        let tags = self.tag.to_vec();
        scopes.extend(match self.site.map(str::to_owned) {
            None if self.all => Some(PurgeScope::All),
            None if tags.is_empty() => None,
            None => Some(PurgeScope::Tags(tags)),
            Some(site) if tags.is_empty() => Some(PurgeScope::Site(site)),
            Some(site) => Some(PurgeScope::TagsOf { site, tags }),
        });
        Ok(scopes)
    }
}

/// The URLs of a text, one a line.
fn read(lines: impl BufRead, scopes: &mut Vec<PurgeScope>) -> io::Result<()> {
    for line in lines.lines() {
        let line = line?;
        let url = line.trim();
        if !url.is_empty() {
            scopes.push(PurgeScope::Url(url.to_owned()));
        }
    }
    Ok(())
}

fn show(purged: &Purged) -> String {
    let done = if purged.soft { "stale from now on" } else { "purged" };
    let what = match purged.scopes.as_slice() {
        [scope] => name(scope),
        scopes => format!("{} scopes", scopes.len()),
    };
    let held = match purged.held {
        Some(0) => "; nothing is held".to_owned(),
        Some(held) => format!("; {held} held"),
        None => String::new(),
    };
    let hint = match purged.scopes.as_slice() {
        [PurgeScope::Url(_)] if purged.held == Some(0) => {
            "a URL has the host with its port, the path and the query as clients ask for them; \
             `--prefix` takes all that begins with a text\n"
        }
        _ => "",
    };
    let by_hand = match usize::try_from(purged.by_hand).unwrap_or(usize::MAX) {
        0 => String::new(),
        count => format!("not touched: {} laid by hand\n", counted(count, "piece")),
    };
    let (begins, whole): (Vec<&str>, Vec<&str>) =
        purged.wider.iter().map(String::as_str).partition(|text| text.contains("://"));
    let mut more = match begins.as_slice() {
        [] => String::new(),
        begins => format!(
            "more than was named: fields, cookies or parameters choose keys there, so that all went that \
             begins with {}\n",
            listed(begins)
        ),
    };
    if !whole.is_empty() {
        more.push_str(&format!(
            "more than was named: the ledger has no room for so many marks, so that all went of {}\n",
            listed(&whole)
        ));
    }
    format!("{done}: {what} (mark {}){held}\n{more}{by_hand}{hint}", purged.mark)
}

/// The most texts that a sentence names.
const LISTED_MAX: usize = 20;

fn listed(texts: &[&str]) -> String {
    let named = texts[..texts.len().min(LISTED_MAX)].join(", ");
    match texts.len().saturating_sub(LISTED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What a scope names, for people.
pub(super) fn name(scope: &PurgeScope) -> String {
    let listed = |tags: &[String]| match tags {
        [tag] => format!("the tag {tag}"),
        tags => format!("the tags {}", tags.join(", ")),
    };
    match scope {
        PurgeScope::Url(url) => url.clone(),
        PurgeScope::Prefix(prefix) => format!("all that begins with {prefix}"),
        PurgeScope::Tags(tags) => listed(tags),
        PurgeScope::TagsOf { site, tags } => format!("{} of {site}", listed(tags)),
        PurgeScope::Site(site) => format!("the site {site}"),
        PurgeScope::All => "everything".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_purged() {
        let tags = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (scope, soft, expect) in [
            (PurgeScope::Url("http://a/b".into()), false, "purged: http://a/b (mark 7)\n"),
            (PurgeScope::Tags(tags(&["x"])), true, "stale from now on: the tag x (mark 7)\n"),
            (PurgeScope::Tags(tags(&["x", "y"])), false, "purged: the tags x, y (mark 7)\n"),
            (
                PurgeScope::TagsOf { site: "a.test".into(), tags: tags(&["x"]) },
                false,
                "purged: the tag x of a.test (mark 7)\n",
            ),
            (PurgeScope::All, false, "purged: everything (mark 7)\n"),
        ] {
            assert_eq!(show(&Purged { mark: 7, scopes: vec![scope], soft, ..Purged::default() }), expect);
        }
        let url = || PurgeScope::Url("a/b".into());
        let held = |scopes, held| show(&Purged { mark: 7, scopes, held: Some(held), ..Purged::default() });
        let all = || Purged { mark: 7, scopes: vec![PurgeScope::All], ..Purged::default() };
        let left = Purged { by_hand: 2, ..all() };
        let wider = show(&Purged { wider: vec!["http://a/".into(), "https://a/".into()], ..all() });
        assert!(
            wider.contains("\nmore than was named") && wider.ends_with("http://a/, https://a/\n"),
            "{wider}"
        );
        let whole = show(&Purged { wider: vec!["a.test".into()], ..all() });
        assert!(
            whole.contains("no room for so many marks") && whole.ends_with("all went of a.test\n"),
            "{whole}"
        );
        assert_eq!(show(&left), "purged: everything (mark 7)\nnot touched: 2 pieces laid by hand\n");
        assert_eq!(held(vec![url()], 2), "purged: a/b (mark 7); 2 held\n");
        assert!(held(vec![url()], 0).starts_with("purged: a/b (mark 7); nothing is held\na URL has "));
        assert_eq!(held(vec![url(), url()], 0), "purged: 2 scopes (mark 7); nothing is held\n");
    }

    /// Before, the whole site went, and not what it has of these.
    #[test]
    fn a_site_narrows_tags_alone() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            purge: Purge,
        }
        let scopes = |line: &str| {
            let words = std::iter::once("purge").chain(line.split(' '));
            <Line as clap::Parser>::try_parse_from(words).unwrap().purge.scopes()
        };
        for line in [
            "--site a.test --prefix http://a.test/x",
            "--site a.test http://a.test/x",
            "--site a.test -",
            "--site a.test --tag t --prefix http://a.test/x",
        ] {
            let said = scopes(line).unwrap_err().to_string();
            assert!(said.contains("leave --site out"), "{line}: {said}");
        }
        let tags = PurgeScope::TagsOf { site: "a.test".into(), tags: vec!["t".into()] };
        assert_eq!(scopes("--site a.test --tag t").unwrap(), [tags]);
        assert_eq!(scopes("--site a.test").unwrap(), [PurgeScope::Site("a.test".into())]);
        assert_eq!(scopes("--tag t a/b").unwrap().len(), 2);
    }

    #[test]
    fn urls_are_read_line_by_line() {
        let mut scopes = Vec::new();
        read(&b"http://a/b\n\n  a/c \r\n"[..], &mut scopes).unwrap();
        assert_eq!(scopes, [PurgeScope::Url("http://a/b".into()), PurgeScope::Url("a/c".into())]);
    }
}
