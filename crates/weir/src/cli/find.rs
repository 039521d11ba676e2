//! Finds the running Weir by its state folder, and sends it commands.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::{Method, Uri};
use serde::de::DeserializeOwned;
use weir_control::state::{self, User};
use weir_control::{Ask, Asked, Remote, Way, client};

use crate::print::{plain, say};

/// A reload of a large configuration may take long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The variable that holds a token.
const TOKEN: &str = "WEIR_TOKEN";

/// Which Weir.
#[derive(Debug, Args)]
pub(super) struct Find {
    /// The state folder of the running Weir [default: as for `weir run`].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// The cache folder of the running Weir; its state folder is DIR/state.
    #[arg(long, value_name = "DIR", conflicts_with = "state")]
    cache: Option<PathBuf>,
    /// Ask the Weir at this URL of an admin listener, with a token: from --token-file, else from the
    /// variable WEIR_TOKEN.
    #[arg(id = "remote", long = "url", value_name = "URL", conflicts_with_all = ["state", "cache"])]
    url: Option<Uri>,
    /// The file that holds the token.
    #[arg(long, value_name = "FILE", requires = "remote")]
    token_file: Option<PathBuf>,
    /// The authorities that the certificate of --url may come from, as PEM [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "remote")]
    ca_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl Find {
    /// Sends a command to the running Weir.
    pub(super) fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Asked> {
        self.ask_for(method, path, body, PATIENCE)
    }

    /// Sends a command to the running Weir and waits this long.
    pub(super) fn ask_for(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        patience: Duration,
    ) -> anyhow::Result<Asked> {
        Ok(client::ask(&self.way()?, Ask { method, path: path.to_owned(), body, patience })?)
    }

    /// Which Weir, and how it is asked.
    pub(super) fn way(&self) -> anyhow::Result<Way> {
        let Some(url) = &self.url else { return Ok(Way::Folder(self.folder()?)) };
        let is_root = matches!(url.path_and_query().map(|path| path.as_str()), None | Some("/"));
        if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none() || !is_root {
            bail!("--url is http://HOST:PORT or https://HOST:PORT, not {url}");
        }
        let token = match &self.token_file {
            Some(file) => {
                fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
            }
            None => std::env::var(TOKEN).ok().filter(|token| !token.is_empty()).with_context(|| {
                format!("--url needs a token: name its file with --token-file, or set {TOKEN}")
            })?,
        };
        let (token, roots) = (token.trim().to_owned(), self.ca_file.clone());
        Ok(Way::Url(Remote { url: url.clone(), token, roots }))
    }

    fn folder(&self) -> anyhow::Result<PathBuf> {
        match (&self.state, &self.cache) {
            (Some(state), _) => Ok(state.clone()),
            (None, Some(cache)) => Ok(cache.join("state")),
            (None, None) => default_state(),
        }
    }

    /// Prints the answer as JSON, or by `show`; neither does anything to a terminal. A refusal goes to the
    /// standard error and makes the command fail.
    pub(super) fn answer<T: DeserializeOwned>(
        &self,
        asked: &Asked,
        show: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            let value: serde_json::Value =
                serde_json::from_slice(&asked.body).context("the answer is not JSON")?;
            crate::print::say_json(&value)?;
            return Ok(if asked.status.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if let Some(refusal) = asked.refusal() {
            let refusal = plain(&refusal);
            // A report of mistakes has its own form; a sentence gets the program's name in front.
            if !refusal.contains('\n') {
                anyhow::bail!(refusal);
            }
            writeln!(
                io::stderr(),
                "{}\nnot reloaded: the old configuration stays in force",
                refusal.trim_end()
            )?;
            return Ok(ExitCode::FAILURE);
        }
        let value: T = serde_json::from_slice(&asked.body)
            .context("cannot read the running Weir's answer; is it of another version?")?;
        say(&plain(&show(&value)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The state folder when none is named.
pub(super) fn default_state() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name);
    let user = if rustix::process::geteuid().is_root() { User::Root } else { User::Other };
    Ok(state::default_path(&variable, user)?)
}
