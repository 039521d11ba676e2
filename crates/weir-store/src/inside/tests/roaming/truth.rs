//! What is true of the origin and of all copies of its objects: the checker of the lives.
//!
//! Each purge comes with a newer version at the origin, so that it leaves a least version of each object that
//! it concerns. What an installation answers without asking the origin is never older than its own purges and
//! its own newer copies allow. A copy that lay in the reach of a purge is never used again without asking, by
//! any installation. While the ledger that knows of a hard purge is as it was, such a copy is not even
//! revalidated.

use std::collections::{BTreeMap, BTreeSet};

use crate::Force;

/// The objects of the origin.
pub(super) const URLS: u64 = 12;

/// Where a copy lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the memory of an installation.
    Memory(usize),
    /// On a drive.
    Drive(usize),
}

/// How a copy is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// As it is.
    Plain,
    /// After a revalidation.
    Asked,
}

/// A copy that was fetched once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    pub(super) url: u64,
    pub(super) version: u64,
}

#[derive(Debug, Default)]
pub(super) struct Truth {
    /// By object: the version that the origin has.
    versions: BTreeMap<u64, u64>,
    /// By their numbers.
    copies: Vec<Copy>,
    lying: BTreeSet<(Place, usize)>,
    /// What must not be used without asking.
    suspect: BTreeMap<(Place, usize), &'static str>,
    /// What must not be used at all, and whose ledger says so.
    dead: BTreeMap<(Place, usize), usize>,
    /// By installation and object: the least version that its purges leave.
    least: BTreeMap<(usize, u64), u64>,
    /// Purges that only the ledger's own files know yet, and those that the drive does not know; with their
    /// installation.
    fresh: BTreeMap<(Place, usize), usize>,
    unnoted: BTreeMap<(Place, usize), usize>,
    /// As `least`, without those.
    least_noted: BTreeMap<(usize, u64), u64>,
    /// By installation and object: the newest version that it has stored, now and after a crash.
    newest: BTreeMap<(usize, u64), u64>,
    newest_durable: BTreeMap<(usize, u64), u64>,
}

impl Truth {
    pub(super) fn version(&self, url: u64) -> u64 {
        self.versions.get(&url).copied().unwrap_or(1)
    }

    /// The origin has a newer version.
    pub(super) fn change(&mut self, url: u64) {
        self.versions.insert(url, self.version(url) + 1);
    }

    /// Something is fetched. Returns its number.
    pub(super) fn fetched(&mut self, url: u64) -> usize {
        self.copies.push(Copy { url, version: self.version(url) });
        self.copies.len() - 1
    }

    pub(super) fn copy(&self, number: usize) -> Copy {
        self.copies[number]
    }

    /// An installation begins to store it, on one of its drives as well.
    pub(super) fn began(&mut self, installation: usize, number: usize, drive: Option<usize>) {
        self.lying.insert((Place::Memory(installation), number));
        self.lying.extend(drive.map(|drive| (Place::Drive(drive), number)));
    }

    /// All of it is stored.
    pub(super) fn stored(&mut self, installation: usize, number: usize) {
        let Copy { url, version } = self.copies[number];
        let newest = self.newest.entry((installation, url)).or_default();
        *newest = version.max(*newest);
    }

    /// Whether a copy is known to lie there.
    pub(super) fn lies(&self, place: Place, number: usize) -> bool {
        self.lying.contains(&(place, number))
    }

    /// A copy has moved, with all that is known of it.
    pub(super) fn came(&mut self, number: usize, from: Place, to: Place) {
        if !self.lying.insert((to, number)) && matches!(to, Place::Drive(_)) {
            return;
        }
        match self.suspect.get(&(from, number)).copied() {
            Some(why) => drop(self.suspect.insert((to, number), why)),
            None => drop(self.suspect.remove(&(to, number))),
        }
        match self.dead.get(&(from, number)).copied() {
            Some(by) => drop(self.dead.insert((to, number), by)),
            None => drop(self.dead.remove(&(to, number))),
        }
    }

    /// Objects are purged, acknowledged by an installation that has these drives. The origin has newer
    /// versions of them.
    pub(super) fn purged(&mut self, installation: usize, drives: &[usize], urls: &[u64], force: Force) {
        for url in urls {
            self.change(*url);
            self.least.insert((installation, *url), self.version(*url));
        }
        let is_in_reach = |place: Place| match place {
            Place::Memory(own) => own == installation,
            Place::Drive(drive) => drives.contains(&drive),
        };
        for (place, number) in &self.lying {
            if is_in_reach(*place) && urls.contains(&self.copies[*number].url) {
                self.suspect.insert((*place, *number), "was purged");
                self.fresh.insert((*place, *number), installation);
                self.unnoted.insert((*place, *number), installation);
                if force == Force::Hard {
                    self.dead.insert((*place, *number), installation);
                }
            }
        }
    }

    /// A drive comes to an installation from another one: what it holds may be of any age.
    pub(super) fn wandered(&mut self, drive: usize, installation: usize) {
        self.is_suspect(drive);
        for number in self.on(drive) {
            self.dead.remove(&(Place::Memory(installation), number));
        }
        self.dead.retain(|(place, _), by| *place != Place::Drive(drive) || *by == installation);
    }

    /// What is on a drive must be revalidated.
    pub(super) fn is_suspect(&mut self, drive: usize) {
        for number in self.on(drive) {
            let Copy { url, version } = self.copies[number];
            if version < self.version(url) {
                self.suspect.insert((Place::Drive(drive), number), "came from elsewhere");
            }
        }
    }

    /// An installation must not use what is on a drive.
    pub(super) fn is_dead(&mut self, drive: usize, installation: usize) {
        let all = self.on(drive).into_iter();
        self.dead.extend(all.map(|number| ((Place::Drive(drive), number), installation)));
    }

    fn on(&self, drive: usize) -> Vec<usize> {
        let here = self.lying.iter().filter(|(place, _)| *place == Place::Drive(drive));
        here.map(|(_, number)| *number).collect()
    }

    /// A drive has noted the ledger's number.
    pub(super) fn noted(&mut self, drive: usize) {
        self.fresh.retain(|(place, _), _| *place != Place::Drive(drive));
        self.unnoted.retain(|(place, _), _| *place != Place::Drive(drive));
    }

    /// All that an installation has stored is durable, and its drives and the register have noted the
    /// ledger's number.
    pub(super) fn synced(&mut self, installation: usize, drives: &[usize]) {
        drives.iter().for_each(|drive| self.noted(*drive));
        self.fresh.retain(|_, by| *by != installation);
        let own = self.least.iter().filter(|((own, _), _)| *own == installation);
        self.least_noted.extend(own.map(|(key, version)| (*key, *version)));
        self.newest_durable.retain(|(own, _), _| *own != installation);
        let own = self.newest.iter().filter(|((own, _), _)| *own == installation);
        self.newest_durable.extend(own.map(|(key, version)| (*key, *version)));
    }

    /// An installation was killed: what was not durable may be lost.
    pub(super) fn crashed(&mut self, installation: usize) {
        self.newest.retain(|(own, _), _| *own != installation);
        let own = self.newest_durable.iter().filter(|((own, _), _)| *own == installation);
        self.newest.extend(own.map(|(key, version)| (*key, *version)));
        self.ended(installation);
    }

    /// The memory of an installation is gone.
    pub(super) fn ended(&mut self, installation: usize) {
        let is_elsewhere = |place: &Place| *place != Place::Memory(installation);
        self.lying.retain(|(place, _)| is_elsewhere(place));
        self.suspect.retain(|(place, _), _| is_elsewhere(place));
        self.dead.retain(|(place, _), _| is_elsewhere(place));
    }

    /// The state folder of an installation was changed: what it knew must at least be revalidated.
    pub(super) fn forgot(&mut self, installation: usize) {
        self.dead.retain(|_, by| *by != installation);
        self.newest.retain(|(own, _), _| *own != installation);
        self.newest_durable.retain(|(own, _), _| *own != installation);
    }

    /// An installation has another ledger, and what was written with the old one is lost. Nobody knows any
    /// more of a purge that only that one had noted.
    pub(super) fn lost_fresh(&mut self, installation: usize) {
        for (key, _) in self.fresh.extract_if(.., |_, by| *by == installation) {
            self.suspect.remove(&key);
        }
        self.least.retain(|(own, _), _| *own != installation);
        let noted = self.least_noted.iter().filter(|((own, _), _)| *own == installation);
        self.least.extend(noted.map(|(key, version)| (*key, *version)));
    }

    /// An installation is as it was before, with all of its state folder. If a drive was put back too, the
    /// installation cannot know what it purged while that drive was away or had failed.
    pub(super) fn went_back(&mut self, installation: usize) {
        for (key, _) in self.unnoted.extract_if(.., |_, by| *by == installation) {
            self.suspect.remove(&key);
        }
        self.least.retain(|(own, _), _| *own != installation);
        self.least_noted.retain(|(own, _), _| *own != installation);
    }

    /// Why an installation must not use a copy in this way, if it must not.
    pub(super) fn objection(
        &self,
        installation: usize,
        place: Place,
        number: usize,
        how: Use,
    ) -> Option<String> {
        let Copy { url, version } = self.copies[number];
        let said =
            |why: &str| Some(format!("url {url}, version {version} from {place:?} at {installation}: {why}"));
        if let Some(by) = self.dead.get(&(place, number)) {
            return said(&format!("purged by {by}, whose ledger knows it"));
        }
        if how == Use::Asked {
            return None;
        }
        if let Some(why) = self.suspect.get(&(place, number)) {
            return said(why);
        }
        let of = |table: &BTreeMap<(usize, u64), u64>| table.get(&(installation, url)).copied().unwrap_or(0);
        if version < of(&self.least) {
            return said(&format!("purged up to version {}", of(&self.least)));
        }
        if version < of(&self.newest) {
            return said(&format!("replaced by version {}", of(&self.newest)));
        }
        None
    }
}
