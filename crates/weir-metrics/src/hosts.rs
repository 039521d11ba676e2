//! Which host of a document an origin is. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_upstream::{Gauged, OriginAddress};

/// An origin with what its host may be called.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) upstream: String,
    pub(crate) gauged: Gauged,
}

impl Target {
    /// `host`, `port` or `id` of the origin.
    pub(crate) fn part(&self, name: &str) -> Option<String> {
        let (host, port) = match (&self.gauged.at, &self.gauged.address) {
            (Some(at), _) => (bracketed(&at.ip().to_string()), at.port()),
            (None, OriginAddress::Http { host, port } | OriginAddress::Https { host, port }) => {
                (bracketed(host), *port)
            }
            (None, OriginAddress::Unix { .. }) => return self.gauged.id.clone().filter(|_| name == "id"),
        };
        match name {
            "host" => Some(host),
            "port" => Some(port.to_string()),
            _ => self.gauged.id.clone(),
        }
    }

    /// Whether the table means it.
    fn is(&self, meant: &str) -> bool {
        let Gauged { origin, id, address, .. } = &self.gauged;
        let is_address = || meant.parse::<OriginAddress>().is_ok_and(|meant| meant == *address);
        id.as_deref() == Some(meant) || **origin == *meant || is_address()
    }

    /// What its host may be called without a table: the better, the earlier.
    fn names(&self) -> Vec<String> {
        let Gauged { origin, id, address, at, ips, .. } = &self.gauged;
        let mut names: Vec<String> = id.iter().cloned().collect();
        names.push(origin.to_string());
        if let (Some(host), Some(port)) = (self.part("host"), self.part("port")) {
            names.push(format!("{host}:{port}"));
        }
        if let OriginAddress::Http { host, .. } | OriginAddress::Https { host, .. } = address {
            names.push(host.clone());
        }
        names.extend(at.map(|at| at.ip().to_string()));
        names.extend(ips.iter().map(IpAddr::to_string));
        names
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// A name of a host as it is compared.
fn canonical(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// What all hosts may be called that are wanted.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// By name, the origins by number with how good the name is: 0 is best.
    by_name: HashMap<String, Vec<(usize, usize)>>,
    count: usize,
}

impl Wanted {
    /// A name in the table means the origin there and no other one.
    pub(crate) fn new(targets: &[Target], table: &BTreeMap<String, String>) -> Wanted {
        let mut by_name: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for (name, meant) in table {
            let origins = targets.iter().enumerate().filter(|(_, target)| target.is(meant));
            by_name.insert(canonical(name), origins.map(|(number, _)| (number, 0)).collect());
        }
        let of_table: HashSet<String> = by_name.keys().cloned().collect();
        for (number, target) in targets.iter().enumerate() {
            for (place, name) in target.names().iter().map(|name| canonical(name)).enumerate() {
                if !of_table.contains(&name) {
                    by_name.entry(name).or_default().push((number, place + 1));
                }
            }
        }
        Wanted { by_name, count: targets.len() }
    }

    /// The origins that a host may be, by number, with how good the name is.
    pub(crate) fn origins(&self, name: &str, ip: &str) -> Vec<(usize, usize)> {
        let of = |name| self.by_name.get(&canonical(name)).into_iter().flatten();
        of(name).chain(of(ip)).copied().collect()
    }

    /// How many origins there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

/// The best host of each origin so far; of two that are as good the first. Others are not kept, however many
/// come.
#[derive(Debug)]
pub(crate) struct Best<H>(HashMap<usize, (usize, Arc<H>)>);

impl<H> Best<H> {
    pub(crate) fn new() -> Best<H> {
        Best(HashMap::new())
    }

    /// Whether a host that may be these origins is the best of one.
    pub(crate) fn wants(&self, origins: &[(usize, usize)]) -> bool {
        origins.iter().any(|one| self.is_better(*one))
    }

    fn is_better(&self, (number, place): (usize, usize)) -> bool {
        self.0.get(&number).is_none_or(|(known, _)| place < *known)
    }

    /// Puts a host to the origins whose best it is.
    pub(crate) fn add(&mut self, origins: &[(usize, usize)], host: H) {
        let host = Arc::new(host);
        for (number, place) in origins {
            if self.is_better((*number, *place)) {
                self.0.insert(*number, (*place, host.clone()));
            }
        }
    }

    /// The host of an origin.
    pub(crate) fn of(&self, number: usize) -> Option<&H> {
        self.0.get(&number).map(|(_, host)| &**host)
    }

    /// All hosts, each once.
    pub(crate) fn all(&self) -> Vec<&H> {
        let mut seen = HashSet::new();
        let hosts = self.0.values().filter(|(_, host)| seen.insert(Arc::as_ptr(host)));
        hosts.map(|(_, host)| &**host).collect()
    }
}

#[cfg(test)]
mod tests;
