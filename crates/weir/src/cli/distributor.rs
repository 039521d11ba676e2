//! `weir distributor`: answers other proxies which origin gets a request, until it is told to end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use weir_config::Loaded;

use super::check::report;
use crate::answering::{self, Answering};
use crate::build;
use crate::print::{say, sentence};
use crate::process::{self, Signals, Wish};
use crate::service::Service;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The command line of `weir distributor`.
#[derive(Debug, Args)]
pub(crate) struct Distributor {
    /// The configuration file, with `[distributor]`.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Threads that answer [default: one a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,
}

/// When files were changed last.
type Stamps = Vec<(PathBuf, Option<SystemTime>)>;

impl Distributor {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        process::raise_open_files();
        let loaded = match build::load(&self.config) {
            Ok(loaded) => loaded,
            Err(mistakes) => {
                report(&mistakes)?;
                return Ok(ExitCode::FAILURE);
            }
        };
        loaded.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or(cores, usize::from);
        runtime.block_on(async {
            let signals = Signals::new()?;
            let handle = tokio::runtime::Handle::current();
            let answering = Arc::new(Answering::start(&loaded, threads, handle)?);
            let admin = loaded.config.distributor.as_ref().and_then(|settings| settings.admin.clone());
            let service = Service::of_environment();
            let line = format!("answering at {}", answering.listening());
            service.ready(&line);
            say(&format!("{line}\n"))?;
            let serving = async {
                match &admin {
                    Some(address) => answering::serve_admin(address, answering.clone()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                failed = serving => failed.context("cannot listen at [distributor] admin")?,
                () = self.attend(&loaded, &answering, signals) => {}
            }
            service.stopping();
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Loads the configuration again where that is wanted or a file has changed; ends at a signal to end.
    async fn attend(&self, loaded: &Loaded, answering: &Answering, mut signals: Signals) {
        let mut stamps = stamps(loaded);
        loop {
            let is_wanted = tokio::select! {
                wish = signals.next() => match wish {
                    Wish::End => return,
                    Wish::Reload => true,
                    Wish::ReopenLogs | Wish::Upgrade => false,
                },
                () = tokio::time::sleep(LOOK_EVERY) => {
                    let paths = stamps.iter().map(|(path, _)| path.clone()).collect();
                    let now = looked_at(paths);
                    let is_other = now != stamps;
                    stamps = now;
                    is_other
                }
            };
            if is_wanted {
                match build::load(&self.config) {
                    Ok(loaded) => {
                        stamps = self::stamps(&loaded);
                        reload(&loaded, answering);
                    }
                    Err(mistakes) => tracing::error!("not reloaded, the old configuration stays: {mistakes}"),
                }
            }
        }
    }
}

fn reload(loaded: &Loaded, answering: &Answering) {
    match answering.reload(loaded) {
        Ok(warnings) => {
            warnings.iter().chain(&loaded.warnings()).for_each(|warning| tracing::warn!("{warning}"));
            tracing::info!("reloaded");
        }
        Err(error) => tracing::error!("not reloaded, the old configuration stays: {}", sentence(&error)),
    }
}

/// The files that a configuration is made of, with its keys.
fn stamps(loaded: &Loaded) -> Stamps {
    let keys = loaded.config.distributor.iter().filter_map(|settings| settings.key_file.as_ref());
    looked_at(loaded.files().into_iter().chain(keys.map(|file| file.0.clone())).collect())
}

fn looked_at(paths: Vec<PathBuf>) -> Stamps {
    let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    paths.into_iter().map(|path| (path.clone(), changed(&path))).collect()
}
