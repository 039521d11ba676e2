//! How many refused attempts are written: a number a minute for each actor. Clients of the data listeners
//! share one number, and strangers on the admin listener another, so that neither hides what a token tries.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{Act, Actor, Entry};

/// The minute in which refused attempts are counted.
const MINUTE: Duration = Duration::from_secs(60);
/// Refused attempts of an actor that are written in it.
pub(super) const REFUSED_A_MINUTE: u64 = 100;
/// Actors that are counted apart; those beyond share a number.
const ACTORS_MAX: usize = 256;

/// The refused attempts of this minute, by their actors.
#[derive(Default)]
pub(super) struct Refusals {
    minutes: HashMap<String, Minute>,
}

struct Minute {
    since: Instant,
    actor: Actor,
    written: u64,
    /// Those beyond the number that is written.
    more: u64,
}

impl Refusals {
    /// Whether a refused attempt is to be written; else it is counted.
    pub(super) fn admits(&mut self, actor: &Actor, now: Instant) -> bool {
        let (mut name, mut actor) = match actor {
            Actor::Client(_) => (CLIENTS.to_owned(), Actor::Nobody),
            Actor::Nobody | Actor::Stranger(_) => (STRANGERS.to_owned(), Actor::Nobody),
            known => (known.to_string(), known.clone()),
        };
        if self.minutes.len() >= ACTORS_MAX && !self.minutes.contains_key(&name) {
            (name, actor) = (OTHERS.to_owned(), Actor::Nobody);
        }
        let minute = self.minutes.entry(name).or_insert(Minute { since: now, actor, written: 0, more: 0 });
        let is_admitted = minute.written < REFUSED_A_MINUTE;
        if is_admitted {
            minute.written += 1;
        } else {
            minute.more += 1;
        }
        is_admitted
    }

    /// Whether no minute is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.minutes.is_empty()
    }

    /// Forgets the minutes that have ended: an entry for the attempts of each that were not written.
    pub(super) fn ended(&mut self, now: Instant) -> Vec<Entry> {
        let is_over = |_: &String, minute: &mut Minute| now.saturating_duration_since(minute.since) >= MINUTE;
        let over = self.minutes.extract_if(is_over).filter(|(_, minute)| minute.more > 0);
        let entry = |(name, Minute { actor, more, .. }): (String, Minute)| {
            let of = if actor == Actor::Nobody { format!(" of {name}") } else { String::new() };
            let why = format!("{more} more refused attempts{of} in a minute");
            Entry { actor, act: "refused".to_owned(), result: Act::Refused, why, ..Entry::default() }
        };
        over.map(entry).collect()
    }
}

const CLIENTS: &str = "clients";
const STRANGERS: &str = "strangers";
const OTHERS: &str = "others";
