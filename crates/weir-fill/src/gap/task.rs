//! Bringing a gap: ask the origin for it in the version that is held, put the bytes where readers find them.
//! It runs on its first reader's core, but belongs to nobody. It must not be waited for anywhere else than
//! through [`GapSeat`](super::GapSeat).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use weir_policy::Interval;
use weir_store::{Generation, Writer};

use super::list::{Begun, Order, Seated};
use super::{Gap, GapSeat};
use crate::again::{Again, NoPart, Part, ReadOver};
use crate::machine::{End, Event};
use crate::means::Means;
use crate::settings::Settings;
use crate::task::forsaken;
use crate::watch;
use weir_clock as clock;

/// How long a transfer waits for readers to free memory before it tries again, and how long it waits in all
/// for one piece before it is given up.
const MEMORY_WAIT: Duration = Duration::from_millis(5);
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long where the body leaves memory for a volume.
const SINKING_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a transfer pauses where the volume alone can keep its body and is behind.
const VOLUME_PAUSE: Duration = Duration::from_millis(1);

/// What a transfer has to know.
#[derive(Clone)]
pub struct Errand {
    /// What every fill of the core uses.
    pub means: Arc<Means>,
    /// What the route says of fills.
    pub settings: Arc<dyn Settings>,
    /// How the origin is asked.
    pub again: Arc<Again>,
    /// How much of a whole is read over.
    pub over: ReadOver,
}

/// Ends what the task leaves unfinished, by a panic or by the runtime going down.
struct Closing<'t> {
    errand: &'t Errand,
    gap: Arc<Gap>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.errand.means.counters().panicked();
        }
        self.errand.end(&self.gap, Err("fill-aborted"));
    }
}

async fn run(errand: Errand, gap: Arc<Gap>, begun: Option<Begun>) {
    let closing = Closing { errand: &errand, gap: gap.clone() };
    let end = match begun {
        Some(begun) => errand.go_on(&gap, begun.writer, begun.part).await,
        None => errand.bring(&gap).await,
    };
    if let Err(word) = end {
        errand.means.counters().error(word);
    }
    errand.end(&gap, end);
    drop(closing);
}

impl Errand {
    /// A seat at the transfer that will soon come to `at`, as [`Gaps::seat`](super::list::Gaps::seat). Called
    /// from within the runtime of its core.
    pub fn seat(&self, generation: &Arc<Generation>, at: u64, interval: Interval) -> Option<GapSeat> {
        Some(self.run(self.means.desk.gaps.seat(self.order(), generation, at, interval)?))
    }

    /// A seat at a new transfer for what nobody brings yet of an interval that a reader will come to later.
    /// Called as [`Errand::seat`].
    pub fn seat_ahead(&self, generation: &Arc<Generation>, interval: Interval) -> Option<GapSeat> {
        Some(self.run(self.means.desk.gaps.seat_ahead(self.order(), generation, interval)?))
    }

    /// Goes on with a transfer whose head has come. Called as [`Errand::seat`].
    pub fn start_with(&self, begun: Begun) {
        let gap = self.means.desk.gaps.go_on(self.order(), &begun);
        tokio::spawn(Box::pin(run(self.clone(), gap, Some(begun))));
    }

    fn order(&self) -> Order {
        let chunk_bytes = self.settings.range().chunk_bytes;
        Order { core: self.means.core, chunk_bytes, over: self.over }
    }

    fn run(&self, seated: Seated) -> GapSeat {
        if let Some(gap) = seated.begun {
            tokio::spawn(Box::pin(run(self.clone(), gap, None)));
        }
        seated.seat
    }

    /// Says how it ended, once.
    fn end(&self, gap: &Arc<Gap>, end: Result<End, &'static str>) {
        if gap.transfer.ended().is_some() {
            return;
        }
        let event = end.map_or(Event::Failed, Event::Over);
        if let Err(word) = end {
            gap.transfer.fail_with(word);
        }
        gap.transfer.apply(event);
        self.means.desk.gaps.done(gap);
        self.wake(gap);
    }

    fn wake(&self, gap: &Gap) {
        gap.transfer.wake(self.means.core);
    }

    async fn bring(&self, gap: &Arc<Gap>) -> Result<End, &'static str> {
        let for_nobody = || self.again.without_client(&gap.generation, &*self.settings);
        let part = match gap.over {
            ReadOver::Little => match self.ask(gap, &self.again).await {
                // What one client's fields have brought about says nothing for all.
                Err(no_part) if no_part.may_be_of_request() => self.ask(gap, &for_nobody()).await,
                part => part,
            },
            ReadOver::All => self.ask(gap, &for_nobody()).await,
        };
        let mut part = match part {
            Ok(part) => part,
            Err(NoPart::Changed | NoPart::Unlike) => return Ok(End::Changed),
            Err(NoPart::Unable) => return Ok(End::Unable),
            Err(NoPart::Refused) => return Err("origin-status"),
            Err(NoPart::Failed(word)) => return Err(word),
        };
        let start = gap.transfer.start();
        if part.end > gap.transfer.end() {
            part.end = self.means.desk.gaps.extend(gap, part.end);
        }
        let interval = Interval::new(start, part.end);
        let Some(writer) = self.means.store.resume(&gap.generation, interval) else {
            return if gap.generation.is_whole() { Ok(End::Brought) } else { Err("generation-gone") };
        };
        self.means.desk.stop_fill(self.means.core, &gap.generation, start);
        gap.transfer.pace.head(clock::mono());
        gap.transfer.apply(Event::Storable(None));
        self.wake(gap);
        self.go_on(gap, writer, part).await
    }

    /// Asks the origin, for as long as somebody waits for the answer.
    async fn ask(&self, gap: &Gap, again: &Again) -> Result<Part, NoPart> {
        self.means.counters().origin_asked();
        let want = Interval::new(gap.transfer.start(), gap.transfer.end());
        let mut part = pin!(again.part(&gap.generation, want, gap.over));
        loop {
            tokio::select! {
                biased;
                part = &mut part => return part,
                () = forsaken(&gap.transfer.turn) => {}
            }
            if self.means.desk.gaps.forsake(gap) {
                return Err(NoPart::Failed("deserted"));
            }
        }
    }

    async fn go_on(&self, gap: &Gap, mut writer: Writer, part: Part) -> Result<End, &'static str> {
        let end = self.copy(gap, &mut writer, part).await;
        let length = gap.generation.length();
        // What leaves memory as it comes is not whole there.
        let is_sunk =
            gap.transfer.start() == 0 && Some(writer.position()) == length && writer.is_on_disk_only();
        writer.rest();
        if (is_sunk || gap.generation.is_whole()) && !gap.generation.is_retired() {
            watch::tell_stored(self.means.events(), &gap.generation);
        }
        end
    }

    async fn copy(&self, gap: &Gap, writer: &mut Writer, part: Part) -> Result<End, &'static str> {
        let Part { mut body, skip_bytes: mut skip, end } = part;
        while writer.position() < end.min(gap.stop()) {
            // What leaves memory as it comes is read from the volume by who is slow.
            let is_ahead = gap.is_ahead(writer) && !writer.is_on_disk_only();
            let piece = tokio::select! {
                biased;
                () = gap.transfer.turn.notified() => continue,
                piece = body.next(), if !is_ahead => piece,
            };
            let mut bytes = match piece {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Err("rest-too-short"),
                Err(error) => return Err(error.word()),
            };
            self.means.counters().origin_bytes(bytes.len() as u64);
            let over = skip.min(bytes.len() as u64);
            skip -= over;
            // Invariant: not more than there is.
            bytes.advance(usize::try_from(over).unwrap_or(bytes.len()));
            // Another may have begun meanwhile with what comes then, or the last reader have left.
            let left = end.min(gap.stop()).saturating_sub(writer.position());
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            // What is cut off is not got back for who comes now.
            let is_last = bytes.len() >= left;
            bytes.truncate(left);
            if !self.push(gap, writer, bytes).await {
                return Err("memory");
            }
            gap.transfer.come_to(writer.position());
            self.wake(gap);
            if is_last {
                break;
            }
        }
        Ok(End::Brought)
    }

    /// Gives bytes to the writer, and waits for memory for a bounded time.
    async fn push(&self, gap: &Gap, writer: &mut Writer, mut bytes: Bytes) -> bool {
        // What leaves memory for the volume does so at the drive's pace.
        let wait_max = if writer.is_on_disk_only() { SINKING_WAIT_MAX } else { MEMORY_WAIT_MAX };
        let longest = clock::mono() + wait_max;
        loop {
            writer.let_go(gap.transfer.front());
            match writer.push(bytes) {
                Ok(()) => {
                    while writer.should_pause() {
                        tokio::time::sleep(VOLUME_PAUSE).await;
                    }
                    return true;
                }
                Err(full) => bytes = full.rest,
            }
            gap.transfer.come_to(writer.position());
            self.wake(gap);
            if clock::mono() >= longest {
                return false;
            }
            tokio::select! {
                () = gap.transfer.turn.notified() => {}
                () = tokio::time::sleep(MEMORY_WAIT) => {}
            }
        }
    }
}
