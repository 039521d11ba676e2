//! Reloads, one at a time. Files of the configuration may lie on a drive that does not answer: each reload
//! has a thread of its own, and the caller waits for a bounded time.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use weir_config::Mistakes;

use super::{Control, ReloadError, Reloaded, Source};
use crate::clock;
use crate::data_plane::Inventory;
use crate::jobs;
use crate::status::LastReload;

/// How long a reload is waited for.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);

type Done = Result<Vec<String>, ReloadError>;

impl Control {
    /// Loads the file again and puts it in force. One reload at a time. Blocks, for a bounded time.
    ///
    /// # Errors
    /// When there is no file, it has mistakes or cannot be put in force; then the old configuration stays.
    /// One that takes too long goes on, and later ones wait for it.
    pub fn reload(self: &Arc<Control>) -> Result<Reloaded, ReloadError> {
        let begun = clock::mono();
        let turn = self.reloads.begin(TIME_MAX).ok_or(ReloadError::Hangs).inspect_err(tell)?;
        let (say, said) = mpsc::channel();
        let own = Arc::clone(self);
        let work = move || {
            let done = own.load_and_swap();
            own.note(&done);
            drop(turn);
            // Who no longer waits reads it in the log.
            let _ = say.send(done);
        };
        jobs::on_thread("weir-reload", work).map_err(ReloadError::Thread).inspect_err(tell)?;
        let warnings = match said.recv_timeout(TIME_MAX) {
            Ok(done) => done?,
            Err(_) => return Err(ReloadError::Hangs).inspect_err(tell),
        };
        Ok(self.reloaded(begun, warnings))
    }

    fn reloaded(&self, begun: Instant, warnings: Vec<String>) -> Reloaded {
        let Inventory { plan, sites, routes, .. } = self.data_plane.inventory();
        let took = clock::mono().saturating_duration_since(begun);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Reloaded { plan, sites, routes, took_ms, warnings }
    }

    /// Says and notes how one has ended.
    fn note(&self, done: &Done) {
        match done {
            Ok(warnings) => {
                tracing::info!("configuration reloaded");
                warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            Err(error) => tell(error),
        }
        let refused = done.as_ref().err().map(|error| match error {
            ReloadError::Mistakes { sentences, .. } => sentences.clone(),
            error => error.to_string(),
        });
        self.reloads.note(LastReload::at(clock::wall(), refused));
    }

    fn load_and_swap(&self) -> Done {
        let Source::File(path) = &self.source else { return Err(ReloadError::NoFile) };
        let loaded = weir_config::load(path).and_then(|loaded| {
            self.data_plane.fits(&loaded)?;
            Ok(loaded)
        });
        let loaded = loaded.map_err(|mistakes| ReloadError::Mistakes {
            mistakes: mistakes.to_string().trim_end().to_owned(),
            sentences: without_lines(&mistakes),
        })?;
        Ok(self.data_plane.swap(loaded)?.warnings)
    }
}

fn tell(error: &ReloadError) {
    tracing::error!("configuration not reloaded; the old one stays in force:\n{error}");
}

/// The mistakes of a file without its lines, a line each.
fn without_lines(mistakes: &Mistakes) -> String {
    let sentence = |(place, sentence): (Option<weir_config::Place>, String)| match place {
        Some(place) => format!("{place}: {sentence}"),
        None => sentence,
    };
    mistakes.sentences().into_iter().map(sentence).collect::<Vec<_>>().join("\n")
}
