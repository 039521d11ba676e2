//! How a body that is about to begin finds room in memory. Many that arrive at once take all of it for as
//! long as the drives need for them, which is short. A body that is passed for that is not stored, and a long
//! one holds a connection for as long as its clients read it. So it waits, in line and for a bounded time.
//! What only readers hold is not freed soon: nobody waits for it. Nor does a body that nobody reads.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_clock as clock;
use weir_store::{Claim, Store};

/// A body that is shorter waits less: passed, it gives its connection back soon.
pub(super) const SHORT_BYTES: u64 = 1 << 20;
/// How long a body waits. Then it is passed.
const WAIT_MAX: Duration = Duration::from_secs(1);
const SHORT_WAIT_MAX: Duration = Duration::from_millis(250);
/// So many bodies of one client wait at a time. A further one is stored only if it finds room at once.
pub(super) const WAITING_OF_CLIENT_MAX: usize = 16;
/// Where the volumes write nothing for so long, nobody waits for them.
const STALLED_MAX: Duration = Duration::from_millis(500);
/// How often the first in line looks whether they do.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// The shortest time between two looks for what memory may drop of bodies under way: each costs some
/// microseconds for each body.
const FORGET_AFTER: Duration = Duration::from_millis(20);

/// What a body needs that is about to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Of memory.
    pub(super) bytes: u64,
    /// How much of it is to come.
    pub(super) length: u64,
    /// Whether a client waits for it, to whom it is passed where there is no room.
    pub(super) is_passable: bool,
}

/// Waits until so much is free, or until no drive that works would free it, or nobody wants the body any
/// more. To be asked of what is stored alone: what can leave memory for it leaves. The claim, where there
/// was one and it was met, is the body's, which begins without another wait: keep it until then.
///
/// # Cancel safety
/// Safe: the place in line is lost.
pub(super) async fn wait(
    store: &Store,
    forgotten: &Mutex<Forgotten>,
    need: Need,
    is_wanted: impl Fn() -> bool,
) -> Option<Claim> {
    if store.has_room(need.bytes) || !is_wanted() {
        return None;
    }
    let longest = if need.length < SHORT_BYTES { SHORT_WAIT_MAX } else { WAIT_MAX };
    // Boxed, since each miss has it, and hardly any waits.
    let claim = Box::pin(tokio::time::timeout(longest, claim(store, forgotten, need, is_wanted)));
    let mut claim = claim.await.ok().flatten()?;
    claim.give();
    Some(claim)
}

async fn claim(
    store: &Store,
    forgotten: &Mutex<Forgotten>,
    need: Need,
    is_wanted: impl Fn() -> bool,
) -> Option<Claim> {
    let mut moved = (store.written_bytes(), clock::mono());
    let mut claim = store.claim(need.bytes).await;
    // A short body is no worse off passed. So it waits only for what waits for the volumes by now.
    let is_short = need.length < SHORT_BYTES && need.is_passable;
    let due = store.written_bytes() + store.waiting_bytes();
    while is_wanted() {
        let has_forgotten = forget_written(store, forgotten);
        if claim.is_met() {
            return Some(claim);
        }
        // So does any body while reserves take all that they may: what volumes write does not free these.
        let is_brief = is_short || !claim.is_standing();
        if has_forgotten && (!store.is_writing() || (is_brief && (moved.0 >= due || !claim.may_be_met()))) {
            return None;
        }
        let _ = tokio::time::timeout(LOOK_AFTER, claim.freed()).await;
        let (written, now) = (store.written_bytes(), clock::mono());
        if written != moved.0 {
            moved = (written, now);
        } else if now - moved.1 >= STALLED_MAX {
            return None;
        }
    }
    None
}

/// Has memory drop what volumes have of bodies under way. False where it has to be asked again later.
fn forget_written(store: &Store, forgotten: &Mutex<Forgotten>) -> bool {
    let written = (!store.is_writing()).then(|| store.written_bytes());
    let look = forgotten.lock().look(written, clock::mono());
    if look == Look::Now {
        store.forget_written();
    }
    look != Look::Later
}

/// When memory last dropped what volumes have of bodies under way, and how many bytes the volumes had
/// written, where they were writing nothing then.
#[derive(Debug, Default)]
pub(super) struct Forgotten(Option<(Instant, Option<u64>)>);

/// Whether there is something to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Now,
    /// The last look was a moment ago.
    Later,
    /// Nothing was written since the last look.
    Done,
}

impl Forgotten {
    /// `written`: how many bytes the volumes have written, where they write nothing now.
    fn look(&mut self, written: Option<u64>, now: Instant) -> Look {
        match self.0 {
            Some((_, before)) if written.is_some() && before == written => Look::Done,
            Some((at, _)) if now.saturating_duration_since(at) < FORGET_AFTER => Look::Later,
            _ => {
                self.0 = Some((now, written));
                Look::Now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Without a volume it is never met.
    const MORE_THAN_THERE_IS: Need = Need { bytes: 64 << 20, length: 64 << 20, is_passable: true };

    #[test]
    fn many_bodies_that_find_no_room_look_once_in_a_while() {
        let mut forgotten = Forgotten::default();
        let begun = clock::mono();
        assert_eq!(forgotten.look(None, begun), Look::Now);
        assert_eq!(forgotten.look(None, begun + FORGET_AFTER / 2), Look::Later);
        // The volumes have come to rest, and may have written since.
        assert_eq!(forgotten.look(Some(7), begun + FORGET_AFTER / 2), Look::Later);
        assert_eq!(forgotten.look(Some(7), begun + FORGET_AFTER), Look::Now);
    }

    #[test]
    fn while_volumes_rest_nobody_looks_again_or_waits_to_look() {
        let mut forgotten = Forgotten::default();
        let begun = clock::mono();
        assert_eq!(forgotten.look(Some(7), begun), Look::Now);
        for after in [FORGET_AFTER / 2, FORGET_AFTER * 5] {
            assert_eq!(forgotten.look(Some(7), begun + after), Look::Done);
        }
        assert_eq!(forgotten.look(Some(8), begun + FORGET_AFTER / 2), Look::Later);
        assert_eq!(forgotten.look(Some(8), begun + FORGET_AFTER * 6), Look::Now);
    }

    #[tokio::test]
    async fn nobody_waits_for_memory_that_no_volume_would_free() {
        let store = Store::new(4 << 20);
        let forgotten = Mutex::default();
        let wait = pin!(claim(&store, &forgotten, MORE_THAN_THERE_IS, || true));
        assert!(matches!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
    }

    #[tokio::test]
    async fn what_nobody_reads_stands_in_no_line() {
        let store = Store::new(4 << 20);
        let forgotten = Mutex::default();
        let first = store.claim(1000).await;
        let poll = |is_wanted: bool| {
            let wait = pin!(wait(&store, &forgotten, MORE_THAN_THERE_IS, || is_wanted));
            wait.poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!(poll(false) && !poll(true), "one is before it");
        drop(first);
        assert!(poll(true));
    }
}
