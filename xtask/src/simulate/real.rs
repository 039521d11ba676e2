//! The same traces through the real store: memory, a volume of files in a folder, its threads, and a check of
//! every byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::runtime::Runtime;
use weir_policy::CacheKey;
use weir_store::simulation::any_response;
use weir_store::volume::{Clock, OsDisk, Volume, VolumeSettings, VolumeUsage};
use weir_store::{
    AdmissionMode, AdmissionSettings, Found, Full, Generation, Ledger, MARKS_MAX, Place, Read, Settings,
    Store,
};

use super::traces::Trace;
use super::{MEMORY_PART, Outcome, now};

/// Any site.
const SITE: u64 = 1;
/// After this many misses the trace waits until the volume has written them: it comes faster than any
/// traffic.
const MISSES_AT_ONCE: u64 = 32;
/// How often the wait looks at the volume.
const TICK: Duration = Duration::from_micros(200);
/// The bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// A store in a folder of its own, which is removed with it.
struct Real {
    store: Store,
    folder: PathBuf,
    runtime: Runtime,
    misses: u64,
}

/// Drives a trace through a store whose volume lies in a new folder below `folder`.
///
/// # Errors
/// The folder cannot be used, or a byte is not what was stored.
pub(super) fn weir(trace: &Trace, mode: AdmissionMode, folder: &Path) -> Result<Outcome> {
    let mut real = Real::new(trace, mode, folder)?;
    let (mut hits, mut fetched) = (0, 0);
    for (object, bytes) in &trace.requests {
        if real.request(*object, *bytes)? {
            hits += 1;
        } else {
            fetched += bytes;
        }
    }
    let usage = real.usage();
    ensure!(usage.write_errors == 0 && usage.read_errors == 0, "the drive fails");
    let written = usage.body_bytes + usage.head_bytes + usage.journal_bytes + usage.checkpoint_bytes;
    let hit_ratio = f64::from(hits) / trace.requests.len() as f64;
    Ok(Outcome { hit_ratio, written: written as f64 / fetched.max(1) as f64 })
}

impl Real {
    fn new(trace: &Trace, mode: AdmissionMode, folder: &Path) -> Result<Real> {
        let folder = folder.join(format!("weir-simulate-{}", std::process::id()));
        let disk = OsDisk::take(&folder).with_context(|| format!("cannot use {}", folder.display()))?;
        let begun = now();
        let clock = Clock::new(move || now().since(begun.mono));
        let (volume, _) = Volume::open(Arc::new(disk), &VolumeSettings::of(trace.cache_bytes, clock))?;
        let admission = AdmissionSettings { mode, disk: None, volumes_bytes: trace.cache_bytes };
        let settings = Settings { admission, ..Settings::of(trace.cache_bytes / MEMORY_PART) };
        let store = Store::with_volume(settings, Ledger::new(MARKS_MAX), volume, None, now)?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Real { store, folder, runtime, misses: 0 })
    }

    fn usage(&self) -> VolumeUsage {
        self.store.volumes()[0].usage
    }

    /// Requests an object of `bytes`. True for a hit.
    fn request(&mut self, object: u64, bytes: u64) -> Result<bool> {
        let key = CacheKey::new(Bytes::from(format!("http://example.test/{object}"))).of_site(SITE);
        if let Some(found) = self.find(&key)
            && self.has_read(&found, object, bytes)?
        {
            return Ok(true);
        }
        self.fill(key, object, bytes);
        self.misses += 1;
        if self.misses.is_multiple_of(MISSES_AT_ONCE) {
            while self.usage().queued_bytes > 0 {
                std::thread::sleep(TICK);
            }
        }
        Ok(false)
    }

    fn find(&self, key: &CacheKey) -> Option<Arc<Generation>> {
        let mut asked = false;
        loop {
            match self.store.find(key.digest, &key.full, key.site, &|_| true) {
                Found::Ready(found) => return found.filter(|found| found.is_whole() || found.is_on_disk()),
                Found::Ask(_) if asked => return None,
                Found::Ask(ask) => ask.wait(),
            }
            asked = true;
        }
    }

    /// Whether all of its bytes can be read.
    fn has_read(&self, found: &Generation, object: u64, bytes: u64) -> Result<bool> {
        let (mut at, mut place) = (0, Place::default());
        while at < bytes {
            let piece = match found.is_on_disk() {
                true => match self.runtime.block_on(found.fetch(&mut place, at, READ_BYTES)) {
                    Ok(Some(piece)) => piece,
                    Ok(None) | Err(_) => return Ok(false),
                },
                false => match found.read(at, READ_BYTES) {
                    Read::Piece(piece) => piece,
                    _ => return Ok(false),
                },
            };
            ensure!(piece.iter().all(|byte| *byte == object as u8), "wrong bytes of {object}");
            at += piece.len() as u64;
        }
        Ok(true)
    }

    fn fill(&self, key: CacheKey, object: u64, bytes: u64) {
        let stamp = self.store.ledger().current();
        // An object that is not admitted is passed on, as a proxy would.
        let Ok((_, mut writer)) = self.store.begin(any_response(now()), key, stamp, Some(bytes)) else {
            return;
        };
        let mut rest = Bytes::from(vec![object as u8; bytes as usize]);
        while let Err(Full { rest: left }) = writer.push(rest) {
            rest = left;
            std::thread::sleep(TICK);
        }
        // The store drops an object that is shorter than declared; this one is not.
        let _ = writer.seal();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.store.close();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
