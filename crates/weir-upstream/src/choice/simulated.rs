//! Picks without origins: the lane and the counters that requests use, for a simulator that says when
//! requests begin and end. Time and chance are arguments.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

use crate::choice::load::{Board, Load};
use crate::choice::pick::{Asked, Field, Lane, Moment, Pick, Picked, Picking, Place, Turns, Whose, seed};

/// Origins that are not there.
#[derive(Debug)]
pub struct Group {
    weights: Vec<u32>,
    loads: Vec<Load>,
    lane: Lane,
    turn: u64,
}

/// A request for a pick.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'r> {
    /// Its path and query.
    pub uri: &'r str,
    /// Its client.
    pub client: IpAddr,
    /// The origins that it was sent to before.
    pub tried: &'r [usize],
}

struct Untried<'t>(&'t [usize]);

impl Field for Untried<'_> {
    fn is_open(&self, member: usize) -> bool {
        !self.0.contains(&member)
    }
}

impl Group {
    /// Origins of these weights, each with room for so many requests. All take their shares.
    pub fn new(weights: &[u32], room: usize) -> Group {
        let board = Board::default();
        let loads = weights.iter().map(|_| board.add(room)).collect();
        let mut group = Group { weights: weights.to_vec(), loads, lane: Lane::default(), turn: 0 };
        group.take(|_| true);
        group
    }

    /// From now on these take their shares, as after an ejection or a return.
    pub fn take(&mut self, takes: impl Fn(usize) -> bool) {
        let place = |member: usize| Place {
            member,
            weight: self.weights[member],
            seed: seed(&format!("http://o{member}")),
            load: self.loads[member].clone(),
            gauges: Arc::default(),
        };
        self.lane = Lane::new((0..self.weights.len()).filter(|at| takes(*at)).map(place).collect());
    }

    /// The origin for a request, which begins there.
    pub fn pick(
        &mut self,
        picks: &[Pick],
        wanted: &Wanted<'_>,
        (chance, now_ms): (u64, u32),
    ) -> Option<Picked> {
        let picking = Picking { whose: Whose::Client, client: Some(wanted.client), ..Picking::default() };
        let headers = HeaderMap::new();
        let asked = Asked { picking: &picking, target: wanted.uri.as_bytes(), headers: &headers };
        let moment = Moment::new(Turns::At(self.turn), chance, now_ms);
        let picked = self.lane.pick(picks, &Untried(wanted.tried), &asked, &moment)?;
        self.turn += 1;
        self.lane.take(picks, picked.at);
        self.loads[picked.at].begin();
        Some(picked)
    }

    /// A request has ended at this origin.
    pub fn end(&self, at: usize) {
        self.loads[at].end();
    }

    /// A response of so many bytes began after so many microseconds.
    pub fn answered(&self, at: usize, (us, bytes): (u32, u64), now_ms: u32) {
        self.loads[at].measure(us, now_ms);
        self.loads[at].add_bytes(bytes);
    }
}
