//! Which certificate a client gets: an exact name before a wildcard, ECDSA before RSA where the client can,
//! the default only where there is one. A set never changes; it is swapped whole.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::names::lower;
use crate::{Identity, KeyKind, SiteClients};

/// All certificates in use.
#[derive(Debug, Clone, Default)]
pub struct Set {
    table: Arc<Table>,
    challenges: Arc<HashMap<Box<str>, Arc<Identity>>>,
}

#[derive(Debug, Default)]
struct Table {
    identities: Vec<Arc<Identity>>,
    exact: HashMap<Box<str>, Slot>,
    /// By what stands behind `*.`.
    wildcard: HashMap<Box<str>, Slot>,
    addresses: HashMap<IpAddr, Slot>,
    default: Slot,
    clients: Clients,
}

/// The best certificate of each kind of key for one name, as places in the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Slot([Option<u32>; 3]);

/// Which sites ask their clients for a certificate.
#[derive(Debug, Default)]
struct Clients {
    sites: Vec<SiteClients>,
    exact: HashMap<Box<str>, usize>,
    /// By what stands behind `*.`; `*` alone is the empty name.
    below: HashMap<Box<str>, usize>,
    /// The identities with what a site asks, by the places of both.
    identities: HashMap<(usize, u32), Arc<Identity>>,
}

impl Set {
    /// A set of these certificates. Of two for one name and kind of key that of the better source is taken,
    /// then the one that is valid for longer. `sites` says what each site asks of its clients; all sites must
    /// be in it if one asks.
    pub fn new(identities: Vec<Arc<Identity>>, sites: Vec<SiteClients>) -> Set {
        let mut table = Table { identities, ..Table::default() };
        for at in 0..table.identities.len() {
            table.enter(at);
        }
        if sites.iter().any(|site| site.auth.is_some()) {
            table.clients = Clients::new(sites, &table.identities);
        }
        Set { table: Arc::new(table), challenges: Arc::default() }
    }

    /// The certificate for a client that asks for `name` (SNI), or for none.
    pub fn choose(&self, name: Option<&str>, takes_ecdsa: bool) -> Option<&Arc<Identity>> {
        let name = name.map(lower);
        let table = &*self.table;
        let slot = name.as_deref().and_then(|name| table.slot(name)).unwrap_or(table.default);
        table.chosen(slot, name.as_deref(), takes_ecdsa)
    }

    /// The certificate for a client that asks for no name, on a connection to `address`: names are not sent
    /// where a URL has an address (RFC 6066 §3).
    pub fn choose_for_address(&self, address: IpAddr, takes_ecdsa: bool) -> Option<&Arc<Identity>> {
        let address = address.to_canonical();
        let slot = self.table.addresses.get(&address).copied();
        // A site is called by its address as URLs are.
        let host = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        self.table.chosen(slot.unwrap_or(self.table.default), Some(&host), takes_ecdsa)
    }

    /// The certificate that answers a challenge for `name` (RFC 8737).
    pub fn challenge(&self, name: Option<&str>) -> Option<&Arc<Identity>> {
        self.challenges.get(&*lower(name?))
    }

    /// All certificates, without the answers to challenges.
    pub fn identities(&self) -> &[Arc<Identity>] {
        &self.table.identities
    }

    /// The certificate that covers `name`, an address, or a wildcard as it is written; never one by default.
    pub fn covering(&self, name: &str) -> Option<&Arc<Identity>> {
        let slot = match name.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => self.table.addresses.get(&address).copied(),
            Err(_) => self.table.slot(&lower(name)),
        };
        Some(&self.table.identities[slot?.pick(true)? as usize])
    }

    pub(crate) fn with_challenges(&self, change: impl FnOnce(&mut HashMap<Box<str>, Arc<Identity>>)) -> Set {
        let mut challenges = HashMap::clone(&self.challenges);
        change(&mut challenges);
        Set { table: self.table.clone(), challenges: Arc::new(challenges) }
    }

    pub(crate) fn with_challenges_of(&self, other: &Set) -> Set {
        Set { table: self.table.clone(), challenges: other.challenges.clone() }
    }
}

impl Table {
    /// Enters a certificate under all of its names.
    fn enter(&mut self, at: usize) {
        let Table { identities, exact, wildcard, addresses, default, .. } = self;
        let identity = &identities[at];
        // Invariant: each certificate takes a kilobyte, so that there are fewer.
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        for name in identity.names.dns() {
            let slot = match name.strip_prefix("*.") {
                Some(parent) => wildcard.entry(parent.into()).or_default(),
                None => exact.entry(name.into()).or_default(),
            };
            slot.offer(place, identities);
        }
        for address in identity.names.addresses() {
            addresses.entry(*address).or_default().offer(place, identities);
        }
        if identity.is_default {
            default.offer(place, identities);
        }
    }

    fn slot(&self, name: &str) -> Option<Slot> {
        let below = || self.wildcard.get(name.split_once('.')?.1);
        self.exact.get(name).or_else(below).copied()
    }

    fn chosen(&self, slot: Slot, name: Option<&str>, takes_ecdsa: bool) -> Option<&Arc<Identity>> {
        let place = slot.pick(takes_ecdsa)?;
        let Some(site) = self.clients.site(name) else { return Some(&self.identities[place as usize]) };
        match &self.clients.sites[site].auth {
            Some(_) => self.clients.identities.get(&(site, place)),
            None => Some(&self.identities[place as usize]),
        }
    }
}

impl Slot {
    /// Takes a certificate if it is better than the one of its kind. Those of a better source leave no room
    /// for others.
    fn offer(&mut self, place: u32, identities: &[Arc<Identity>]) {
        let of = |place: u32| &identities[place as usize];
        let identity = of(place);
        let held = self.0.iter().flatten().map(|held| of(*held).source.rank()).min();
        match held.map(|held| identity.source.rank().cmp(&held)) {
            Some(Ordering::Greater) => return,
            Some(Ordering::Less) => *self = Slot::default(),
            _ => {}
        }
        let slot = &mut self.0[identity.key_kind as usize];
        if slot.is_none_or(|held| identity.not_after > of(held).not_after) {
            *slot = Some(place);
        }
    }

    fn pick(self, takes_ecdsa: bool) -> Option<u32> {
        let of = |kind: KeyKind| self.0[kind as usize];
        let (ecdsa, rsa, ed25519) = (of(KeyKind::Ecdsa), of(KeyKind::Rsa), of(KeyKind::Ed25519));
        match takes_ecdsa {
            true => ecdsa.or(rsa).or(ed25519),
            false => rsa.or(ecdsa).or(ed25519),
        }
    }
}

impl Clients {
    fn new(sites: Vec<SiteClients>, identities: &[Arc<Identity>]) -> Clients {
        let mut clients = Clients { sites, ..Clients::default() };
        for (at, site) in clients.sites.iter().enumerate() {
            for host in &site.hosts {
                let host = lower(host);
                match host.strip_prefix('*') {
                    Some(below) => clients.below.insert(below.trim_start_matches('.').into(), at),
                    None => clients.exact.insert((*host).into(), at),
                };
            }
        }
        for (site, auth) in
            clients.sites.iter().enumerate().filter_map(|(at, site)| Some((at, site.auth.as_ref()?)))
        {
            for (place, identity) in (0..).zip(identities) {
                if clients.sites[site].may_get(identity) {
                    clients.identities.insert((site, place), Arc::new(identity.with_clients(auth)));
                }
            }
        }
        clients
    }

    /// The site of a name: an exact host before a wildcard, a longer wildcard before a shorter one.
    fn site(&self, name: Option<&str>) -> Option<usize> {
        if self.sites.is_empty() {
            return None;
        }
        let mut rest = name.unwrap_or_default();
        if let Some(site) = self.exact.get(rest) {
            return Some(*site);
        }
        while let Some((_, below)) = rest.split_once('.') {
            if let Some(site) = self.below.get(below) {
                return Some(*site);
            }
            rest = below;
        }
        self.below.get("").copied()
    }
}

impl SiteClients {
    /// Whether a client of the site may be given this certificate.
    fn may_get(&self, identity: &Identity) -> bool {
        identity.is_default
            || self.hosts.iter().any(|host| match host.strip_prefix('*') {
                None => identity.names.cover(host),
                Some("") => true,
                Some(below) => identity.names.dns().any(|name| name.ends_with(&*lower(below))),
            })
    }
}

#[cfg(test)]
mod tests;
