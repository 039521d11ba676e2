//! Where sessions are at home among the origins of an upstream, by the origins' numbers. It must not know
//! whether an origin is up.

use crate::choice::pick::Ranks;
use crate::sessions::affinity::OriginId;
use crate::settings::Role;

/// Where sessions are at home.
#[derive(Debug)]
pub(crate) struct Homes {
    /// The numbers of the origins in order, and their places.
    numbers: Vec<(OriginId, usize)>,
    /// The ranks of the primaries and of the backups, and their places.
    ranks: [(Ranks, Vec<usize>); 2],
}

impl Homes {
    /// Those of origins with these numbers, weights and roles.
    pub(crate) fn new(origins: &[(OriginId, u32, Role)]) -> Homes {
        let mut numbers: Vec<(OriginId, usize)> =
            origins.iter().enumerate().map(|(at, (id, _, _))| (*id, at)).collect();
        numbers.sort_by_key(|(id, at)| (id.0, *at));
        let ranks = [Role::Primary, Role::Backup].map(|of| {
            let at: Vec<usize> = (0..origins.len()).filter(|at| origins[*at].2 == of).collect();
            let weights: Vec<u32> = at.iter().map(|at| origins[*at].1).collect();
            let seeds: Vec<u64> = at.iter().map(|at| origins[*at].0.0).collect();
            (Ranks::new(&weights, &seeds), at)
        });
        Homes { numbers, ranks }
    }

    /// The place of the origin of this number.
    pub(crate) fn at(&self, id: OriginId) -> Option<usize> {
        let first = self.numbers.partition_point(|(other, _)| other.0 < id.0);
        self.numbers.get(first).filter(|(other, _)| *other == id).map(|(_, at)| *at)
    }

    /// The first of the origins that a number ranks by weight (rendezvous hashing): an origin that comes or
    /// goes moves its own share only. Backups rank behind all primaries.
    pub(crate) fn ranked(&self, number: u64, takes: impl Fn(usize) -> bool) -> Option<usize> {
        let of_role = |(ranks, at): &(Ranks, Vec<usize>)| {
            ranks.best(number, |place| takes(at[place])).map(|place| at[place])
        };
        self.ranks.iter().find_map(of_role)
    }
}
