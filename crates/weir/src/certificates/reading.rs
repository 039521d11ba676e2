//! What the files of certificates say, beside what is known of them. It reads and changes nothing: a drive
//! may not answer, so that no lock of the certificates in use is held meanwhile. It must not log or read a
//! clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use weir_tls::{ClientAuth, ClientMode, Identity, Part, Pem, Source, Template};

use super::files::{Files, Stamp, read};
use super::wanted::Wanted;

/// Fewer pairs than this are loaded by the caller alone.
const PAIRS_A_THREAD_MIN: usize = 64;

/// What is to be read.
pub(crate) struct Reading {
    pub(super) template: Template,
    pub(super) wanted: Wanted,
    pub(super) pairs: BTreeMap<Files, Known>,
    pub(super) clients: BTreeMap<String, Clients>,
    /// That of the configuration in force.
    pub(super) number: u64,
}

/// What is known of a pair of files.
pub(super) struct Known {
    pub(super) is_default: bool,
    pub(super) seen: [Option<Stamp>; 2],
    /// It is in use, and nothing is wrong with its files.
    pub(super) is_good: bool,
}

/// What a site asks of its clients.
#[derive(Clone)]
pub(super) struct Clients {
    ca: PathBuf,
    mode: ClientMode,
    seen: Option<Stamp>,
    pub(super) auth: Arc<ClientAuth>,
    pub(super) failure: Option<String>,
}

/// What was read.
pub(crate) struct Found {
    pub(super) wanted: Wanted,
    /// All pairs that there are.
    pub(super) listed: BTreeSet<Files>,
    /// Those that are new, have changed or could not be used.
    pub(super) pairs: Vec<FoundPair>,
    /// By site.
    pub(super) clients: Vec<(String, Result<Clients, String>)>,
    pub(super) number: u64,
}

/// A pair that was read.
pub(super) struct FoundPair {
    pub(super) files: Files,
    pub(super) is_default: bool,
    pub(super) seen: [Option<Stamp>; 2],
    pub(super) identity: Result<Identity, String>,
}

/// A pair that is to be read.
struct Due {
    files: Files,
    is_default: bool,
    seen: [Option<Stamp>; 2],
}

impl Reading {
    /// Reads. Blocks, as long as a drive does not answer.
    pub(super) fn read(self, now: SystemTime) -> Found {
        let clients = self.wanted.sites.iter().filter_map(|site| {
            let (ca, mode) = site.clients.as_ref()?;
            Some((site.name.clone(), self.clients_of(&site.name, ca, *mode)))
        });
        let clients = clients.collect();
        let mut listed = BTreeSet::new();
        let mut due = Vec::new();
        for pattern in &self.wanted.patterns {
            for files in pattern.pairs() {
                if !listed.insert(files.clone()) {
                    continue;
                }
                let (seen, is_default) = (files.stamps(), pattern.is_default);
                let is_same = self.pairs.get(&files).is_some_and(|known| {
                    known.is_good && known.seen == seen && known.is_default == is_default
                });
                if !is_same {
                    due.push(Due { files, is_default, seen });
                }
            }
        }
        let pairs = self.load(due, now);
        Found { wanted: self.wanted, listed, pairs, clients, number: self.number }
    }

    fn clients_of(&self, site: &str, ca: &PathBuf, mode: ClientMode) -> Result<Clients, String> {
        let seen = Stamp::of(ca);
        let held = self.clients.get(site);
        if let Some(held) = held.filter(|held| (&held.ca, held.mode, held.seen) == (ca, mode, seen)) {
            return Ok(Clients { failure: None, ..held.clone() });
        }
        let auth = self.template.client_auth(site, mode, &read(ca)?);
        let auth = auth.map_err(|error| format!("{}: {error}", ca.display()))?;
        Ok(Clients { ca: ca.clone(), mode, seen, auth, failure: None })
    }

    /// Loads pairs, many at once on all cores.
    fn load(&self, mut due: Vec<Due>, now: SystemTime) -> Vec<FoundPair> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let share = due.len().div_ceil(threads).max(PAIRS_A_THREAD_MIN);
        let template = &self.template;
        let all = |share: Vec<Due>| -> Vec<FoundPair> {
            let found = share.into_iter().map(|Due { files, is_default, seen }| {
                let identity = load(template, &files, now);
                FoundPair { files, is_default, seen, identity }
            });
            found.collect()
        };
        if due.len() <= share {
            return all(due);
        }
        thread::scope(|scope| {
            let mut working = Vec::new();
            while !due.is_empty() {
                let own = due.split_off(due.len().saturating_sub(share));
                working.push(scope.spawn(move || all(own)));
            }
            working.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        })
    }
}

impl Found {
    /// What a configuration may be put in force with.
    ///
    /// # Errors
    /// A file of authorities cannot be used: without it the site would be open.
    pub(super) fn fit(self) -> Result<Found, String> {
        match self.clients.iter().find_map(|(_, read)| read.as_ref().err()) {
            Some(why) => Err(why.clone()),
            None => Ok(self),
        }
    }
}

/// Makes an identity from two files.
///
/// # Errors
/// A sentence that names the file.
fn load(template: &Template, files: &Files, now: SystemTime) -> Result<Identity, String> {
    let chain = read(&files.chain)?;
    let other = (files.key != files.chain).then(|| read(&files.key)).transpose()?;
    let pem = Pem { chain: &chain, key: other.as_ref().unwrap_or(&chain) };
    let source = Source::Files { chain: files.chain.clone(), key: files.key.clone() };
    template.identity(pem, source, now).map_err(|error| {
        let path = match error.part() {
            Part::Chain => &files.chain,
            Part::Key => &files.key,
        };
        format!("{}: {error}", path.display())
    })
}
