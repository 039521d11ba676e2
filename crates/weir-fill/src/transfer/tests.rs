//! A transfer that cannot write is woken. The clock of these tests stands still while anything can be done
//! without it: where it has moved on, a wait was over by time alone.

use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;
use weir_store::{InUse, Store};

use super::*;
use crate::tests::{body, key, proof};

const PIECE: u64 = 65_536;

/// A transfer that pushes until the memory is full, and on.
struct Pushing {
    transfer: Arc<Transfer>,
    task: JoinHandle<Result<u64, NoMemory>>,
}

impl Pushing {
    /// Pushes so many pieces.
    fn begin(store: &Store, pieces: u64) -> Pushing {
        let bells = Arc::new(Bells::new(1));
        let transfer = Transfer::new(Machine::new(), Interval::new(0, u64::MAX), bells, clock::mono());
        assert!(transfer.join());
        transfer.apply(Event::Storable(None));
        let transfer = Arc::new(transfer);
        let stamp = store.ledger().current();
        let (_, mut writer) = store.begin(proof(), key(), stamp, None).unwrap();
        let pushing = transfer.clone();
        let task = tokio::spawn(async move {
            for piece in 0..pieces {
                let bytes = body(piece * PIECE, PIECE);
                pushing.push(0, &mut writer, bytes, Duration::from_secs(30), |_| {}).await?;
                if pushing.ended().is_some() {
                    break;
                }
            }
            Ok(writer.position())
        });
        Pushing { transfer, task }
    }

    /// Lets it do what it can.
    async fn settle(&self) {
        for _ in 0..1000 {
            yield_now().await;
        }
    }
}

/// Another body of so many bytes that a reader holds.
fn held(store: &Store, number: u64, bytes: u64) -> InUse {
    let key = weir_policy::CacheKey::new(Bytes::from(format!("http://example.test/{number}")));
    let (generation, mut writer) = store.begin(proof(), key, store.ledger().current(), Some(bytes)).unwrap();
    writer.push(body(0, bytes)).unwrap();
    writer.seal().unwrap();
    InUse::new(generation)
}

#[tokio::test(start_paused = true)]
async fn a_transfer_without_memory_goes_on_as_soon_as_a_reader_lets_go_of_another_body() {
    let store = Store::new(1 << 20);
    let [first, second] = [1, 2].map(|number| held(&store, number, 450_000));
    let begun = Instant::now();
    let pushing = Pushing::begin(&store, 6);
    pushing.settle().await;
    assert!(!pushing.task.is_finished(), "the readers hold all the memory");
    drop(first);
    pushing.settle().await;
    assert!(pushing.task.is_finished(), "it was woken");
    assert_eq!(pushing.task.await.unwrap(), Ok(6 * PIECE));
    assert_eq!(begun.elapsed(), Duration::ZERO, "no alarm has rung");
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_ends_while_it_waits_for_memory_ends_at_once() {
    let store = Store::new(1 << 20);
    let _held = [1, 2].map(|number| held(&store, number, 450_000));
    let begun = Instant::now();
    let pushing = Pushing::begin(&store, 6);
    pushing.settle().await;
    assert!(!pushing.task.is_finished());
    pushing.transfer.apply(Event::Failed);
    pushing.settle().await;
    assert!(pushing.task.is_finished());
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_memory_go_on_one_after_another() {
    let store = Store::new(1 << 20);
    let [first, second] = [(1, 450_000), (2, 300_000)].map(|(number, bytes)| held(&store, number, bytes));
    let begun = Instant::now();
    let all: Vec<Pushing> = (0..3).map(|_| Pushing::begin(&store, 4)).collect();
    for pushing in &all {
        pushing.settle().await;
    }
    let waiting = |all: &[Pushing]| all.iter().filter(|pushing| !pushing.task.is_finished()).count();
    assert!(waiting(&all) > 1);
    // One reader is told; each transfer that goes on lets the next one look.
    drop(first);
    drop(second);
    for pushing in &all {
        pushing.settle().await;
    }
    assert_eq!(waiting(&all), 0);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
