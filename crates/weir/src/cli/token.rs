//! `weir token`: makes, lists and removes the tokens that open the admin listener.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use weir_config::value::Duration;
use weir_control::{Role, TokenMade, TokenOrder, TokenShown};

use super::find::Find;

/// The path of tokens.
const TOKENS: &str = "/v1/tokens";

/// The command line of `weir token`.
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Make a token and print it, this once.
    Add(Add),
    /// List the tokens, without their secrets.
    List(List),
    /// Remove a token. It opens nothing from then on.
    Remove(Remove),
}

#[derive(Debug, Args)]
struct Add {
    /// Its name: 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`.
    #[arg(value_name = "NAME")]
    name: String,
    /// What it may do.
    #[arg(long, value_name = "ROLE")]
    role: RoleName,
    /// Only this site, by its name or one of its hosts; may be given several times [default: all].
    #[arg(long, value_name = "SITE")]
    site: Vec<String>,
    /// For how long it is good: 12h, 90d [default: until it is removed].
    #[arg(long, value_name = "DURATION")]
    expires: Option<Duration>,
    #[command(flatten)]
    find: Find,
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    find: Find,
}

#[derive(Debug, Args)]
struct Remove {
    /// Its name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    find: Find,
}

/// A role on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleName {
    /// Reads.
    View,
    /// Purges and nothing else: for a content management system.
    Purge,
    /// Pushes metrics of origins and nothing else: for a program beside an origin.
    Push,
    /// Does all.
    Admin,
}

impl Token {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        match self.act {
            Act::Add(Add { name, role, site, expires, find }) => {
                let role = match role {
                    RoleName::View => Role::View,
                    RoleName::Purge => Role::Purge,
                    RoleName::Push => Role::Push,
                    RoleName::Admin => Role::Admin,
                };
                let expires_s = expires.map(|expires| expires.0.as_secs());
                let order = TokenOrder { name, role, sites: site, expires_s };
                let asked = find.ask(Method::POST, TOKENS, serde_json::to_vec(&order)?)?;
                let code = find.answer(&asked, |made: &TokenMade| format!("{}\n", made.token))?;
                if let (false, Ok(made)) = (find.json, serde_json::from_slice::<TokenMade>(&asked.body)) {
                    write!(io::stderr(), "{}", of(&made.shown))?;
                }
                Ok(code)
            }
            Act::List(List { find }) => {
                let asked = find.ask(Method::GET, TOKENS, Vec::new())?;
                find.answer(&asked, |all: &Vec<TokenShown>| listed(all))
            }
            Act::Remove(Remove { name, find }) => {
                if name.is_empty()
                    || !name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#%".contains(&byte))
                {
                    anyhow::bail!("there is no token {name}");
                }
                let asked = find.ask(Method::DELETE, &format!("{TOKENS}/{name}"), Vec::new())?;
                find.answer(&asked, |shown: &TokenShown| format!("removed: {}\n", shown.name))
            }
        }
    }
}

/// What goes to the standard error beside a token, so that the token alone can go into a file.
fn of(shown: &TokenShown) -> String {
    format!("{}it is shown this once; only its SHA-256 is kept\n", line(shown))
}

fn listed(all: &[TokenShown]) -> String {
    if all.is_empty() {
        return "there are no tokens: only the control socket is open\n".to_owned();
    }
    all.iter().map(line).collect()
}

fn line(shown: &TokenShown) -> String {
    let TokenShown { name, role, sites, created, expires, expired } = shown;
    let sites = if sites.is_empty() { "all sites".to_owned() } else { sites.join(", ") };
    let end = match (expires, expired) {
        (None, _) => "no end".to_owned(),
        (Some(end), false) => format!("until {end}"),
        (Some(end), true) => format!("expired {end}"),
    };
    format!("{name}  {}  {sites}  made {created}  {end}\n", role.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each() {
        let shown = TokenShown {
            name: "cms".to_owned(),
            role: Role::Purge,
            sites: vec!["a.test".to_owned(), "b.test".to_owned()],
            created: "2026-11-23T10:00:00Z".to_owned(),
            expires: Some("2026-12-23T10:00:00Z".to_owned()),
            expired: false,
        };
        let text = of(&shown);
        let expect = "cms  purge  a.test, b.test  made 2026-11-23T10:00:00Z  \
                      until 2026-12-23T10:00:00Z\n\
                      it is shown this once; only its SHA-256 is kept\n";
        assert_eq!(text, expect);
        let all = [
            TokenShown { expired: true, ..shown.clone() },
            TokenShown { expires: None, sites: Vec::new(), ..shown },
        ];
        let text = listed(&all);
        assert!(text.contains("  expired 2026-12-23") && text.contains("  all sites  "), "{text}");
        assert!(listed(&[]).starts_with("there are no tokens"));
    }
}
