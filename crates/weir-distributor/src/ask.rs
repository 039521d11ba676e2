//! Asking distributors: one try and, by default, two more, each at the next distributor.
//!
//! Each worker has sockets of its own, which its questions share ([`lane`]). Nothing here blocks. What is not
//! answered in time, or not by who was asked, is counted and dropped.

mod ids;
mod lane;
mod open;
mod plain;
mod settings;
mod stream;
mod udp;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::watch;

use crate::clock;
use crate::counts::{Count, Counts};
use crate::format::{Answer, DATAGRAM_MAX, FRAME_MAX, Head, Marks, Printed, Question};
use crate::hints::{self, Hints};
use crate::silence::Silence;
use lane::{Lane, Sent};
pub use settings::{DISTRIBUTORS_MAX, Form, Settings};

/// A request that distributors are asked about.
#[derive(Clone, Copy, Debug)]
pub struct AskedFor<'r> {
    /// The client; `None` for a fill.
    pub client: Option<SocketAddr>,
    /// [`Marks::FILL`], [`Marks::HTTPS`].
    pub marks: Marks,
    /// The head of the request.
    pub head: Head<'r>,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was answered.
    Answer(Answer),
    /// It was not.
    Silence,
}

/// Whether an answer may name this address.
pub type Fits<'r> = &'r (dyn Fn(SocketAddr) -> bool + Sync);

/// Asks the distributors of one pick.
#[derive(Debug)]
pub struct Asker {
    settings: Arc<Settings>,
    silences: Arc<[Silence]>,
    hints: Hints,
    counts: Arc<Counts>,
    number: u64,
    lanes: Mutex<Vec<Arc<Lane>>>,
    plain: plain::Pool,
    /// Dropped with it: the tasks of its lanes end.
    closing: watch::Sender<()>,
}

thread_local! {
    /// The lanes of this thread, each by the number of its asker.
    static LANES: RefCell<Vec<(u64, Weak<Lane>)>> = const { RefCell::new(Vec::new()) };
}

static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Asker {
    /// Asks as the settings say. Nothing is opened before the first question.
    pub fn new(settings: Settings) -> Asker {
        assert!(settings.distributors.len() <= DISTRIBUTORS_MAX, "more distributors than bits");
        let now = clock::now();
        Asker {
            silences: settings.distributors.iter().map(|_| Silence::new(now)).collect(),
            hints: Hints::default(),
            settings: Arc::new(settings),
            counts: Arc::default(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            lanes: Mutex::default(),
            plain: plain::Pool::default(),
            closing: watch::Sender::new(()),
        }
    }

    /// How it asks.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What became of its questions.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many questions are open now.
    pub fn open(&self) -> usize {
        self.lanes.lock().iter().map(|lane| lane.open()).sum::<usize>() + self.plain.open()
    }

    /// Whether a distributor has not answered for some time.
    pub fn is_silent(&self, distributor: usize) -> bool {
        self.silences.get(distributor).is_some_and(Silence::is_silent)
    }

    /// A distributor has answered.
    fn answered(&self, by: usize) {
        if self.silences[by].answered(clock::now()) {
            let Settings { pick, distributors, .. } = &*self.settings;
            tracing::info!(%pick, distributor = %distributors[by], "the distributor answers again");
        }
    }

    /// A distributor has not answered what it was asked at `asked`.
    fn silent(&self, at: usize, client: Option<IpAddr>, asked: Instant) {
        if let Some(silences) = self.silences[at].silent(client, asked, clock::now()) {
            let Settings { pick, distributors, .. } = &*self.settings;
            tracing::warn!(
                %pick, distributor = %distributors[at], silences,
                "the distributor is silent: does it run, does it have the same key, and may this machine ask?"
            );
        }
    }

    /// Counts a question that has ended, and says what to look at where all come to nothing.
    fn ended(&self, as_: Count) {
        self.counts.add(as_);
        if let Some((cause, times)) = self.hints.ended(as_, &self.counts, clock::now()) {
            let (pick, policy, cause_word) = (&self.settings.pick, &self.settings.policy, cause.word());
            let advice = hints::advice(cause);
            tracing::warn!(%pick, %policy, cause = cause_word, times, "no answer is of use: {advice}");
        }
    }

    /// Asks the distributors about a request. Waits at most [`Settings::timeout`] for each of
    /// [`Settings::tries`]. An answer that does not fit ends its try.
    ///
    /// # Cancel safety
    /// Dropped, it gives the question up.
    pub async fn ask(&self, asked: &AskedFor<'_>, fits: Fits<'_>) -> Heard {
        self.counts.add(Count::Questions);
        let client = asked.client.map(|client| client.ip());
        let now = clock::now();
        let all = self.silences.iter().enumerate();
        let ready: Ready = all.filter(|(_, one)| !one.skips(client, now)).map(|(at, _)| at).collect();
        if ready.is_empty() {
            self.counts.add(Count::Skipped);
            return Heard::Silence;
        }
        let heard = match self.settings.form {
            Form::Full => self.ask_full(asked, ready, fits).await,
            Form::Plain => self.plain.ask(self, asked, &ready, fits).await,
        };
        self.ended(match heard {
            Heard::Silence => Count::Unanswered,
            Heard::Answer(Answer::Nothing) => Count::Nothing,
            Heard::Answer(Answer::Address(_)) => Count::Addresses,
            Heard::Answer(Answer::Denial { .. }) => Count::Denials,
        });
        heard
    }

    async fn ask_full(&self, asked: &AskedFor<'_>, mut ready: Ready, fits: Fits<'_>) -> Heard {
        let Some(lane) = self.lane() else {
            self.counts.add(Count::Unsent);
            return Heard::Silence;
        };
        let id = lane.id();
        let mut text = Text::new(self, asked, id);
        let place = |at: usize| &self.settings.distributors[at];
        if ready.iter().any(|at| place(*at).is_stream())
            && ready.iter().any(|at| !place(*at).is_stream())
            && text.is_too_long_for_datagrams()
        {
            ready.retain(|at| place(*at).is_stream());
        }
        let question = lane.begin(id);
        for number in 0..usize::from(self.settings.tries) {
            let at = ready[number % ready.len()];
            let now = clock::now();
            let bytes = if place(at).is_stream() { text.frame() } else { text.datagram() };
            match question.send(at, bytes, now + self.settings.timeout) {
                Sent::Out => self.counts.add(Count::Sent),
                Sent::Not => {
                    self.counts.add(Count::Unsent);
                    self.silent(at, asked.client.map(|client| client.ip()), now);
                    continue;
                }
                Sent::Full => {
                    self.counts.add(Count::Full);
                    return Heard::Silence;
                }
            }
            match question.heard().await {
                Some((answer, by)) => {
                    self.answered(by);
                    if self.is_of_use(&answer, fits) {
                        return Heard::Answer(answer);
                    }
                }
                None => self.silent(at, asked.client.map(|client| client.ip()), now),
            }
        }
        Heard::Silence
    }

    fn is_of_use(&self, answer: &Answer, fits: Fits<'_>) -> bool {
        let is_of_use = !matches!(answer, Answer::Address(address) if !fits(*address));
        if !is_of_use {
            self.counts.add(Count::NotAllowed);
        }
        is_of_use
    }

    /// The lane of this thread; made for its first question. `None` where no socket can be had.
    fn lane(&self) -> Option<Arc<Lane>> {
        LANES.with_borrow_mut(|lanes| {
            let known = lanes.iter().find(|(number, _)| *number == self.number);
            let known = known.and_then(|(_, lane)| lane.upgrade()).filter(|lane| lane.is_tended());
            if known.is_some() {
                return known;
            }
            let lane = match Lane::open_here(&self.settings, &self.counts, &self.closing) {
                Ok(lane) => lane,
                Err(error) => {
                    tracing::debug!("no socket to ask a distributor: {error}");
                    return None;
                }
            };
            lanes.retain(|(number, lane)| *number != self.number && lane.strong_count() > 0);
            lanes.push((self.number, Arc::downgrade(&lane)));
            let mut all = self.lanes.lock();
            all.retain(|lane| lane.is_tended());
            all.push(lane.clone());
            Some(lane)
        })
    }
}

type Ready = SmallVec<[usize; DISTRIBUTORS_MAX]>;

/// The bytes of a question, printed when they are needed.
struct Text<'a> {
    asker: &'a Asker,
    asked: &'a AskedFor<'a>,
    id: u64,
    datagram: Option<(Vec<u8>, Printed)>,
    frame: Option<Vec<u8>>,
}

impl<'a> Text<'a> {
    fn new(asker: &'a Asker, asked: &'a AskedFor<'a>, id: u64) -> Text<'a> {
        Text { asker, asked, id, datagram: None, frame: None }
    }

    fn is_too_long_for_datagrams(&mut self) -> bool {
        self.datagram();
        self.datagram.as_ref().is_some_and(|(_, printed)| *printed != Printed::Whole)
    }

    fn datagram(&mut self) -> &[u8] {
        let (asker, asked, id) = (self.asker, self.asked, self.id);
        &self
            .datagram
            .get_or_insert_with(|| {
                let mut out = Vec::with_capacity(DATAGRAM_MAX);
                let printed = print(asker, asked, id, (DATAGRAM_MAX, &mut out));
                (out, printed)
            })
            .0
    }

    /// With its length in front.
    fn frame(&mut self) -> &[u8] {
        let (asker, asked, id) = (self.asker, self.asked, self.id);
        self.frame.get_or_insert_with(|| {
            let mut out = vec![0; 2];
            print(asker, asked, id, (FRAME_MAX, &mut out));
            let length = (out.len() - 2) as u16;
            out[..2].copy_from_slice(&length.to_be_bytes());
            out
        })
    }
}

fn print(asker: &Asker, asked: &AskedFor<'_>, id: u64, (bytes_max, out): (usize, &mut Vec<u8>)) -> Printed {
    let Settings { policy, keys, send, .. } = &*asker.settings;
    let head_max = bytes_max - Question::bytes_around(policy, keys);
    let mut head = Vec::with_capacity(1024);
    let printed = asked.head.print(send, head_max, &mut head);
    let marks = asked.marks.and_if(printed != Printed::Whole, Marks::REDUCED);
    let marks = marks.and_if(printed == Printed::Cut, Marks::CUT);
    Question { id, marks, policy, client: asked.client, head: &head }.write(keys, out);
    printed
}
