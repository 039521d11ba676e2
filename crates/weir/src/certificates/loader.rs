//! The certificates in use: those that a configuration wants, and what is new of their files (`reading`). A
//! pair is taken up whole or not at all: while it cannot be used, the one before stays. It must not read a
//! file, wait, log or read a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_tls::{Certificates, Identity, Pem, Set, SiteClients, Source, Template, self_signed};

use super::change::{Change, Stage};
use super::files::{Files, Stamp};
use super::reading::{Clients, Found, FoundPair, Known, Reading};
use super::wanted::{Wanted, WantedSite};

/// How long before its end a certificate of Weir's own is made again.
const OWN_LEFT_MIN: Duration = Duration::from_secs(30 * 86_400);
/// All certificates of this process, and where they come from.
pub(super) struct Loader {
    template: Template,
    handle: Certificates,
    wanted: Wanted,
    pairs: BTreeMap<Files, Pair>,
    /// Those that Weir signs itself, by site.
    own: BTreeMap<String, Held>,
    /// Those of an authority, by their names.
    issued: BTreeMap<String, Held>,
    /// Sites for which Weir cannot sign any.
    unsigned: BTreeSet<String>,
    clients: BTreeMap<String, Clients>,
    /// Pairs and files of authorities that could not be used, each counted once.
    pub(super) failures: u64,
    /// How many configurations have been put in force.
    number: u64,
}

/// A certificate in use.
pub(super) struct Held {
    pub(super) identity: Arc<Identity>,
    /// What was last said of its time.
    stage: Stage,
}

/// A pair of files.
#[derive(Default)]
pub(super) struct Pair {
    is_default: bool,
    /// The files at the last attempt.
    seen: [Option<Stamp>; 2],
    pub(super) held: Option<Held>,
    /// Why the files cannot be used as they are.
    pub(super) failure: Option<String>,
}

/// Whether pairs may go whose files are gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    Stay,
    Leave,
}

impl Loader {
    pub(super) fn new(template: Template, handle: Certificates) -> Loader {
        Loader {
            template,
            handle,
            wanted: Wanted::default(),
            pairs: BTreeMap::new(),
            own: BTreeMap::new(),
            issued: BTreeMap::new(),
            unsigned: BTreeSet::new(),
            clients: BTreeMap::new(),
            failures: 0,
            number: 0,
        }
    }

    /// What is to be read for a configuration, or for the one in force. Nothing changes by it.
    pub(super) fn reading(&self, wanted: Option<Wanted>) -> Reading {
        let known = |pair: &Pair| Known {
            is_default: pair.is_default,
            seen: pair.seen,
            is_good: pair.held.is_some() && pair.failure.is_none(),
        };
        Reading {
            template: self.template.clone(),
            wanted: wanted.unwrap_or_else(|| self.wanted.clone()),
            pairs: self.pairs.iter().map(|(files, pair)| (files.clone(), known(pair))).collect(),
            clients: self.clients.clone(),
            number: self.number,
        }
    }

    /// Puts a configuration in force. What it no longer wants leaves.
    pub(super) fn configure(&mut self, found: Found, now: SystemTime) -> Vec<Change> {
        let Found { wanted, listed, pairs, clients, .. } = found;
        self.number += 1;
        self.wanted = wanted;
        self.clients = clients.into_iter().filter_map(|(site, read)| Some((site, read.ok()?))).collect();
        let wants =
            |name: &String| self.wanted.sites.iter().any(|site| site.name == *name && site.is_self_signed);
        self.own.retain(|site, _| wants(site));
        let hosts = self.wanted.names();
        self.issued.retain(|_, held| {
            held.identity.names.dns().any(|name| hosts.contains(name))
                || held.identity.names.addresses().iter().any(|at| hosts.contains(&*at.to_string()))
        });
        self.unsigned.clear();
        let mut changes = Vec::new();
        // Files that are gone altogether are being replaced, or were lost: no listener is left without any.
        let finds_any = !listed.is_empty();
        let gone = if finds_any || self.wanted.patterns.is_empty() { Gone::Leave } else { Gone::Stay };
        self.lose(&listed, gone, &mut changes);
        self.take_up_all(pairs, &mut changes);
        self.sign(now, &mut changes);
        self.put();
        self.age(now, &mut changes);
        changes
    }

    /// Takes up what has changed since. What was read for another configuration is not, and is read again.
    pub(super) fn look(&mut self, found: Found, now: SystemTime) -> Vec<Change> {
        let mut changes = Vec::new();
        if found.number != self.number {
            return changes;
        }
        self.lose(&found.listed, Gone::Stay, &mut changes);
        let is_other = [
            self.take_up_all(found.pairs, &mut changes),
            self.sign(now, &mut changes),
            self.take_up_clients(found.clients, &mut changes),
        ];
        if is_other.contains(&true) {
            self.put();
        }
        self.age(now, &mut changes);
        changes
    }

    /// Puts certificates of an authority in use. Returns also why those cannot be used that cannot.
    pub(super) fn issue<'a>(
        &mut self,
        pairs: impl Iterator<Item = Pem<'a>>,
        now: SystemTime,
    ) -> (Vec<Change>, Vec<String>) {
        let (mut changes, mut failures) = (Vec::new(), Vec::new());
        for pem in pairs {
            match self.template.identity(pem, Source::Acme, now) {
                Ok(identity) => {
                    let held = Held::new(identity);
                    changes.push(held.came());
                    self.issued.insert(held.identity.names.to_string(), held);
                }
                Err(error) => failures.push(error.to_string()),
            }
        }
        self.put();
        (changes, failures)
    }

    /// What happens to pairs whose files are gone.
    fn lose(&mut self, listed: &BTreeSet<Files>, gone: Gone, changes: &mut Vec<Change>) {
        match gone {
            Gone::Leave => self.pairs.retain(|files, _| listed.contains(files)),
            Gone::Stay => {
                let left: Vec<Files> =
                    self.pairs.keys().filter(|files| !listed.contains(files)).cloned().collect();
                for files in left {
                    let why = format!("{}: the file is gone", files.chain.display());
                    self.fail(&files, why, changes);
                }
            }
        }
    }

    /// Takes up pairs. Returns whether one is other than before.
    fn take_up_all(&mut self, found: Vec<FoundPair>, changes: &mut Vec<Change>) -> bool {
        let mut is_other = false;
        for FoundPair { files, is_default, seen, identity } in found {
            let pair = self.pairs.entry(files.clone()).or_default();
            (pair.seen, pair.is_default) = (seen, is_default);
            match identity {
                Ok(identity) => is_other |= self.take_up(&files, identity, changes),
                Err(why) => self.fail(&files, why, changes),
            }
        }
        is_other
    }

    fn take_up(&mut self, files: &Files, identity: Identity, changes: &mut Vec<Change>) -> bool {
        let Some(pair) = self.pairs.get_mut(files) else { return false };
        let identity = if pair.is_default { identity.as_default() } else { identity };
        let recovered = pair.failure.take().is_some();
        let is_same = pair.held.as_ref().is_some_and(|held| {
            held.identity.chain().eq(identity.chain()) && held.identity.is_default == identity.is_default
        });
        if is_same {
            // Written again, or readable again, with the same content.
            if recovered && let Some(held) = &pair.held {
                changes.push(held.came());
            }
            return false;
        }
        let held = Held::new(identity);
        changes.push(held.came());
        pair.held = Some(held);
        true
    }

    fn fail(&mut self, files: &Files, why: String, changes: &mut Vec<Change>) {
        let Some(pair) = self.pairs.get_mut(files) else { return };
        if pair.failure.as_ref() == Some(&why) {
            return;
        }
        self.failures += 1;
        let names = pair.held.as_ref().map(|held| held.identity.names.clone());
        changes.push(Change::Failed { names, why: why.clone() });
        pair.failure = Some(why);
    }

    /// Signs what sites want signed by Weir itself. Returns whether it did.
    fn sign(&mut self, now: SystemTime, changes: &mut Vec<Change>) -> bool {
        let has_default = self.wanted.patterns.iter().any(|pattern| pattern.is_default);
        let mut is_other = false;
        for site in self.wanted.sites.iter().filter(|site| site.is_self_signed) {
            let is_good = self.own.get(&site.name).is_some_and(|held| {
                let identity = &held.identity;
                let covers = site.names().iter().all(|name| identity.names.cover_all(name));
                covers && identity.not_after > now + OWN_LEFT_MIN
            });
            if is_good || self.unsigned.contains(&site.name) {
                continue;
            }
            match own(&self.template, site, now) {
                Ok(identity) => {
                    let is_default = site.has_every_host() && !has_default;
                    let held = Held::new(if is_default { identity.as_default() } else { identity });
                    changes.push(held.came());
                    self.own.insert(site.name.clone(), held);
                    is_other = true;
                }
                Err(why) => {
                    let why = format!("the site {}: {why}", site.name);
                    changes.push(Change::Failed { names: None, why });
                    self.failures += 1;
                    self.unsigned.insert(site.name.clone());
                }
            }
        }
        is_other
    }

    /// Takes up what sites ask of their clients. Returns whether one is other than before.
    fn take_up_clients(
        &mut self,
        found: Vec<(String, Result<Clients, String>)>,
        changes: &mut Vec<Change>,
    ) -> bool {
        let mut is_other = false;
        for (site, read) in found {
            let Some(held) = self.clients.get_mut(&site) else { continue };
            match read {
                Ok(clients) => {
                    is_other |= !Arc::ptr_eq(&clients.auth, &held.auth);
                    *held = clients;
                }
                Err(why) if held.failure.as_ref() != Some(&why) => {
                    changes.push(Change::Failed { names: None, why: why.clone() });
                    self.failures += 1;
                    held.failure = Some(why);
                }
                Err(_) => {}
            }
        }
        is_other
    }

    /// Puts all certificates in use.
    fn put(&self) {
        let identities = self.held().map(|held| held.identity.clone()).collect();
        let sites = self.wanted.sites.iter().map(|site| SiteClients {
            hosts: site.hosts.clone(),
            auth: self.clients.get(&site.name).map(|clients| clients.auth.clone()),
        });
        self.handle.replace(&Set::new(identities, sites.collect()));
    }

    /// Says which certificates come near their end.
    fn age(&mut self, now: SystemTime, changes: &mut Vec<Change>) {
        let of_pairs = self.pairs.values_mut().filter_map(|pair| pair.held.as_mut());
        let all = of_pairs.chain(self.own.values_mut()).chain(self.issued.values_mut());
        changes.extend(all.filter_map(|held| held.age(now)));
    }

    /// All certificates in use.
    pub(super) fn held(&self) -> impl Iterator<Item = &Held> {
        let of_pairs = self.pairs.values().filter_map(|pair| pair.held.as_ref());
        of_pairs.chain(self.own.values()).chain(self.issued.values())
    }

    /// Pairs of files, those included that cannot be used.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Files, &Pair)> {
        self.pairs.iter()
    }

    /// Certificates that come from no file.
    pub(super) fn others(&self) -> impl Iterator<Item = &Held> {
        self.own.values().chain(self.issued.values())
    }

    /// Why files cannot be used: of pairs, and of authorities for clients.
    pub(super) fn broken(&self) -> impl Iterator<Item = &str> {
        let pairs = self.pairs.values().filter_map(|pair| pair.failure.as_deref());
        pairs.chain(self.clients.values().filter_map(|clients| clients.failure.as_deref()))
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }
}

impl Held {
    fn new(identity: Identity) -> Held {
        Held { identity: Arc::new(identity), stage: Stage::Valid }
    }

    fn came(&self) -> Change {
        Change::Came(self.identity.clone())
    }

    /// What is to be said of its time, once for each stage.
    fn age(&mut self, now: SystemTime) -> Option<Change> {
        let stage = Stage::of(&self.identity, now);
        let is_later = stage > self.stage;
        self.stage = stage;
        is_later.then(|| Change::Aged(self.identity.clone(), stage))
    }
}

fn own(template: &Template, site: &WantedSite, now: SystemTime) -> Result<Identity, String> {
    let (chain, key) = self_signed(&site.names(), now).map_err(|error| error.to_string())?;
    let made = template.identity_from_der((vec![chain], &key), Source::SelfSigned, now);
    made.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
