//! A trial of stages: a body of given pieces goes through them, and what comes out is compared with what
//! must. On the way polls are pending, futures are dropped, the reader lets go, and the body may be cut.

use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use super::stages::Kind;
use crate::{AnyBody, Body, Cut, Out, Rest, Stage, Staged, kept};

/// About as many bytes come out of the stages of a trial at most.
const OUT_BYTES_MAX: usize = 256 << 10;
/// So many bytes of the body go into one stage in one poll at most.
const POLL_BYTES_MAX: usize = 128 << 10;
/// What the body is cut with.
pub const CUT: Cut = Cut { word: "cut-by-the-trial" };

/// What a trial is given.
#[derive(Clone, Debug)]
pub struct Given {
    /// The body's pieces. None: it is pending once.
    pub pieces: Vec<Option<Bytes>>,
    /// How it ends.
    pub ends: Ends,
    /// What it does when it is to let go.
    pub takes_back: LetGo,
    /// What the reader does, again and again.
    pub acts: Vec<Act>,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Cleanly.
    Whole,
    /// By [`CUT`].
    Cut,
}

/// Whether a body takes back what was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// It does.
    TakesBack,
    /// It returns it.
    TakesNothing,
}

/// What a reader does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Asks for at most so many bytes, and waits for them.
    Next {
        /// As many.
        bytes_max: usize,
    },
    /// Asks for them, and gives up unless they are there at once.
    PollOnce {
        /// As many.
        bytes_max: usize,
    },
    /// Lets go, with so many bytes of the last piece unsent.
    LetGo {
        /// As many.
        unsent: usize,
    },
}

/// What is known of the body beneath the stages.
#[derive(Debug, Default)]
struct Seen {
    given_bytes: Cell<usize>,
    ended: Cell<Option<Ends>>,
}

impl Seen {
    /// Whether a connection to an origin waits, which changes on the way.
    fn holds_origin(&self) -> bool {
        self.given_bytes.get().is_multiple_of(3)
    }

    fn may_let_go(&self) -> bool {
        self.given_bytes.get().is_multiple_of(2)
    }
}

/// The body beneath the stages.
struct Scripted {
    pieces: VecDeque<Option<Bytes>>,
    ends: Ends,
    takes_back: LetGo,
    given: Vec<u8>,
    seen: Rc<Seen>,
}

impl Body for Scripted {
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        assert!(bytes_max > 0 && self.seen.ended.get().is_none(), "asked again behind the end");
        std::future::poll_fn(|cx| match self.pieces.front() {
            Some(None) => {
                self.pieces.pop_front();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
        .await;
        let Some(Some(mut piece)) = self.pieces.pop_front() else {
            self.seen.ended.set(Some(self.ends));
            return if self.ends == Ends::Cut { Err(CUT) } else { Ok(None) };
        };
        let rest = piece.split_off(piece.len().min(bytes_max));
        if !rest.is_empty() {
            self.pieces.push_front(Some(rest));
        }
        self.given.extend_from_slice(&piece);
        self.seen.given_bytes.set(self.given.len());
        Ok(Some(piece))
    }

    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        assert!(self.given.ends_with(&unsent), "not the last bytes that it gave");
        if self.takes_back == LetGo::TakesNothing || unsent.is_empty() {
            return kept(unsent);
        }
        self.given.truncate(self.given.len() - unsent.len());
        self.seen.given_bytes.set(self.given.len());
        self.pieces.push_front(Some(unsent));
        None
    }

    fn may_let_go(&self) -> bool {
        self.seen.may_let_go()
    }

    fn holds_origin(&self) -> bool {
        self.seen.holds_origin()
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        (self.seen.ended.get() == Some(Ends::Whole)).then(trailers)
    }
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("\"whole\""))])
}

/// A stage that must keep its promises, and whose runner must keep its own.
struct Watched {
    stage: Box<dyn Stage>,
    seen: Rc<Seen>,
    is_ending: bool,
}

impl Stage for Watched {
    fn take(&mut self, bytes: &mut Bytes, out: &mut Out) -> Result<(), Cut> {
        assert!(!bytes.is_empty() && !self.is_ending);
        self.stage.take(bytes, out)
    }

    fn end(&mut self, out: &mut Out) -> Result<Rest, Cut> {
        assert_eq!(self.seen.ended.get(), Some(Ends::Whole), "an end behind a cut");
        self.is_ending = true;
        self.stage.end(out)
    }

    fn held_bytes(&self) -> usize {
        let held = self.stage.held_bytes();
        assert!(held <= self.held_bytes_max(), "the stage holds more than it says");
        held
    }

    fn held_bytes_max(&self) -> usize {
        self.stage.held_bytes_max()
    }
}

/// Puts a body through one stage or two.
///
/// # Panics
/// Something else came out than must, or a promise was broken on the way.
pub fn trial(kinds: &[Kind], given: Given) {
    let stages = kinds.iter().map(|kind| kind.stage()).collect();
    let most = kinds.iter().fold(OUT_BYTES_MAX, |most, kind| match kind {
        Kind::Swells => most / 100,
        Kind::Crumbles => most / 16,
        Kind::Doubles => most / 2,
        Kind::Unchanged | Kind::Swallows | Kind::HoldsBack | Kind::Refuses => most,
    });
    let expect = |body: &[u8], mut end: Result<(), Cut>| {
        let mut bytes = body.to_vec();
        for kind in kinds {
            let (out, own) = kind.expect(&bytes);
            // What is held back to the end does not come where there is none.
            let never_comes = end.is_err() && *kind == Kind::HoldsBack;
            (bytes, end) = (if never_comes { Vec::new() } else { out }, end.and(own));
        }
        (bytes, end)
    };
    trial_of(stages, given, most, expect);
}

/// Puts at most `body_bytes_max` of a body through one stage or two. `expect` says what must come of a body,
/// and how that ends, from the body and how it ends.
///
/// # Panics
/// As [`trial`].
pub fn trial_of(
    stages: Vec<Box<dyn Stage>>,
    given: Given,
    body_bytes_max: usize,
    expect: impl FnOnce(&[u8], Result<(), Cut>) -> (Vec<u8>, Result<(), Cut>),
) {
    let mut left = body_bytes_max;
    let cut_off = |piece: Option<Bytes>| {
        let piece = piece.map(|piece| piece.slice(..piece.len().min(left)));
        left -= piece.as_ref().map_or(0, Bytes::len);
        piece
    };
    let pieces: VecDeque<_> = given.pieces.into_iter().map(cut_off).collect();
    let pieces: VecDeque<_> =
        pieces.into_iter().filter(|piece| piece.as_ref().is_none_or(|piece| !piece.is_empty())).collect();
    let all = pieces.iter().flatten().map(|piece| &piece[..]).collect::<Vec<_>>().concat();
    let end = if given.ends == Ends::Cut { Err(CUT) } else { Ok(()) };
    let (bytes, end) = expect(&all, end);
    let seen = Rc::<Seen>::default();
    let (ends, takes_back) = (given.ends, given.takes_back);
    let scripted = Scripted { pieces, ends, takes_back, given: Vec::new(), seen: seen.clone() };
    let watched = |stage| Watched { stage, seen: seen.clone(), is_ending: false };
    let mut stages = stages.into_iter().map(watched);
    let inner = Staged::new(scripted, stages.next().expect("a stage"));
    let (out, ended) = match stages.next() {
        None => read(inner, &given.acts, &seen),
        Some(outer) => read(Staged::new(inner, outer), &given.acts, &seen),
    };
    assert_eq!(ended.is_err(), end.is_err(), "{ended:?} in place of {end:?}");
    match end {
        Ok(()) => assert!(out == bytes, "{} bytes in place of {}", out.len(), bytes.len()),
        Err(_) => assert!(bytes.starts_with(&out), "other bytes before a cut"),
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads a body as the acts say, and how it ends.
fn read<B: Body>(mut body: Staged<B, Watched>, acts: &[Act], seen: &Rc<Seen>) -> (Vec<u8>, Result<(), Cut>) {
    let (mut out, mut last) = (Vec::new(), Bytes::new());
    let to_the_end = [Act::Next { bytes_max: 5000 }];
    for act in acts.iter().chain(&to_the_end).cycle().copied() {
        assert!(body.held_bytes() <= body.held_bytes_max(), "more is held than is charged");
        assert_eq!((body.holds_origin(), body.may_let_go()), (seen.holds_origin(), seen.may_let_go()));
        let came = match act {
            Act::LetGo { unsent } => {
                let unsent = last.slice(last.len() - last.len().min(unsent)..);
                assert_eq!(body.let_go(unsent.clone()).unwrap_or_default(), unsent, "lost what it gave");
                continue;
            }
            Act::Next { bytes_max } => poll(&mut body, bytes_max, usize::MAX, seen),
            Act::PollOnce { bytes_max } => poll(&mut body, bytes_max, 1, seen),
        };
        let (Act::Next { bytes_max } | Act::PollOnce { bytes_max }) = act else { continue };
        match came {
            None => {}
            Some(Ok(Some(piece))) => {
                assert!((1..=bytes_max).contains(&piece.len()), "{} of {bytes_max} bytes", piece.len());
                out.extend_from_slice(&piece);
                last = piece;
            }
            Some(Ok(None)) => {
                assert_eq!(poll(&mut body, 1, 1, seen), Some(Ok(None)), "an end is no end");
                assert_eq!(body.trailers(), Some(trailers()));
                return (out, Ok(()));
            }
            Some(Err(cut)) => {
                assert_eq!(poll(&mut body, 1, 1, seen), Some(Err(cut)), "a cut is no end");
                return (out, Err(cut));
            }
        }
    }
    unreachable!("acts go on for ever")
}

/// Polls the next bytes so many times, unless they come before.
fn poll<B: Body>(
    body: &mut Staged<B, Watched>,
    bytes_max: usize,
    times: usize,
    seen: &Seen,
) -> Option<Result<Option<Bytes>, Cut>> {
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    // Both ways to ask, by turns.
    let mut next = match bytes_max % 2 {
        0 => body.next_boxed(bytes_max),
        _ => Box::pin(body.next(bytes_max)),
    };
    let mut next = pin!(next.as_mut());
    for _ in 0..times {
        let before = seen.given_bytes.get();
        let polled = next.as_mut().poll(&mut cx);
        assert!(seen.given_bytes.get() <= before + POLL_BYTES_MAX, "others do not run");
        match polled {
            Poll::Ready(came) => return Some(came),
            Poll::Pending => assert!(woken.0.swap(false, Ordering::Relaxed), "nobody wakes it"),
        }
    }
    None
}
