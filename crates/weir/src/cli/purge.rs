//! `weir purge`: takes objects out of the running Weir's cache, or makes them stale.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use http::Method;
use weir_control::{PurgeOrder, PurgeScope, Purged};

use super::find::Find;

/// The command line of `weir purge`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["url", "prefix", "tag", "site", "all"])))]
pub(crate) struct Purge {
    /// A URL with all its variants, as clients ask for it. Without `http://` or `https://` it means both.
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Everything whose URL begins with this text.
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// Everything with this tag; may be given several times.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Everything of this site: its first host.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Everything.
    #[arg(long)]
    all: bool,
    /// Only make it stale: Weir revalidates it before it uses it, or serves it stale where the rules allow.
    #[arg(long)]
    soft: bool,
    #[command(flatten)]
    find: Find,
}

impl Purge {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let order = PurgeOrder { scope: scope(self.url, self.prefix, self.site, self.tag), soft: self.soft };
        let asked = self.find.ask(Method::POST, "/v1/purge", serde_json::to_vec(&order)?)?;
        self.find.answer(&asked, show)
    }
}

/// The scope that was given; the command line makes sure that there is exactly one.
fn scope(url: Option<String>, prefix: Option<String>, site: Option<String>, tags: Vec<String>) -> PurgeScope {
    let one = url.map(PurgeScope::Url).or(prefix.map(PurgeScope::Prefix)).or(site.map(PurgeScope::Site));
    match one {
        Some(scope) => scope,
        None if tags.is_empty() => PurgeScope::All,
        None => PurgeScope::Tags(tags),
    }
}

fn show(purged: &Purged) -> String {
    let what = match &purged.scope {
        PurgeScope::Url(url) => url.clone(),
        PurgeScope::Prefix(prefix) => format!("all that begins with {prefix}"),
        PurgeScope::Tags(tags) if tags.len() == 1 => format!("the tag {}", tags[0]),
        PurgeScope::Tags(tags) => format!("the tags {}", tags.join(", ")),
        PurgeScope::Site(site) => format!("the site {site}"),
        PurgeScope::All => "everything".to_owned(),
    };
    let done = if purged.soft { "stale from now on" } else { "purged" };
    format!("{done}: {what} (mark {})\n", purged.mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_purged() {
        for (scope, soft, expect) in [
            (PurgeScope::Url("http://a/b".into()), false, "purged: http://a/b (mark 7)\n"),
            (PurgeScope::Tags(vec!["x".into()]), true, "stale from now on: the tag x (mark 7)\n"),
            (PurgeScope::Tags(vec!["x".into(), "y".into()]), false, "purged: the tags x, y (mark 7)\n"),
            (PurgeScope::All, false, "purged: everything (mark 7)\n"),
        ] {
            assert_eq!(show(&Purged { mark: 7, scope, soft }), expect);
        }
    }
}
