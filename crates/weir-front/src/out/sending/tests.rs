//! Bodies, clients and paces by script, on the clock of the runtime.

use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::out::testing::{Kind, Lies, Parts, Record, Records, Script, Scripted, Slow, Step, pattern, rows};
use Step::{Leaves, Rests, Takes};

const KINDS: [Kind; 4] = [Kind::Socket, Kind::Plain, Kind::Chunks, Kind::Window];
const LONG: usize = 1_000_000;
const STALL_MS: u64 = 60_000;

/// A response on its way.
struct Case {
    script: Script,
    extent: Extent,
    steps: Vec<Step>,
    rate: Option<u64>,
    uploads: bool,
}

/// What came of it.
struct Outcome {
    sent: Sent,
    record: Record,
    begun: Instant,
    /// Milliseconds.
    took: u64,
}

impl Case {
    fn new(script: Script, steps: &[Step]) -> Case {
        let extent = Extent::Length(script.bytes as u64);
        Case { script, extent, steps: steps.to_vec(), rate: None, uploads: false }
    }

    fn open(self) -> Case {
        Case { extent: Extent::Open, ..self }
    }

    fn declaring(self, bytes: usize) -> Case {
        Case { extent: Extent::Length(bytes as u64), ..self }
    }

    fn run(&self, kind: Kind) -> Outcome {
        let mut clock = tokio::runtime::Builder::new_current_thread();
        clock.enable_time().start_paused(true).build().unwrap().block_on(async {
            let (record, begun) = (Records::default(), clock::mono());
            let mut body = self.script.begin(&record);
            let mut pace = self.rate.map(|rate| Box::new(Slow::new(rate)));
            let mut upload = self.uploads.then(|| Box::new(Parts::new(&record)) as Box<dyn Upload>);
            let sink = Scripted::new(kind, &self.steps, &record);
            let mut sending = Sending::new(sink, self.extent, &mut body, &mut pace, &mut upload);
            let end = match sending.at_once() {
                Some(end) => end,
                None => sending.rest().await,
            };
            let sent = sending.finish(end);
            drop((body, upload));
            let took = (clock::mono() - begun).as_millis() as u64;
            Outcome { sent, record: Rc::into_inner(record).unwrap().into_inner(), begun, took }
        })
    }
}

impl Outcome {
    /// When the body was to let go, in milliseconds, and how much it was given back.
    fn let_go(&self) -> Vec<(u64, usize)> {
        let ms = |at: &Instant| (*at - self.begun).as_millis() as u64;
        self.record.let_go.iter().map(|(at, bytes)| (ms(at), *bytes)).collect()
    }

    /// What holds of each response.
    fn check(&self, case: &Case) {
        let (got, sent) = (&self.record.got, self.sent);
        assert!(*got == pattern(0, got.len()), "other bytes than those of the body");
        assert_eq!((self.record.closed, sent.body_bytes), (Some(sent.end), got.len() as u64));
        let whole = match case.extent {
            Extent::Nothing(_) => 0,
            Extent::Length(length) => length,
            Extent::Open => case.script.bytes as u64,
        };
        assert!(sent.body_bytes <= whole, "more than there is");
        assert_eq!(sent.end == End::Whole, sent.body_bytes == whole && !self.is_cut(), "{sent:?}");
        if case.extent == Extent::Open {
            assert_eq!(self.record.is_ended, sent.end == End::Whole, "a clean end: {sent:?}");
        }
    }

    fn is_cut(&self) -> bool {
        self.sent.end != End::Whole
    }
}

/// Sends by each kind of sink, and has each outcome looked at.
fn each(case: &Case, look: impl Fn(Kind, &Outcome)) {
    for kind in KINDS {
        let outcome = case.run(kind);
        outcome.check(case);
        look(kind, &outcome);
    }
}

fn check(case: &Case, expect: End) {
    each(case, |kind, outcome| assert_eq!(outcome.sent.end, expect, "{kind:?}"));
}

fn lies() -> [Lies; 5] {
    [Lies::AtHand(LONG), Lies::AtHand(1000), Lies::Sealed, Lies::Comes(LONG, 0), Lies::Comes(7777, 3)]
}

#[test]
fn a_body_comes_whole_wherever_it_lies() {
    for lies in lies() {
        for bytes in [0, 1, 1000, AT_ONCE_BYTES_MAX as usize, LONG] {
            let script = Script::new(lies, bytes);
            check(&Case::new(script.clone(), &[]), End::Whole);
            check(&Case::new(script.clone(), &[Takes(10), Rests(50), Takes(500), Rests(1)]), End::Whole);
            check(&Case::new(script, &[Rests(150), Takes(70_000), Rests(3000)]), End::Whole);
        }
        check(&Case::new(Script::new(Lies::Comes(5000, 1), 20_000), &[Rests(150)]).open(), End::Whole);
    }
}

#[test]
fn what_holds_of_each_sink_holds_of_scripts() {
    for (script, extent, steps, expect) in rows() {
        check(&Case { extent, ..Case::new(script, &steps) }, expect);
    }
}

#[test]
fn a_short_body_at_hand_is_sent_at_once() {
    let case = Case::new(Script::new(Lies::AtHand(400), 1000), &[]);
    each(&case, |kind, outcome| assert_eq!(outcome.record.idle, 0, "{kind:?}"));
    let case = Case::new(Script::new(Lies::AtHand(400), 1000), &[Takes(500), Rests(10)]);
    check(&case, End::Whole);
}

#[test]
fn the_kernel_sends_sealed_bytes_where_it_can() {
    each(&Case::new(Script::new(Lies::Sealed, LONG), &[Takes(70_000), Rests(50)]), |kind, outcome| {
        let expect = if kind == Kind::Plain { LONG as u64 } else { 0 };
        assert_eq!(outcome.record.sealed_bytes, expect, "{kind:?}");
    });
}

#[test]
fn a_body_that_breaks_off_never_ends_cleanly() {
    let cut = Script { cut: Some("origin-gone"), ..Script::new(Lies::Comes(3000, 1), 10_000) };
    let steps: [&[Step]; 3] = [&[], &[Takes(2000), Rests(500)], &[Rests(5000)]];
    for steps in steps {
        check(&Case::new(cut.clone(), steps).open(), End::Cut("origin-gone"));
        check(&Case::new(cut.clone(), steps).declaring(20_000), End::Cut("origin-gone"));
        let of = |bytes| Case::new(Script::new(Lies::Comes(3000, 1), bytes), steps).declaring(10_000);
        check(&of(9_999), End::Cut("body-too-short"));
        each(&of(12_001), |kind, outcome| {
            assert_eq!(outcome.sent.end, End::Cut("body-too-long"), "{kind:?}");
            // What came before leaves, and not a byte more.
            assert!((7_001..=10_000).contains(&outcome.sent.body_bytes), "{kind:?}");
        });
        let at_hand = Case::new(Script::new(Lies::AtHand(1000), 10_000), steps).declaring(10_001);
        check(&at_hand, End::Cut("generation-gone"));
    }
}

#[test]
fn a_client_that_leaves_ends_it() {
    for lies in lies() {
        check(&Case::new(Script::new(lies, LONG), &[Leaves]), End::ClientGone);
        check(&Case::new(Script::new(lies, LONG), &[Takes(5000), Rests(10), Leaves]), End::ClientGone);
    }
}

#[test]
fn a_client_that_takes_nothing_is_cut_after_a_while() {
    for lies in lies() {
        let case = Case::new(Script::new(lies, LONG), &[Takes(5000), Rests(STALL_MS + 1000)]);
        each(&case, |kind, outcome| {
            assert_eq!(outcome.sent.end, End::Cut("send-stall"), "{kind:?}");
            assert_eq!(outcome.sent.body_bytes, 5000, "{kind:?}");
            assert!((STALL_MS..STALL_MS + 100).contains(&outcome.took), "{kind:?}: {} ms", outcome.took);
        });
        let takes = [Takes(5000), Rests(STALL_MS - 1000), Takes(1), Rests(STALL_MS - 1000)];
        check(&Case::new(Script::new(lies, LONG), &takes), End::Whole);
    }
}

#[test]
fn a_client_that_holds_an_origin_takes_at_least_so_much() {
    let steps = |bytes| [Takes(bytes), Rests(10_000)].repeat(20);
    let slow = Script { holds_origin: true, ..Script::new(Lies::Comes(100_000, 0), LONG) };
    check(&Case::new(slow.clone(), &steps(2000)), End::Cut("read-rate"));
    check(&Case::new(slow.clone(), &steps(3100)), End::Whole);
    // Nothing at all is no rate.
    check(&Case::new(slow.clone(), &[Takes(5000), Rests(STALL_MS + 1000)]), End::Cut("send-stall"));
    check(&Case::new(Script { holds_origin: false, ..slow }, &steps(2000)), End::Whole);
}

#[test]
fn a_client_that_rests_holds_nothing() {
    let at = |lies, is_kept| {
        let script = Script { is_kept, ..Script::new(lies, LONG) };
        Case::new(script, &[Takes(150_000), Rests(50), Takes(1000), Rests(2500)])
    };
    for lies in lies().into_iter().filter(|lies| *lies != Lies::Comes(7777, 3)) {
        for (is_kept, more) in [(false, &[][..]), (true, &[1000, 2000])] {
            each(&at(lies, is_kept), |kind, outcome| {
                // A frame is one wait, which a look finds that something was taken in.
                let first = if kind == Kind::Chunks { 200 } else { 150 };
                // It is asked for more as long as it has some, and goes on where the client is.
                let expect: Vec<u64> = [0].iter().chain(more).map(|after| first + after).collect();
                let let_go: Vec<u64> = outcome.let_go().iter().map(|(at, _)| *at).collect();
                assert_eq!((outcome.sent.end, let_go), (End::Whole, expect), "{kind:?} {lies:?}");
            });
        }
    }
}

#[test]
fn what_the_client_has_not_taken_goes_back_and_comes_again() {
    let script = Script { is_kept: true, ..Script::new(Lies::Comes(LONG, 0), LONG) };
    let case = Case::new(script, &[Takes(100_000), Rests(500)]);
    each(&case, |kind, outcome| {
        let back = outcome.let_go()[0].1;
        let expect = match kind {
            // A piece of 256 KiB was asked for.
            Kind::Socket | Kind::Plain => (256 << 10) - 100_000,
            // What is in a frame cannot go back, and nothing was asked for without room.
            Kind::Chunks | Kind::Window => 0,
        };
        assert_eq!((outcome.sent.end, back), (End::Whole, expect), "{kind:?}");
    });
}

#[test]
fn an_end_of_unknown_length_needs_no_room() {
    let case = Case::new(Script::new(Lies::Comes(1000, 0), 0), &[Rests(30_000)]).open();
    each(&case, |kind, outcome| {
        assert_eq!((outcome.sent.end, outcome.took), (End::Whole, 0), "{kind:?}");
        assert_eq!(outcome.record.asked_bytes_max, Scripted::EARLY_BYTES_MAX as usize, "{kind:?}");
    });
}

#[test]
fn what_is_printed_does_not_wait_for_the_body() {
    let case = Case::new(Script::new(Lies::Comes(1000, 500), 3000), &[]);
    each(&case, |kind, outcome| {
        assert!(outcome.record.idle >= 3, "{kind:?}: {}", outcome.record.idle);
        // A body may ask an origin: it is not asked again while it does.
        assert_eq!(outcome.record.asked, 4, "{kind:?}");
    });
}

#[test]
fn a_pace_is_kept_and_its_pieces_are_short() {
    for lies in lies() {
        let case = Case { rate: Some(100_000), ..Case::new(Script::new(lies, LONG), &[]) };
        each(&case, |kind, outcome| {
            assert_eq!(outcome.sent.end, End::Whole, "{kind:?}");
            assert!((9_000..10_000).contains(&outcome.took), "{kind:?} {lies:?}: {} ms", outcome.took);
            assert!(outcome.record.asked_bytes_max <= PACED_BYTES_MAX as usize, "{kind:?}");
            // It may take nothing for almost a second each time.
            assert!(outcome.let_go().len() >= 9, "{kind:?} {lies:?}");
        });
    }
}

#[test]
fn content_goes_up_while_the_client_takes_nothing_and_while_nothing_comes() {
    let bodies = [(Lies::AtHand(1000), 5500), (Lies::Comes(LONG, 0), 5500), (Lies::Comes(LONG, 5500), 0)];
    for (lies, rests) in bodies {
        let case = Case::new(Script::new(lies, 100_000), &[Takes(10), Rests(rests)]);
        each(&Case { uploads: true, ..case }, |kind, outcome| {
            assert_eq!(outcome.sent.end, End::Whole, "{kind:?} {lies:?}");
            assert!(outcome.record.uploaded.len() >= 5, "{kind:?} {lies:?}");
        });
    }
}

#[test]
fn no_content_is_asked_for_where_there_is_none() {
    let case = Case { extent: Extent::Nothing(Some(5)), ..Case::new(Script::new(Lies::Comes(5, 0), 5), &[]) };
    each(&case, |kind, outcome| assert_eq!(outcome.record.asked_bytes_max, 0, "{kind:?}"));
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..100_000).prop_map(Takes),
        4 => (1u64..2000).prop_map(Rests),
        1 => Just(Rests(STALL_MS + 1)),
        1 => Just(Leaves),
    ]
}

fn any_lies() -> impl Strategy<Value = Lies> {
    prop_oneof![
        (1usize..70_000).prop_map(Lies::AtHand),
        Just(Lies::Sealed),
        (1000usize..300_000, 0u64..20).prop_map(|(bytes, wait)| Lies::Comes(bytes, wait)),
    ]
}

fn any_case() -> impl Strategy<Value = Case> {
    let script = (any_lies(), 0usize..400_000, any::<[bool; 4]>());
    let around = (proptest::collection::vec(any_step(), 0..12), proptest::option::of(20_000u64..200_000));
    (script, around, -2000i64..2000).prop_map(|((lies, bytes, is), (steps, rate), longer)| {
        let [is_cut, holds_origin, is_kept, uploads] = is;
        let is_open = matches!(lies, Lies::Comes(..)) && longer % 2 == 0;
        let script = Script { lies, bytes, cut: is_cut.then_some("cut"), holds_origin, is_kept };
        let length = match longer {
            1000.. | ..-1000 => (bytes as i64 + longer).max(0) as u64,
            _ => bytes as u64,
        };
        let extent = if is_open { Extent::Open } else { Extent::Length(length) };
        Case { script, extent, steps, rate, uploads }
    })
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { script, extent, steps, rate, uploads } = self;
        write!(f, "{script:?} {extent:?} {steps:?} rate {rate:?} uploads {uploads}")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn the_bytes_that_come_are_those_of_the_body_or_of_its_beginning(case in any_case()) {
        for kind in KINDS {
            let outcome = case.run(kind);
            let (got, sent) = (&outcome.record.got, outcome.sent);
            prop_assert!(*got == pattern(0, got.len()), "other bytes");
            prop_assert_eq!((outcome.record.closed, sent.body_bytes), (Some(sent.end), got.len() as u64));
            let given = case.script.bytes as u64;
            let whole = match case.extent {
                Extent::Length(length) => length,
                _ => given,
            };
            match sent.end {
                End::Whole => {
                    prop_assert_eq!(sent.body_bytes, whole);
                    prop_assert!(case.extent != Extent::Open || case.script.cut.is_none());
                }
                End::Cut("send-stall") => prop_assert!(case.steps.contains(&Rests(STALL_MS + 1))),
                End::Cut("read-rate") => prop_assert!(case.script.holds_origin),
                End::Cut("body-too-long") => prop_assert!(given > whole),
                End::Cut("body-too-short" | "generation-gone") => prop_assert!(given < whole),
                End::Cut("cut") => prop_assert!(case.script.cut.is_some()),
                End::ClientGone => prop_assert!(case.steps.contains(&Leaves)),
                other => prop_assert!(false, "{:?}", other),
            }
            if case.extent == Extent::Open {
                prop_assert_eq!(outcome.record.is_ended, sent.end == End::Whole);
            } else {
                prop_assert!(sent.body_bytes <= whole);
            }
        }
    }
}
