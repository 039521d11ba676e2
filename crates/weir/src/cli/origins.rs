//! `weir origins`: lists the origins of the running Weir and changes them at once.

mod metrics;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use http::Method;
use weir_control::{Asked, OriginAct, OriginChanged, OriginOrder, OriginShown, OriginsOf};

use self::metrics::Push;
use super::find::Find;
use crate::print::{plain, say};

/// The path of origins.
const ORIGINS: &str = "/v1/origins";
/// The widest column of names: longer ones move the rest of their line.
const WIDTH_MAX: usize = 80;
/// Between two looks whether an origin is empty.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// The command line of `weir origins`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(subcommand_value_name = "add|drain|ready|weight|maint|remove|push")]
pub(crate) struct Origins {
    #[command(subcommand)]
    act: Option<Act>,
    /// Show the metrics of the origins: values, ages, and why one is missing.
    #[arg(long)]
    metrics: bool,
    #[command(flatten)]
    find: Find,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Add an origin, or bring back one that was removed.
    Add(Add),
    /// Let an origin keep its sessions and nothing else.
    Drain(Drain),
    /// Give an origin its share again, after `drain` or `maint`.
    Ready(One),
    /// Give an origin another weight.
    Weight(Weight),
    /// Send nothing to an origin.
    Maint(One),
    /// Remove an origin. Requests under way finish.
    Remove(One),
    /// Take back what was changed of an origin: it is as the file says, or leaves.
    Forget(One),
    /// Tell Weir metrics of an origin, which come before those of all sources.
    Push(Push),
}

#[derive(Debug, Args)]
struct One {
    /// The upstream's name.
    #[arg(value_name = "UPSTREAM")]
    upstream: String,
    /// The origin: its URL, the name of one address of it as listed, or its id.
    #[arg(value_name = "ORIGIN")]
    origin: String,
    /// Keep the change across restarts.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    find: Find,
}

#[derive(Debug, Args)]
struct Add {
    #[command(flatten)]
    one: One,
    /// Its share relative to the others, 1 to 1000 [default: 1].
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Use it only when all others are left out.
    #[arg(long)]
    backup: bool,
    /// Its name in session ids, as `id` in the file.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Debug, Args)]
struct Drain {
    #[command(flatten)]
    one: One,
    /// Wait until nothing is under way there.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
struct Weight {
    #[command(flatten)]
    one: One,
    /// Its share relative to the others, 1 to 1000.
    #[arg(long, value_name = "N")]
    weight: u32,
}

impl Origins {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.act {
            None if self.metrics => metrics::show(&self.find),
            Some(Act::Push(push)) => push.run(),
            None => {
                let asked = self.find.ask(Method::GET, ORIGINS, Vec::new())?;
                self.find.answer(&asked, |all: &Vec<OriginsOf>| listed(all))
            }
            Some(Act::Add(Add { one, weight, backup, id })) => {
                one.order(OriginOrder { weight, backup, id, ..one.plain(OriginAct::Add) })
            }
            Some(Act::Drain(Drain { one, wait })) => one.drain(wait),
            Some(Act::Ready(one)) => one.order(one.plain(OriginAct::Ready)),
            Some(Act::Weight(Weight { one, weight })) => {
                one.order(OriginOrder { weight: Some(weight), ..one.plain(OriginAct::Weight) })
            }
            Some(Act::Maint(one)) => one.order(one.plain(OriginAct::Maint)),
            Some(Act::Remove(one)) => one.order(one.plain(OriginAct::Remove)),
            Some(Act::Forget(one)) => one.order(one.plain(OriginAct::Forget)),
        }
    }
}

impl One {
    /// An act without more.
    fn plain(&self, act: OriginAct) -> OriginOrder {
        let (upstream, origin, keep) = (self.upstream.clone(), self.origin.clone(), self.keep);
        OriginOrder { upstream, origin, act, weight: None, backup: false, id: None, keep }
    }

    fn order(&self, order: OriginOrder) -> anyhow::Result<ExitCode> {
        let asked = self.ask(&order)?;
        self.find.answer(&asked, |changed: &OriginChanged| told(&order, changed))
    }

    fn ask(&self, order: &OriginOrder) -> anyhow::Result<Asked> {
        self.find.ask(Method::POST, ORIGINS, serde_json::to_vec(order)?)
    }

    fn drain(&self, wait: bool) -> anyhow::Result<ExitCode> {
        let order = self.plain(OriginAct::Drain);
        let asked = self.ask(&order)?;
        let code = self.find.answer(&asked, |changed: &OriginChanged| told(&order, changed))?;
        if !wait || code != ExitCode::SUCCESS {
            return Ok(code);
        }
        let changed: OriginChanged =
            serde_json::from_slice(&asked.body).context("cannot read the running Weir's answer")?;
        // Of a name with several addresses, all.
        let of_name = weir_upstream::name_of(&self.origin);
        let name = changed.origin.map_or(of_name, |shown| shown.origin);
        loop {
            let asked = self.find.ask(Method::GET, ORIGINS, Vec::new())?;
            if let Some(refusal) = asked.refusal() {
                anyhow::bail!(plain(&refusal));
            }
            let all: Vec<OriginsOf> =
                serde_json::from_slice(&asked.body).context("cannot read the running Weir's answer")?;
            let of_upstream = all.iter().filter(|all| all.upstream == self.upstream);
            let is_meant = |shown: &&OriginShown| shown.origin == name || shown.of.as_ref() == Some(&name);
            let mut meant = of_upstream.flat_map(|all| &all.origins).filter(is_meant);
            if meant.clone().any(|shown| shown.state != "draining" && shown.state != "removed") {
                anyhow::bail!("{name} is not drained any more");
            }
            if meant.all(|shown| shown.empty) {
                if !self.find.json {
                    say(&plain(&format!("{name} is empty\n")))?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

fn told(order: &OriginOrder, changed: &OriginChanged) -> String {
    let mut text = match &changed.origin {
        Some(shown) => line(shown, 0),
        None => format!("{}  {}: done\n", order.origin, order.act.word()),
    };
    for warning in &changed.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

fn listed(all: &[OriginsOf]) -> String {
    let names = all.iter().flat_map(|of| &of.origins).map(|shown| shown.origin.chars().count());
    let width = names.max().unwrap_or(0).min(WIDTH_MAX);
    let mut text = String::new();
    for OriginsOf { upstream, panic, origins } in all {
        let panic = if *panic { "  too many origins are ejected: all are used" } else { "" };
        text += &format!("{upstream}{panic}\n");
        text.extend(origins.iter().map(|shown| format!("  {}", line(shown, width))));
    }
    if text.is_empty() { "there are no upstreams\n".to_owned() } else { text }
}

fn line(shown: &OriginShown, width: usize) -> String {
    let OriginShown { origin, state, reason, share, weight, in_flight, streams, .. } = shown;
    let mut text = format!("{origin:<width$}  {state:<11}");
    if state != "removed" {
        text += &format!("  {:>5.1} %  weight {weight}  {in_flight} under way", share * 100.0);
        if *streams > 0 {
            text += &format!(", {streams} streams");
        }
        if let Some(latency_ms) = shown.latency_ms {
            text += &format!("  {latency_ms:.1} ms");
        }
    }
    let mut said: Vec<String> = Vec::new();
    said.extend(shown.backup.then(|| "backup".to_owned()));
    said.extend(shown.id.as_ref().map(|id| format!("id {id}")));
    said.extend(shown.differences.iter().cloned());
    if !reason.is_empty() && !shown.differences.contains(reason) && state != "removed" {
        said.push(reason.clone());
    }
    said.extend(shown.failing.as_ref().map(|error| format!("failing: {error}")));
    said.extend(shown.check.clone());
    said.extend(shown.agent.as_ref().map(|agent| format!("agent: {agent}")));
    if state == "draining" {
        said.extend(shown.empty.then(|| "empty".to_owned()));
        said.extend(shown.last_session_ago_s.map(|ago_s| format!("last session's request {ago_s} s ago")));
    }
    said.extend(shown.kept.then(|| "kept".to_owned()));
    if !said.is_empty() {
        text += &format!("  {}", said.join(", "));
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_is_listed() {
        let origin = "a".repeat(200_000);
        let shown =
            OriginShown { origin: origin.clone(), state: "ready".to_owned(), ..OriginShown::default() };
        let all = [OriginsOf { origins: vec![shown], ..OriginsOf::default() }];
        assert!(listed(&all).contains(&format!("  {origin}  ready")));
    }

    #[test]
    fn a_line_each_with_what_differs_from_the_file() {
        let ready = OriginShown {
            origin: "http://a:80".to_owned(),
            state: "ready".to_owned(),
            share: 1.0,
            weight: 5,
            in_flight: 2,
            differences: vec!["weight 5 (file: 1)".to_owned()],
            kept: true,
            ..OriginShown::default()
        };
        let drained = OriginShown {
            origin: "http://b:80".to_owned(),
            state: "draining".to_owned(),
            reason: "drained by the operator".to_owned(),
            weight: 1,
            empty: true,
            differences: vec!["drained by the operator".to_owned()],
            ..OriginShown::default()
        };
        let removed = OriginShown {
            origin: "http://c:80".to_owned(),
            state: "removed".to_owned(),
            reason: "removed by the operator".to_owned(),
            differences: vec!["removed".to_owned()],
            ..OriginShown::default()
        };
        let origins = vec![ready, drained, removed];
        let all = [OriginsOf { upstream: "main".to_owned(), origins, ..OriginsOf::default() }];
        let expect = "main\n  \
            http://a:80  ready        100.0 %  weight 5  2 under way  weight 5 (file: 1), kept\n  \
            http://b:80  draining       0.0 %  weight 1  0 under way  drained by the operator, empty\n  \
            http://c:80  removed      removed\n";
        assert_eq!(listed(&all), expect);
    }
}
