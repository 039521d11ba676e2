//! The command line: every command with its flags.

mod certificates;
mod check;
mod content;
mod distributor;
mod events;
mod explain;
mod find;
mod history;
mod jobs;
mod list;
mod live;
mod log;
mod origins;
#[cfg(feature = "script")]
mod picks;
#[cfg(not(feature = "script"))]
#[path = "picks/not_built.rs"]
mod picks;
mod purge;
mod reload;
mod run;
mod schema;
mod sites;
mod status;
mod stress;
mod token;
mod top;
mod ttl;
mod upgrade;
mod verify;
mod volumes;
mod warm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Weir, a caching reverse proxy.
#[derive(Debug, Parser)]
#[command(name = "weir", version, long_version = crate::build::version(), about, long_about = None)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run in front of an origin: answer from the cache, fetch the rest.
    Run(run::Run),
    /// Check a configuration file and print every mistake at once.
    Check(check::Check),
    /// Make the running Weir load its configuration again, without dropping a request.
    Reload(reload::Reload),
    /// Replace the running program by a new one, without dropping a request.
    Upgrade(upgrade::Upgrade),
    /// Show what the running Weir does and holds.
    Status(status::ShowStatus),
    /// Explain what the running Weir would do with a request, and why. Sends nothing to an origin.
    Explain(explain::Explain),
    /// Take a URL, a prefix, tags, a site or everything out of the cache of the running Weir, or make it
    /// stale.
    Purge(purge::Purge),
    /// Order how long what the running Weir holds stays fresh, longer or shorter, by URL, prefix, tags or
    /// site; or list what was ordered.
    Ttl(ttl::Ttl),
    /// List what the running Weir has cached: everything, or a site, a prefix, a tag.
    List(list::List),
    /// Lay content over URLs by hand, list it, and reset URLs.
    Content(content::Content),
    /// Show what each site holds and has used, over all time or by day: for people, as JSON, or as CSV to
    /// bill by.
    Sites(sites::ShowSites),
    /// Show the certificates of the running Weir: their names, where they come from, when they end, what is
    /// amiss.
    Certificates(certificates::ShowCertificates),
    /// Show the state of each volume of the running Weir.
    Volumes(volumes::Volumes),
    /// List the origins of the running Weir, or change one at once: add, drain, ready, weight, maint, remove.
    Origins(origins::Origins),
    /// Try a script that picks origins.
    Picks(picks::Picks),
    /// Check every byte on the running Weir's volumes, and drop what is wrong.
    Verify(verify::Verify),
    /// Have the running Weir ask for URLs, so that it holds them before clients want them: those of a list or
    /// a sitemap, or the files of a folder.
    Warm(warm::Warm),
    /// Show what takes long and is under way or has ended; follow or cancel it.
    Jobs(jobs::Jobs),
    /// Print events as they happen, of what is stored and of origins: a line of JSON each.
    Events(events::ShowEvents),
    /// Print requests as they end: a line each, with or without a configured log.
    Log(log::ShowLog),
    /// Show what is asked for most, rates, times, volumes and jobs: on a screen, or once as text.
    Top(top::ShowTop),
    /// Show what operators and clients have changed, or tried to.
    History(history::ShowHistory),
    /// Make, list and remove the tokens that open the admin listener.
    Token(token::Token),
    /// Load an HTTP server of this machine, verify what comes back, and measure it, by the program
    /// weir-stress.
    Stress(stress::Stress),
    /// Answer other proxies which origin gets a request, as [distributor] of a configuration file says.
    Distributor(distributor::Distributor),
    /// Print the JSON Schema of the configuration file.
    Schema(schema::Schema),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Run(run) => run.run(),
            Command::Check(check) => check.run(),
            Command::Reload(reload) => reload.run(),
            Command::Upgrade(upgrade) => upgrade.run(),
            Command::Status(status) => status.run(),
            Command::Explain(explain) => explain.run(),
            Command::Purge(purge) => purge.run(),
            Command::Ttl(ttl) => ttl.run(),
            Command::List(list) => list.run(),
            Command::Content(content) => content.run(),
            Command::Sites(sites) => sites.run(),
            Command::Certificates(certificates) => certificates.run(),
            Command::Volumes(volumes) => volumes.run(),
            Command::Origins(origins) => origins.run(),
            Command::Picks(picks) => picks.run(),
            Command::Verify(verify) => verify.run(),
            Command::Warm(warm) => warm.run(),
            Command::Jobs(jobs) => jobs.run(),
            Command::Events(events) => events.run(),
            Command::Log(log) => log.run(),
            Command::Top(top) => top.run(),
            Command::History(history) => history.run(),
            Command::Token(token) => token.run(),
            Command::Stress(stress) => stress.run(),
            Command::Distributor(distributor) => distributor.run(),
            Command::Schema(schema) => schema.run(),
        }
    }
}
