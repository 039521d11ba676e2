//! `weir list`: what the running Weir has cached.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_control::{CachedObject, ListOrder, Listing, query};

use super::find::Find;
use crate::print::{plain, size};

/// The command line of `weir list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only objects of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Only URLs that begin with this text, as in `weir purge --prefix`.
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// Only objects with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// The most objects to show, up to 10000.
    #[arg(long, value_name = "N", default_value_t = query::LIMIT)]
    limit: usize,
    /// Continue after the previous page: the value that it printed at its end.
    #[arg(long, value_name = "TOKEN")]
    after: Option<String>,
    #[command(flatten)]
    find: Find,
}

impl List {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let List { site, prefix, tag, limit, after, find } = self;
        let is_first = after.is_none();
        let path = query::write(&ListOrder { site, prefix, tag, limit, after });
        let asked = find.ask(Method::GET, &path, Vec::new())?;
        find.answer(&asked, |listing| show(listing, is_first))
    }
}

fn show(listing: &Listing, is_first: bool) -> String {
    let mut text: String = listing.objects.iter().map(line).collect();
    if listing.objects.is_empty() && listing.next.is_none() {
        text += if is_first { "nothing like that is cached\n" } else { "nothing more is cached\n" };
    }
    if let Some(next) = &listing.next {
        text += &format!("there may be more: --after {next}\n");
    }
    text
}

fn line(object: &CachedObject) -> String {
    let place = match (object.memory, object.volume) {
        (true, true) => "both",
        (true, false) => "memory",
        (false, _) => "volume",
    };
    let part = match (object.part, object.body_bytes) {
        (false, _) => String::new(),
        (true, Some(length)) => format!("  part of {}", size(length)),
        (true, None) => "  part".to_owned(),
    };
    let held = size(object.held_bytes);
    let key: String = object.key.iter().map(|line| format!("  {line}")).collect();
    let CachedObject { url, status, age_s, lifetime_s, .. } = object;
    let line = format!("{place:<6} {held:>10} {status} {age_s:>7}s of {lifetime_s}s{part}  {url}{key}");
    plain(&line.replace('\n', " ")) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each_and_how_to_go_on() {
        let object = CachedObject {
            url: "http://a/b".to_owned(),
            key: vec!["accept:x".to_owned()],
            status: 200,
            body_bytes: Some(2048),
            held_bytes: 2048,
            age_s: 5,
            lifetime_s: 60,
            memory: true,
            ..CachedObject::default()
        };
        let part =
            CachedObject { body_bytes: Some(2 << 30), held_bytes: 65_536, part: true, ..object.clone() };
        let listing = Listing { objects: vec![object, part], next: Some("0a".to_owned()) };
        let expect = "memory    2.0 KiB 200       5s of 60s  http://a/b  accept:x\n\
                      memory   64.0 KiB 200       5s of 60s  part of 2.0 GiB  http://a/b  accept:x\n\
                      there may be more: --after 0a\n";
        assert_eq!(show(&listing, true), expect);
        assert_eq!(show(&Listing::default(), true), "nothing like that is cached\n");
        assert_eq!(show(&Listing::default(), false), "nothing more is cached\n");
    }
}
