//! Bodies through stages: random ones, and what must not happen with wrong ones.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Ready;
use crate::testing::stages::Kind;
use crate::testing::trial::{Act, Ends, Given, LetGo, trial};

fn pieces() -> impl Strategy<Value = Vec<Option<Bytes>>> {
    let bytes = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..40),
        3 => prop::collection::vec(any::<u8>(), 0..5000),
        1 => (any::<u8>(), 60_000..140_000usize).prop_map(|(byte, count)| vec![byte; count]),
    ];
    let piece = prop_oneof![1 => Just(None), 4 => bytes.prop_map(|bytes| Some(Bytes::from(bytes)))];
    prop::collection::vec(piece, 0..12)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let bytes_max = prop_oneof![Just(1), 2..100usize, 100..200_000usize];
    let act = prop_oneof![
        4 => bytes_max.clone().prop_map(|bytes_max| Act::Next { bytes_max }),
        2 => bytes_max.prop_map(|bytes_max| Act::PollOnce { bytes_max }),
        1 => (0..3000usize).prop_map(|unsent| Act::LetGo { unsent }),
    ];
    prop::collection::vec(act, 0..6)
}

fn given() -> impl Strategy<Value = Given> {
    let ends = prop_oneof![2 => Just(Ends::Whole), 1 => Just(Ends::Cut)];
    let takes_back = prop_oneof![Just(LetGo::TakesBack), Just(LetGo::TakesNothing)];
    (pieces(), ends, takes_back, acts()).prop_map(|(pieces, ends, takes_back, acts)| Given {
        pieces,
        ends,
        takes_back,
        acts,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_out_is_what_the_stages_say(
        given in given(),
        kinds in prop::collection::vec(prop::sample::select(&Kind::ALL[..]), 1..=2),
    ) {
        trial(&kinds, given);
    }
}

/// A body that always has more.
struct Endless;

impl Body for Endless {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        Ok(Some(Bytes::from(vec![0; bytes_max])))
    }
}

fn poll(body: &mut impl Body, bytes_max: usize) -> Poll<Result<Option<Bytes>, Cut>> {
    pin!(body.next(bytes_max)).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_stage_that_swallows_all_lets_others_run() {
    let mut body = Staged::new(Endless, Kind::Swallows.stage());
    for _ in 0..100 {
        assert!(poll(&mut body, 1000).is_pending());
    }
}

/// A stage that breaks a promise.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    TakesNothing,
    PutsTooMuch,
    NeverEnds,
}

impl Stage for Wrong {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        match self {
            Wrong::TakesNothing => Ok(()),
            Wrong::PutsTooMuch => out.put(Bytes::from(vec![0; OUT_BYTES_MAX + 1])),
            Wrong::NeverEnds => out.put(bytes.split_to(1)),
        }
    }

    fn end(&mut self, _: &mut Out) -> Result<Rest, Cut> {
        Ok(Rest::More)
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn held_bytes_max(&self) -> usize {
        0
    }
}

#[test]
fn a_wrong_stage_is_cut_and_does_not_spin() {
    for (stage, before) in [(Wrong::TakesNothing, 0), (Wrong::PutsTooMuch, 0), (Wrong::NeverEnds, 3)] {
        let mut body = Staged::new(Ready(Bytes::from_static(b"abc")), stage);
        for _ in 0..before {
            assert!(matches!(poll(&mut body, 10), Poll::Ready(Ok(Some(piece))) if piece.len() == 1));
        }
        assert_eq!(poll(&mut body, 10), Poll::Ready(Err(FAILED)), "{stage:?}");
    }
}

#[test]
fn a_slow_reader_keeps_no_block_alive() {
    let block = Bytes::from(vec![7; 100_000]);
    let mut body = Staged::new(Ready(block.clone()), Kind::Unchanged.stage());
    let Poll::Ready(Ok(Some(piece))) = poll(&mut body, 10) else { panic!("nothing came") };
    let kept = body.let_go(piece.slice(4..));
    assert_eq!(kept.as_deref(), Some(&[7; 6][..]));
    drop(piece);
    // The body itself is the block, and can be nothing else.
    let (before, after) = (block.as_ptr_range(), kept.unwrap().as_ptr());
    assert!(!before.contains(&after));
    assert!(body.out.pieces().all(|piece| !before.contains(&piece.as_ptr())));
}
