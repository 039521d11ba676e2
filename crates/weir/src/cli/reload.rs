//! `weir reload`.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_control::Reloaded;

use super::find::Find;
use crate::print::counted;

/// The command line of `weir reload`.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    find: Find,
}

impl Reload {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let asked = self.find.ask(Method::POST, "/v1/reload", Vec::new())?;
        self.find.answer(&asked, show)
    }
}

fn show(reloaded: &Reloaded) -> String {
    let Reloaded { plan, sites, routes, took_ms, warnings } = reloaded;
    let mut text = format!(
        "reloaded in {took_ms} ms: configuration {plan}, {}, {}\n",
        counted(*sites, "site"),
        counted(*routes, "route")
    );
    for warning in warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_in_force() {
        let reloaded = Reloaded {
            plan: 2,
            sites: 1,
            routes: 3,
            took_ms: 4,
            warnings: vec!["`memory` needs a restart".into()],
        };
        let expect =
            "reloaded in 4 ms: configuration 2, 1 site, 3 routes\nwarning: `memory` needs a restart\n";
        assert_eq!(show(&reloaded), expect);
    }
}
