//! What fills know of upstreams: how many fills run at each, and which are down, so that no request waits for
//! one that could have a stale response. It must not ask an origin, nor decide what is usable.
//!
//! An outage begins with a failure that no request can have caused, or that several clients have met. It has
//! a backoff of one second. When the backoff is over one probe is due, without a client; each probe that
//! fails doubles the backoff. Any answer ends the outage, and so does a long time without requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_policy::Failure;
use weir_share::{ByClient, Client, leaves_some};

use super::witness::{Witness, Witnesses};

/// Fills at one origin at a time. Further requests go past the cache, or get something stale.
pub const FILLS_PER_ORIGIN_MAX: usize = 128;
/// How long an upstream is not asked after its first failure.
pub const BACKOFF: Duration = Duration::from_secs(1);
/// The longest backoff. An outage is forgotten so long after its backoff, if nobody asks.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Whether a probe is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Due,
    Begun,
}

/// That an upstream gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outage {
    backoff: Duration,
    until: Instant,
    probe: Probe,
}

impl Outage {
    fn begin(now: Instant) -> Outage {
        Outage { backoff: BACKOFF, until: now + BACKOFF, probe: Probe::Due }
    }

    /// One more failure. Failures of requests that were under way when the backoff began say nothing new.
    fn failed(self, now: Instant) -> Outage {
        if self.is_forgotten(now) {
            return Outage::begin(now);
        }
        if now < self.until && self.probe == Probe::Due {
            return self;
        }
        let backoff = (self.backoff * 2).min(BACKOFF_MAX);
        Outage { backoff, until: now + backoff, probe: Probe::Due }
    }

    /// The outage with a probe under way, if one may begin.
    fn tried(self, now: Instant) -> Option<Outage> {
        (now >= self.until).then(|| Outage { until: now + self.backoff, probe: Probe::Begun, ..self })
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        now >= self.until + BACKOFF_MAX
    }
}

/// What speaks against an upstream.
#[derive(Clone, Debug)]
enum Trouble {
    /// Requests got no answer and may have caused that themselves.
    Suspected(Witnesses),
    Out(Outage),
}

/// What is known of one upstream; there is an entry only while something is.
#[derive(Default)]
struct Known {
    fills: usize,
    /// How many of them each client has.
    clients: ByClient<u64>,
    trouble: Option<Trouble>,
    /// The kind of its last failure.
    kind: Option<Failure>,
}

impl Known {
    fn outage(&mut self) -> Option<&mut Outage> {
        match &mut self.trouble {
            Some(Trouble::Out(outage)) => Some(outage),
            Some(Trouble::Suspected(_)) | None => None,
        }
    }
}

/// How many fills there may be at an upstream.
#[derive(Clone, Copy, Debug)]
pub struct FillsMax {
    /// Of all clients.
    pub all: usize,
    /// Of one client.
    pub of_client: usize,
}

/// All upstreams, by name.
#[derive(Default)]
pub struct Upstreams {
    known: Mutex<HashMap<Box<str>, Known>>,
    /// Bytes of bodies that have arrived for each client, and that a drive has yet to take.
    arrived: Mutex<ByClient<u64>>,
    /// How many upstreams have trouble. While there are none no lock is taken.
    troubles: AtomicUsize,
}

impl Upstreams {
    /// A permit for one more fill at this upstream. None where all are taken, or the client has as many as it
    /// may. It counts from when the fill is planned, which is before it has a connection.
    pub fn permit(self: &Arc<Self>, name: &str, of: Option<Client>, most: FillsMax) -> Option<FillPermit> {
        let mut known = self.known.lock();
        let upstream = known.entry(name.into()).or_default();
        let (all, of_client) = (most.all as u64, most.of_client as u64);
        let fits = |client| {
            let used = upstream.clients.used(client, |count| *count);
            upstream.clients.fits(client, |count| *count, 1, of_client)
                && leaves_some(used, (all, all.saturating_sub(upstream.fills as u64)), of_client)
        };
        if upstream.fills >= most.all || !of.is_none_or(fits) {
            return None;
        }
        upstream.fills += 1;
        of.into_iter().for_each(|client| upstream.clients.change(client, |count| *count += 1));
        Some(FillPermit { upstreams: self.clone(), name: name.into(), of, arrived_bytes: None })
    }

    /// It gave no answer, and no request can have caused that.
    pub fn failed(&self, name: &str, now: Instant) {
        self.trouble(name, Failure::NoAnswer, |trouble| match trouble {
            Some(Trouble::Out(outage)) => Trouble::Out(outage.failed(now)),
            Some(Trouble::Suspected(_)) | None => Trouble::Out(Outage::begin(now)),
        });
    }

    /// It gave no usable answer to a request of this client, which may have caused that. An outage begins
    /// once several clients have met this, with no answer in between.
    pub fn suspected(&self, name: &str, client: Witness, kind: Failure, now: Instant) {
        self.trouble(name, kind, |trouble| match trouble {
            Some(Trouble::Out(outage)) => Trouble::Out(outage.failed(now)),
            Some(Trouble::Suspected(mut witnesses)) => {
                witnesses.add(client, now);
                match witnesses.are_enough() {
                    true => Trouble::Out(Outage::begin(now)),
                    false => Trouble::Suspected(witnesses),
                }
            }
            None => Trouble::Suspected(Witnesses::begin(client, now)),
        });
    }

    fn trouble(&self, name: &str, kind: Failure, add: impl FnOnce(Option<Trouble>) -> Trouble) {
        let mut known = self.known.lock();
        let upstream = known.entry(name.into()).or_default();
        if upstream.trouble.is_none() {
            self.troubles.fetch_add(1, Ordering::Relaxed);
        }
        upstream.trouble = Some(add(upstream.trouble.take()));
        upstream.kind = Some(kind);
    }

    /// It has answered, with any status.
    pub fn answered(&self, name: &str) {
        if self.troubles.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut known = self.known.lock();
        let Some(upstream) = known.get_mut(name) else { return };
        if upstream.trouble.take().is_some() {
            self.troubles.fetch_sub(1, Ordering::Relaxed);
        }
        if upstream.fills == 0 {
            known.remove(name);
        }
    }

    /// The kind of its last failure while it is down. None where it is up.
    pub fn outage(&self, name: &str, now: Instant) -> Option<Failure> {
        if self.troubles.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut known = self.known.lock();
        let upstream = known.get_mut(name)?;
        upstream.outage().filter(|outage| !outage.is_forgotten(now))?;
        upstream.kind
    }

    /// Whether it may be asked without a client: always while it answers, else once a backoff. The caller
    /// does ask.
    pub fn may_try(&self, name: &str, now: Instant) -> bool {
        if self.troubles.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let mut known = self.known.lock();
        let Some(outage) = known.get_mut(name).and_then(Known::outage) else {
            return true;
        };
        let Some(tried) = outage.tried(now) else { return false };
        *outage = tried;
        true
    }
}

/// A fill's place at its upstream, until its body has arrived.
pub struct FillPermit {
    upstreams: Arc<Upstreams>,
    name: Box<str>,
    of: Option<Client>,
    /// Of a body that has arrived: then it has no place any more.
    arrived_bytes: Option<u64>,
}

impl FillPermit {
    /// The upstream is done with its body: another fill may have its place, while a drive takes what has
    /// arrived. It keeps its place for as long as that takes where its client had more than `most` bytes in
    /// this state. What is fetched for no client in particular has no such bound.
    pub fn arrive(&mut self, bytes: u64, most: u64) {
        if self.arrived_bytes.is_some() {
            return;
        }
        // A long body has hardly more to be taken than a short one.
        let bytes = bytes.min(most);
        if let Some(client) = self.of {
            let mut arrived = self.upstreams.arrived.lock();
            if !arrived.fits(client, |count| *count, bytes, most) {
                return;
            }
            arrived.change(client, |count| *count += bytes);
        }
        self.leave();
        self.arrived_bytes = Some(bytes);
    }

    /// Gives up its place.
    fn leave(&self) {
        let mut known = self.upstreams.known.lock();
        let Some(upstream) = known.get_mut(&self.name) else { return };
        upstream.fills -= 1;
        if let Some(client) = self.of {
            upstream.clients.change(client, |count| *count -= 1);
        }
        if upstream.fills == 0 && upstream.trouble.is_none() {
            known.remove(&self.name);
        }
    }
}

impl Drop for FillPermit {
    fn drop(&mut self) {
        let Some(bytes) = self.arrived_bytes else { return self.leave() };
        let Some(client) = self.of else { return };
        self.upstreams.arrived.lock().change(client, |left| *left -= bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_clock as clock;

    const NAME: &str = "main";
    const NO_ANSWER: Failure = Failure::NoAnswer;

    impl Upstreams {
        fn is_down(&self, name: &str, now: Instant) -> bool {
            self.outage(name, now).is_some()
        }
    }

    #[test]
    fn an_outage_is_of_the_kind_of_its_last_failure() {
        let (upstreams, now) = (Upstreams::default(), clock::mono());
        for number in 0..3 {
            upstreams.suspected(NAME, Witness::V4(number), Failure::Unusable, now);
        }
        assert_eq!(upstreams.outage(NAME, now), Some(Failure::Unusable), "it talks, though not HTTP");
        upstreams.failed(NAME, now);
        assert_eq!(upstreams.outage(NAME, now), Some(NO_ANSWER));
        upstreams.answered(NAME);
        assert_eq!(upstreams.outage(NAME, now), None);
    }

    #[test]
    fn an_upstream_that_failed_is_tried_once_a_spell_and_the_spell_doubles() {
        let (upstreams, mut now) = (Upstreams::default(), clock::mono());
        assert!(!upstreams.is_down(NAME, now) && upstreams.may_try(NAME, now));
        upstreams.failed(NAME, now);
        let mut spells = Vec::new();
        for _ in 0..7 {
            let begun = now;
            assert!(upstreams.is_down(NAME, now) && !upstreams.may_try(NAME, now));
            while !upstreams.may_try(NAME, now) {
                now += Duration::from_millis(500);
            }
            assert!(!upstreams.may_try(NAME, now), "one try a spell");
            spells.push((now - begun).as_secs());
            upstreams.failed(NAME, now);
        }
        assert_eq!(spells, [1, 2, 4, 8, 16, 30, 30]);
        upstreams.answered(NAME);
        assert!(!upstreams.is_down(NAME, now) && upstreams.known.lock().is_empty());
    }

    #[test]
    fn failures_within_a_spell_do_not_make_it_longer_and_an_old_outage_is_forgotten() {
        let (upstreams, now) = (Upstreams::default(), clock::mono());
        for _ in 0..100 {
            upstreams.failed(NAME, now);
        }
        assert!(upstreams.is_down(NAME, now + BACKOFF));
        let late = now + BACKOFF + BACKOFF_MAX;
        assert!(!upstreams.is_down(NAME, late));
        upstreams.failed(NAME, late);
        assert!(!upstreams.may_try(NAME, late) && upstreams.may_try(NAME, late + BACKOFF));
    }

    #[test]
    fn one_client_alone_does_not_put_an_upstream_out() {
        let (upstreams, now) = (Upstreams::default(), clock::mono());
        let client = Witness::V4;
        for _ in 0..100 {
            upstreams.suspected(NAME, client(1), NO_ANSWER, now);
            upstreams.suspected(NAME, client(2), NO_ANSWER, now);
        }
        assert!(!upstreams.is_down(NAME, now) && upstreams.may_try(NAME, now));
        upstreams.answered(NAME);
        upstreams.suspected(NAME, client(3), NO_ANSWER, now);
        assert!(!upstreams.is_down(NAME, now), "an answer came in between");
        upstreams.suspected(NAME, client(2), NO_ANSWER, now);
        upstreams.suspected(NAME, client(1), NO_ANSWER, now);
        assert!(upstreams.is_down(NAME, now) && !upstreams.may_try(NAME, now));
        upstreams.answered(NAME);
        assert!(!upstreams.is_down(NAME, now) && upstreams.known.lock().is_empty());
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let upstreams = Arc::new(Upstreams::default());
        let (most, clients) = (FillsMax { all: 3, of_client: 2 }, [Client::V4(1), Client::V4(2)]);
        let place = |client: usize| upstreams.permit(NAME, Some(clients[client]), most);
        let first = place(0);
        let second = place(0);
        assert!(first.is_some() && second.is_some() && place(0).is_none(), "it has its share");
        let third = place(1);
        assert!(third.is_some() && place(1).is_none(), "all are taken");
        drop(third);
        drop(first);
        assert!(place(0).is_some());
        drop(second);
        assert!(upstreams.known.lock().is_empty());
    }

    #[test]
    fn a_body_that_has_arrived_gives_up_its_place_unless_much_has_for_its_client() {
        let upstreams = Arc::new(Upstreams::default());
        let most = FillsMax { all: 2, of_client: 1 };
        let place = |client: u32| upstreams.permit(NAME, Some(Client::V4(client)), most);
        let one = 1;
        let mut first = place(one).unwrap();
        first.arrive(600, 1000);
        let mut second = place(one).expect("the first has arrived");
        second.arrive(600, 1000);
        assert!(place(one).is_none(), "a drive has yet to take much of it");
        let mut other = place(2).expect("that is no matter of others");
        other.arrive(600, 1000);
        drop(first);
        second.arrive(600, 1000);
        drop(place(one).expect("the drive has taken the first"));
        drop((second, other));
        assert!(upstreams.known.lock().is_empty() && upstreams.arrived.lock().is_empty());
    }
}
