//! `weir ttl`: says how long what the running Weir holds stays fresh, or lists what was said.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_config::value::Duration;
use weir_control::{PurgeScope, Retained, RetentionOrder, RetentionShown, Retentions, SCOPES_MAX};

use super::find::Find;
use super::purge::{Flags, name};
use crate::print::plain;

const PATH: &str = "/v1/ttl";

/// The command line of `weir ttl`.
#[derive(Debug, Args)]
#[command(
    override_usage = "weir ttl [URL]... [--prefix URL] [--tag TAG] [--site SITE] [--all] LIFETIME\n       \
                            weir ttl"
)]
pub(crate) struct Ttl {
    /// URLs with all their variants, as clients ask for them; `-` reads them from the standard input, one a
    /// line. Last how long what is named stays fresh from now on: 10m, 36h, 0s. Without any word and flag:
    /// lists what was ordered and has not ended.
    #[arg(value_name = "URL... LIFETIME")]
    words: Vec<String>,
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
    #[arg(long, conflicts_with_all = ["prefix", "tag", "site"])]
    all: bool,
    #[command(flatten)]
    find: Find,
}

/// What a line of words means.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    List,
    Order { scopes: Vec<PurgeScope>, lifetime_s: u64 },
}

impl Ttl {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Meant::Order { scopes, lifetime_s } = self.meant()? else {
            let asked = self.find.ask(Method::GET, PATH, Vec::new())?;
            return self.find.answer(&asked, list);
        };
        for some in scopes.chunks(SCOPES_MAX) {
            let order = RetentionOrder { scope: None, scopes: some.to_vec(), lifetime_s };
            let asked = self.find.ask(Method::POST, PATH, serde_json::to_vec(&order)?)?;
            let code = self.find.answer(&asked, show)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn meant(&self) -> anyhow::Result<Meant> {
        let has_flags = self.all || self.site.is_some() || !self.tag.is_empty() || !self.prefix.is_empty();
        let Some((last, urls)) = self.words.split_last() else {
            anyhow::ensure!(!has_flags, "say how long last: `weir ttl --tag news 10m`");
            return Ok(Meant::List);
        };
        let lifetime_s = lifetime(last)?;
        let scopes = self.scopes(urls)?;
        anyhow::ensure!(
            !scopes.is_empty(),
            "name what stays fresh for {last}: URLs, --prefix, --tag, --site or --all"
        );
        Ok(Meant::Order { scopes, lifetime_s })
    }

    fn scopes(&self, urls: &[String]) -> anyhow::Result<Vec<PurgeScope>> {
        if self.site.is_some() && !(urls.is_empty() && self.prefix.is_empty()) {
            anyhow::bail!(
                "--site means a whole site, or with --tag the tags of one: it narrows no URL and no \
                 --prefix, which have their host themselves; leave --site out"
            );
        }
        anyhow::ensure!(!self.all || urls.is_empty(), "--all means everything: leave the URLs out");
        let (prefix, tag, site) = (&self.prefix, &self.tag, self.site.as_deref());
        Flags { urls, prefix, tag, site, all: self.all }.scopes()
    }
}

/// A lifetime in whole seconds.
fn lifetime(text: &str) -> anyhow::Result<u64> {
    let parsed: Result<Duration, String> = text.parse();
    let span = parsed.map_err(|why| {
        anyhow::anyhow!("the last word is how long, as in `weir ttl --tag news 10m`: {why}")
    })?;
    anyhow::ensure!(span.0.subsec_nanos() == 0, "a lifetime has whole seconds: {text} has not");
    Ok(span.0.as_secs())
}

fn show(retained: &Retained) -> String {
    let what = match retained.scopes.as_slice() {
        [scope] => name(scope),
        scopes => format!("{} scopes", scopes.len()),
    };
    let Retained { mark, until, lifetime_s, .. } = retained;
    match lifetime_s {
        0 => format!("stale from now on: {what} (mark {mark})\n"),
        _ => format!("fresh until {until}: {what} (mark {mark})\n"),
    }
}

fn list(found: &Retentions) -> String {
    let mut text: String = found.retentions.iter().map(line).collect();
    if found.retentions.is_empty() {
        text += "no lifetime is ordered: `weir ttl --tag news 10m` does that\n";
    }
    if found.more {
        text += "there may be more: `weir history --act ttl`\n";
    }
    text
}

fn line(row: &RetentionShown) -> String {
    let RetentionShown { scope, lifetime_s, given, until, left_s, actor, .. } = row;
    let (left, lifetime) = (Duration::seconds(*left_s), Duration::seconds(*lifetime_s));
    let line =
        format!("{}  until {until} ({left} left)  {lifetime} from {given} on, by {actor}", name(scope));
    plain(&line.replace('\n', " ")) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(line: &str) -> Result<Meant, String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            ttl: Ttl,
        }
        let words = std::iter::once("ttl").chain(line.split_whitespace());
        let line = <Line as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?;
        line.ttl.meant().map_err(|error| error.to_string())
    }

    #[test]
    fn the_last_word_is_how_long_and_no_word_lists() {
        let tags = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let url = |url: &str| PurgeScope::Url(url.to_owned());
        for (line, scopes, lifetime_s) in [
            ("--tag news 10m", vec![PurgeScope::Tags(tags(&["news"]))], 600),
            ("10m --tag news", vec![PurgeScope::Tags(tags(&["news"]))], 600),
            ("a/b http://c/ 1h30m", vec![url("a/b"), url("http://c/")], 5400),
            (
                "--prefix a/x --prefix a/y 0s",
                vec!["a/x", "a/y"].into_iter().map(|p| PurgeScope::Prefix(p.into())).collect(),
                0,
            ),
            ("--site a 1d", vec![PurgeScope::Site("a".into())], 86_400),
            (
                "--site a --tag t --tag u 1s",
                vec![PurgeScope::TagsOf { site: "a".into(), tags: tags(&["t", "u"]) }],
                1,
            ),
            ("--all 0", vec![PurgeScope::All], 0),
        ] {
            assert_eq!(meant(line), Ok(Meant::Order { scopes, lifetime_s }), "{line}");
        }
        assert_eq!(meant(""), Ok(Meant::List));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (line, expect) in [
            ("--tag news", "say how long last"),
            ("10m", "name what stays fresh for 10m"),
            ("a/b", "the last word is how long"),
            ("--tag news 10", "did you mean `10s`?"),
            ("--tag news 500ms", "whole seconds"),
            ("--tag news 11000d", "more than ten years"),
            ("--site a a/b 10m", "leave --site out"),
            ("--site a --prefix a/b 10m", "leave --site out"),
            ("--all a/b 10m", "leave the URLs out"),
            ("--all --tag t 10m", "cannot be used with"),
        ] {
            let said = meant(line).unwrap_err();
            assert!(said.contains(expect), "{line}: {said}");
        }
    }

    #[test]
    fn it_says_until_when_and_lists_what_is_in_force() {
        let until = "2026-11-26T20:31:00Z".to_owned();
        let scope = PurgeScope::Tags(vec!["news".to_owned()]);
        let retained =
            Retained { mark: 7, scopes: vec![scope.clone()], lifetime_s: 600, until: until.clone() };
        assert_eq!(show(&retained), "fresh until 2026-11-26T20:31:00Z: the tag news (mark 7)\n");
        assert_eq!(
            show(&Retained { lifetime_s: 0, ..retained }),
            "stale from now on: the tag news (mark 7)\n"
        );
        let row = RetentionShown {
            scope: PurgeScope::Tags(vec!["a\u{1b}[2J\nb".to_owned()]),
            lifetime_s: 600,
            given: "2026-11-26T20:21:00.000Z".to_owned(),
            until,
            left_s: 552,
            actor: "token:ops".to_owned(),
            mark: None,
            sites: Vec::new(),
        };
        let found = Retentions { retentions: vec![row], more: true };
        assert_eq!(
            list(&found),
            "the tag a\\u001b[2J b  until 2026-11-26T20:31:00Z (9m12s left)  10m from \
             2026-11-26T20:21:00.000Z on, by token:ops\nthere may be more: `weir history --act ttl`\n"
        );
        assert!(list(&Retentions::default()).starts_with("no lifetime is ordered"));
    }
}
