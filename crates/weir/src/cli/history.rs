//! `weir history`: what operators and clients have changed, or tried to.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use serde_json::Value;
use weir_control::{HistoryEntry, HistoryOrder, HistoryShown, query};

use super::find::Find;
use crate::print::plain;

/// The command line of `weir history`.
#[derive(Debug, Args)]
pub(crate) struct ShowHistory {
    /// Only entries of this site, by its name or one of its hosts.
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Only those of this actor: token:cms, user:root, client:192.0.2.1, signal.
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Only this act: purge, purge-dry-run, ttl, reload, upgrade, verify, warm, token-add, token-remove,
    /// origin-change, origin-metrics, content-put, content-reset, job-cancel, job-ended, refused.
    #[arg(long, value_name = "ACT")]
    act: Option<String>,
    /// Only this result: done, refused, failed.
    #[arg(long, value_name = "RESULT")]
    result: Option<String>,
    /// Only from this day (2026-11-22), this time of UTC (2026-11-22T10:30) or this long ago (36h, 30d, 4w)
    /// on.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// The most entries to show, the newest, up to 10000.
    #[arg(long, value_name = "N", default_value_t = query::LIMIT)]
    limit: usize,
    #[command(flatten)]
    find: Find,
}

impl ShowHistory {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let ShowHistory { site, actor, act, result, since, limit, find } = self;
        let path = query::write_history(&HistoryOrder { limit, site, actor, act, result, since });
        let asked = find.ask(Method::GET, &path, Vec::new())?;
        find.answer(&asked, show)
    }
}

fn show(shown: &HistoryShown) -> String {
    let mut text: String = shown.entries.iter().map(line).collect();
    if shown.entries.is_empty() {
        text += "nothing like that is in the history\n";
    }
    if let Some(failure) = &shown.failure {
        text += &format!("the history cannot be written now: {failure}\n");
    }
    if shown.lost > 0 {
        text += &format!("{} entries were lost because it could not be written\n", shown.lost);
    }
    text
}

fn line(entry: &HistoryEntry) -> String {
    let HistoryEntry { time, actor, address, act, request, scope, sites, result, why, mark, .. } = entry;
    let mut text = format!("{time}  {actor}");
    if let Some(address) = address {
        text += &format!(" ({address})");
    }
    text += &format!("  {act}  {result}");
    if !request.is_empty() && request != act {
        text += &format!("  {request}");
    }
    match scope {
        Value::Null => {}
        Value::String(scope) => text += &format!("  {scope}"),
        scope => text += &format!("  {scope}"),
    }
    if !sites.is_empty() {
        text += &format!("  at {}", sites.join(", "));
    }
    if let Some(mark) = mark {
        text += &format!("  mark {mark}");
    }
    if !why.is_empty() {
        text += &format!("  ({why})");
    }
    plain(&text.replace('\n', " ")) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each_that_does_nothing_to_a_terminal() {
        let entry = HistoryEntry {
            time: "2026-11-23T10:00:00.000Z".to_owned(),
            actor: "token:cms".to_owned(),
            address: Some("192.0.2.1".to_owned()),
            act: "purge".to_owned(),
            scope: serde_json::json!({ "tags": ["a\u{1b}[2J\u{202e}"] }),
            sites: vec!["a.test".to_owned()],
            result: "done".to_owned(),
            mark: Some("7".to_owned()),
            ..HistoryEntry::default()
        };
        let refused = HistoryEntry {
            time: entry.time.clone(),
            actor: entry.actor.clone(),
            act: "purge".to_owned(),
            request: "POST /v1/purge?\u{200b}".to_owned(),
            result: "refused".to_owned(),
            why: "role".to_owned(),
            ..HistoryEntry::default()
        };
        let shown = HistoryShown { entries: vec![entry, refused], lost: 2, ..HistoryShown::default() };
        let expect = "2026-11-23T10:00:00.000Z  token:cms (192.0.2.1)  purge  done  \
                      {\"tags\":[\"a\\u001b[2J\\u202e\"]}  at a.test  mark 7\n\
                      2026-11-23T10:00:00.000Z  token:cms  purge  refused  POST /v1/purge?\\u200b  (role)\n\
                      2 entries were lost because it could not be written\n";
        assert_eq!(show(&shown), expect);
        assert_eq!(show(&HistoryShown::default()), "nothing like that is in the history\n");
    }
}
