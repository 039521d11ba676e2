//! Readers and transfers of one generation in random interleavings, as on several cores: between a reader's
//! look at what is missing and its asking for that, transfers begin, write, tell how far they have come, and
//! end. No byte is asked for that is held, and none is written twice.

use std::time::Duration;

use proptest::prelude::*;
use weir_store::{BLOCK_BYTES, Store};

use super::*;
use crate::gap::hole;
use crate::machine::End;
use crate::tests::{body, key, proof};

const BLOCK: u64 = BLOCK_BYTES as u64;
const LENGTH: u64 = 20 * BLOCK + 1234;
const CHUNK: u64 = 8 * BLOCK;

#[derive(Clone, Debug)]
enum Act {
    /// A reader looks at what is missing where it is, up to the end of a block or of a chunk.
    Look {
        at: u64,
        chunk_bytes: u64,
    },
    /// One that has looked asks for it.
    Join {
        index: usize,
    },
    /// One that has looked asks for it as for what it will reach later.
    JoinAhead {
        index: usize,
    },
    Leave {
        index: usize,
    },
    /// The head of a transfer comes, or its next bytes, or its end.
    Come {
        index: usize,
        bytes: u64,
    },
    /// It tells how far it has come.
    Tell {
        index: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let chunk_bytes = prop_oneof![Just(BLOCK), Just(CHUNK), Just(LENGTH)];
    let bytes = prop_oneof![1u64..BLOCK, Just(BLOCK), Just(BLOCK), Just(CHUNK)];
    let index = || 0usize..6;
    prop_oneof![
        4 => (0..LENGTH, chunk_bytes).prop_map(|(at, chunk_bytes)| Act::Look { at, chunk_bytes }),
        4 => index().prop_map(|index| Act::Join { index }),
        1 => index().prop_map(|index| Act::JoinAhead { index }),
        1 => index().prop_map(|index| Act::Leave { index }),
        20 => (index(), bytes).prop_map(|(index, bytes)| Act::Come { index, bytes }),
        10 => index().prop_map(|index| Act::Tell { index }),
    ]
}

/// A transfer as its task runs it.
struct Running {
    gap: Arc<Gap>,
    writer: Option<Writer>,
    untold: u64,
}

struct Scene {
    store: Store,
    gaps: Gaps,
    generation: Arc<Generation>,
    looked: Vec<(u64, Interval)>,
    guards: Vec<GapGuard>,
    running: Vec<Running>,
    /// Transfers are so slow that readers do not wait for them.
    is_slow: bool,
}

impl Scene {
    fn new(is_slow: bool) -> Scene {
        let store = Store::new(64 << 20);
        let (first, stamp) = (Interval::new(0, BLOCK), store.ledger().current());
        let (generation, mut writer) = store.begin_part(proof(), key(), stamp, LENGTH, first).unwrap();
        writer.push(body(0, BLOCK)).unwrap();
        writer.rest();
        let gaps = Gaps::new(Arc::new(Bells::new(1)));
        let (looked, guards, running) = (Vec::new(), Vec::new(), Vec::new());
        Scene { store, gaps, generation, looked, guards, running, is_slow }
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Look { at, chunk_bytes } => {
                let end = (at + 1).next_multiple_of(chunk_bytes).min(LENGTH);
                let within = Interval::new(at - at % BLOCK, end);
                self.looked.extend(hole(&self.generation, at, within).map(|hole| (at, hole)));
            }
            Act::Join { index } if index < self.looked.len() => {
                let (at, interval) = self.looked.swap_remove(index);
                let joined = self.gaps.join(ORDER, &self.generation, at, interval);
                self.joined(joined);
            }
            Act::JoinAhead { index } if index < self.looked.len() => {
                let (_, interval) = self.looked.swap_remove(index);
                let joined = self.gaps.join_ahead(ORDER, &self.generation, interval);
                self.joined(joined);
            }
            Act::Leave { index } if index < self.guards.len() => drop(self.guards.swap_remove(index)),
            Act::Come { index, bytes } if index < self.running.len() => self.come(index, bytes),
            Act::Tell { index } if index < self.running.len() => self.running[index].tell(),
            Act::Join { .. }
            | Act::JoinAhead { .. }
            | Act::Leave { .. }
            | Act::Come { .. }
            | Act::Tell { .. } => {}
        }
    }

    /// What a new transfer asks for is missing, all of it.
    fn joined(&mut self, joined: Option<Joined>) {
        let Some(Joined { guard, begun }) = joined else { return };
        self.guards.push(guard);
        let Some(gap) = begun else { return };
        let asked = Interval::new(gap.transfer.start(), gap.transfer.end());
        assert!(!asked.is_empty());
        assert_eq!(self.generation.gap(asked), Some(asked), "{asked:?} is asked for, and some of it is held");
        self.running.push(Running { gap, writer: None, untold: 0 });
    }

    fn come(&mut self, index: usize, bytes: u64) {
        let running = &mut self.running[index];
        running.tell();
        let Running { gap, writer, untold } = running;
        let Some(writer) = writer else {
            let interval = Interval::new(gap.transfer.start(), gap.transfer.end());
            *writer = self.store.resume(&self.generation, interval);
            let ago = Duration::from_secs(if self.is_slow { 1000 } else { 0 });
            gap.transfer.speed.head(clock::mono().checked_sub(ago).unwrap());
            gap.transfer.apply(Event::Storable(None));
            if writer.is_none() {
                self.end(index);
            }
            return;
        };
        let at = writer.position();
        let bytes = bytes.min(gap.stop().saturating_sub(at));
        if bytes == 0 {
            return self.end(index);
        }
        let coming = Interval::new(at, at + bytes);
        assert_eq!(self.generation.gap(coming), Some(coming), "{coming:?} comes twice");
        writer.push(body(at, bytes)).unwrap();
        *untold = bytes;
        // A reader that misses the next byte waits for this transfer, however slowly it has come so far.
        let next = writer.position();
        assert!(next >= gap.transfer.end() || gap.comes_to(next), "{next} comes next and is not waited for");
    }

    fn end(&mut self, index: usize) {
        let Running { gap, writer, .. } = self.running.swap_remove(index);
        if let Some(writer) = writer {
            writer.rest();
        }
        gap.transfer.apply(Event::Over(End::Fetched));
        self.gaps.done(&gap);
    }

    /// All that has been asked for comes.
    fn run_out(&mut self) {
        while !self.running.is_empty() {
            self.come(0, CHUNK);
        }
        assert!(self.gaps.running.lock().is_empty());
    }
}

const ORDER: Order = Order { core: 0, chunk_bytes: CHUNK, by: FetchBy::Range };

impl Running {
    fn tell(&mut self) {
        if self.untold > 0 {
            self.gap.transfer.apply(Event::Bytes(std::mem::take(&mut self.untold)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_is_asked_for_again_that_is_held(
        is_slow in any::<bool>(),
        acts in prop::collection::vec(act(), 0..120),
    ) {
        let mut scene = Scene::new(is_slow);
        for act in &acts {
            scene.act(act);
        }
        scene.run_out();
    }
}

/// A reader has looked, and is held up before it asks. Meanwhile a transfer begins behind it, and ends.
#[test]
fn what_came_between_a_look_and_its_request_is_not_asked_for_again() {
    let mut scene = Scene::new(false);
    let (at, later) = (2 * BLOCK, 5 * BLOCK);
    scene.act(&Act::Look { at, chunk_bytes: CHUNK });
    scene.act(&Act::Look { at: later, chunk_bytes: CHUNK });
    scene.act(&Act::Join { index: 1 });
    scene.run_out();
    scene.act(&Act::Join { index: 0 });
    let asked = &scene.running[0].gap.transfer;
    assert_eq!((asked.start(), asked.end()), (at, later));
}
