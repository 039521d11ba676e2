//! Whether a distributor is silent, so that it is not asked for a second at a time. Pure: time is an
//! argument.
//!
//! One client must not silence it for others: a policy may fail at what that client asks. So a silence counts
//! only where nobody was answered meanwhile, and only several clients together silence the distributor for
//! all. One alone silences it for itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_share::Client;

/// So many silences of one client in a row, and it is skipped for that client.
const OF_ONE: u32 = 5;
/// So many silences of all in a row, and it is skipped for all, where they are of so many clients.
const OF_ALL: u32 = 10;
const CLIENTS: usize = 3;
/// How long it is skipped.
const PAUSE: Duration = Duration::from_secs(1);
/// That it is silent is said at most once in so long.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Clients that are remembered. Beyond that, the distributor is silent for all anyway.
const CLIENTS_MAX: usize = 256;

/// What is known of one distributor's silence.
#[derive(Debug)]
pub(crate) struct Silence {
    since: Instant,
    /// When it answered last, in microseconds since `since`.
    answered: AtomicU64,
    /// Until when somebody may be skipped, in microseconds; 0 where nothing is remembered.
    until: AtomicU64,
    row: Mutex<Row>,
}

/// The silences since the last answer.
#[derive(Debug, Default)]
struct Row {
    all: u32,
    skips_all_until: Option<Instant>,
    /// Whether it was said that it is silent,
    is_told: bool,
    /// and when it was said last.
    told: Option<Instant>,
    /// A fill has no client, and counts as one.
    clients: HashMap<Option<Client>, OfOne>,
}

#[derive(Debug)]
struct OfOne {
    count: u32,
    until: Option<Instant>,
}

impl Silence {
    pub(crate) fn new(now: Instant) -> Silence {
        Silence { since: now, answered: AtomicU64::new(0), until: AtomicU64::new(0), row: Mutex::default() }
    }

    /// Whether it is skipped for this client.
    pub(crate) fn skips(&self, client: Option<IpAddr>, now: Instant) -> bool {
        if self.until.load(Ordering::Relaxed) <= self.us(now) {
            return false;
        }
        let row = self.row.lock();
        let is_on = |until: Option<Instant>| until.is_some_and(|until| now < until);
        is_on(row.skips_all_until) || row.clients.get(&net(client)).is_some_and(|one| is_on(one.until))
    }

    /// Whether it has answered none of the last questions.
    pub(crate) fn is_silent(&self) -> bool {
        self.until.load(Ordering::Relaxed) != 0 && self.row.lock().all >= OF_ONE
    }

    /// It has answered. Whether that is to be said, since its silence was.
    pub(crate) fn answered(&self, now: Instant) -> bool {
        self.answered.fetch_max(self.us(now), Ordering::Relaxed);
        if self.until.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut row = self.row.lock();
        let was_told = row.is_told;
        *row = Row { told: row.told, ..Row::default() };
        self.until.store(0, Ordering::Relaxed);
        was_told
    }

    /// It has not answered this client what it was asked at `asked`. The silences so far, where that is to
    /// be said.
    pub(crate) fn silent(&self, client: Option<IpAddr>, asked: Instant, now: Instant) -> Option<u32> {
        if self.us(asked) < self.answered.load(Ordering::Relaxed) {
            return None;
        }
        let mut row = self.row.lock();
        row.all = row.all.saturating_add(1);
        self.note(&mut row, client, (asked, now));
        // Never 0, so that the next answer forgets the row.
        self.until.fetch_max(self.us(now + PAUSE), Ordering::Relaxed);
        let is_quiet =
            row.told.is_some_and(|told| now.saturating_duration_since(told) < TELL_EVERY) || row.is_told;
        if row.all < OF_ONE || is_quiet {
            return None;
        }
        (row.is_told, row.told) = (true, Some(now));
        Some(row.all)
    }

    fn note(&self, row: &mut Row, client: Option<IpAddr>, (asked, now): (Instant, Instant)) {
        if row.clients.len() >= CLIENTS_MAX && !row.clients.contains_key(&net(client)) {
            let Some(gone) = row.clients.keys().next().copied() else { return };
            row.clients.remove(&gone);
        }
        let one = row.clients.entry(net(client)).or_insert(OfOne { count: 0, until: None });
        one.count += 1;
        // What was asked before it was skipped does not make it longer.
        if one.count >= OF_ONE && one.until.is_none_or(|until| until <= asked) {
            one.until = Some(now + PAUSE);
        }
        let is_of_all = row.all >= OF_ALL && row.clients.len() >= CLIENTS;
        if is_of_all && row.skips_all_until.is_none_or(|until| until <= asked) {
            row.skips_all_until = Some(now + PAUSE);
        }
    }

    fn us(&self, now: Instant) -> u64 {
        // One more, so that no time is 0.
        now.saturating_duration_since(self.since).as_micros() as u64 + 1
    }
}

/// The client as a witness: one may have all addresses of a /48.
fn net(client: Option<IpAddr>) -> Option<Client> {
    client.map(|client| Client::of(client).witness())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    struct Told {
        silence: Silence,
        now: Instant,
    }

    impl Told {
        fn new() -> Told {
            let now = clock();
            Told { silence: Silence::new(now), now }
        }

        fn after(&mut self, ms: u64) {
            self.now += Duration::from_millis(ms);
        }

        /// A client asks and hears nothing for 20 ms.
        fn unheard(&mut self, of: Option<IpAddr>) -> Option<u32> {
            let asked = self.now;
            self.now += Duration::from_millis(20);
            self.silence.silent(of, asked, self.now)
        }

        fn skips(&self, of: Option<IpAddr>) -> bool {
            self.silence.skips(of, self.now)
        }
    }

    fn clock() -> Instant {
        crate::clock::now()
    }

    #[test]
    fn one_client_is_skipped_alone() {
        let mut told = Told::new();
        for _ in 0..100 {
            told.unheard(client(1));
        }
        assert!(told.skips(client(1)));
        assert!(!told.skips(client(2)));
        assert!(!told.skips(None));
    }

    #[test]
    fn one_client_with_many_addresses_is_one() {
        let mut told = Told::new();
        let of = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        for last in 0..100 {
            told.unheard(of(last));
        }
        assert!(told.skips(of(500)));
        assert!(!told.skips(client(2)));
    }

    #[test]
    fn several_clients_silence_it_for_all_for_a_second_at_a_time() {
        let mut told = Told::new();
        for at in 0..9 {
            told.unheard(client(at % 3));
            assert!(!told.skips(client(77)), "too few silences");
        }
        told.unheard(client(0));
        assert!(told.skips(client(77)) && told.skips(None));
        told.after(1001);
        assert!(!told.skips(client(77)), "a second is over");
        told.unheard(client(78));
        assert!(told.skips(client(77)), "still silent");
        told.after(500);
        assert!(told.skips(client(77)));
        told.silence.answered(told.now);
        assert!(!told.skips(client(77)), "it has answered");
        told.unheard(client(78));
        assert!(!told.skips(client(77)), "the row begins again");
    }

    #[test]
    fn what_is_not_answered_while_others_are_does_not_count() {
        let mut told = Told::new();
        for at in 0..100 {
            let asked = told.now;
            told.after(10);
            told.silence.answered(told.now);
            told.after(10);
            told.silence.silent(client(at % 5), asked, told.now);
        }
        assert!((0..6).all(|at| !told.skips(client(at))));
    }

    #[test]
    fn what_was_asked_before_makes_no_pause_longer() {
        let mut told = Told::new();
        let asked = told.now;
        told.after(20);
        for at in 0..30 {
            told.silence.silent(client(at % 3), asked, told.now);
        }
        told.after(900);
        for at in 0..30 {
            told.silence.silent(client(at % 3), asked, told.now);
        }
        told.after(101);
        assert!(!told.skips(client(9)));
    }

    #[test]
    fn its_silence_and_its_return_are_said_once() {
        let mut told = Told::new();
        let said: Vec<Option<u32>> = (0..20).map(|_| told.unheard(client(1))).collect();
        assert_eq!(said.iter().flatten().collect::<Vec<_>>(), [&5]);
        assert!(told.silence.is_silent());
        assert!(told.silence.answered(told.now), "it is back");
        assert!(!told.silence.answered(told.now) && !told.silence.is_silent());
        assert!((0..10).all(|_| told.unheard(client(2)).is_none()), "said just now");
        assert!(!told.silence.answered(told.now), "nothing was said of it");
        told.after(10_000);
        assert!((0..5).any(|_| told.unheard(client(2)).is_some()));
    }

    #[test]
    fn clients_are_forgotten_beyond_a_bound() {
        let mut told = Told::new();
        for last in 0..10_000_u32 {
            told.unheard(Some(IpAddr::from(last.to_be_bytes())));
        }
        assert!(told.silence.row.lock().clients.len() <= CLIENTS_MAX);
    }
}
