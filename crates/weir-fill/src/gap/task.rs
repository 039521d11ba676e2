//! The task that loads a gap: it asks the origin for it in the version that is held, and writes the bytes
//! where readers find them. It runs on its first reader's core and belongs to no request. It must not be
//! awaited but through [`GapGuard`](super::GapGuard).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use weir_policy::Interval;
use weir_store::{Generation, Writer};

use super::list::{Begun, Joined, Order};
use super::{Gap, GapGuard};
use crate::events;
use crate::machine::{End, Event};
use crate::refetch::{FetchBy, Part, PartError, Refetch, skip};
use crate::resources::Resources;
use crate::settings::Settings;
use crate::task::idle_timeout;
use crate::transfer::NoMemory;
use crate::turn::Turn;
use weir_clock as clock;

/// How long a transfer waits for memory for one piece before it fails.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(2);
/// The same where the body leaves memory for a volume.
const SINKING_WAIT_MAX: Duration = Duration::from_secs(30);

/// What the transfer of a gap has to know.
#[derive(Clone)]
pub struct GapRequest {
    /// What all fills of the core use.
    pub resources: Arc<Resources>,
    /// What the route says of fills.
    pub settings: Arc<dyn Settings>,
    /// How the origin is asked.
    pub refetch: Arc<Refetch>,
    /// How a part is asked for.
    pub by: FetchBy,
}

/// Ends a transfer whose task ends early, by a panic or because the runtime stops.
struct Closing<'t> {
    request: &'t GapRequest,
    gap: Arc<Gap>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.request.resources.counters().panicked();
        }
        self.request.end(&self.gap, Err("fill-aborted"));
    }
}

async fn run(request: GapRequest, gap: Arc<Gap>, begun: Option<Begun>) {
    let closing = Closing { request: &request, gap: gap.clone() };
    let end = match begun {
        Some(begun) => request.go_on(&gap, begun.writer, begun.part).await,
        None => request.fetch(&gap).await,
    };
    if let Err(word) = end {
        request.resources.counters().error(word);
    }
    request.end(&gap, end);
    drop(closing);
}

impl GapRequest {
    /// Joins the transfer that will soon reach `at`, as [`Gaps::join`](super::list::Gaps::join). Called
    /// from within the runtime of its core.
    pub fn join(&self, generation: &Arc<Generation>, at: u64, interval: Interval) -> Option<GapGuard> {
        Some(self.run(self.resources.inflight.gaps.join(self.order(), generation, at, interval)?))
    }

    /// Joins a new transfer for what is not being loaded yet of an interval that a reader will reach later.
    /// Called as [`GapRequest::join`].
    pub fn join_ahead(&self, generation: &Arc<Generation>, interval: Interval) -> Option<GapGuard> {
        Some(self.run(self.resources.inflight.gaps.join_ahead(self.order(), generation, interval)?))
    }

    /// Goes on with a transfer whose head has come. Called as [`GapRequest::join`].
    pub fn start_with(&self, begun: Begun) {
        let gap = self.resources.inflight.gaps.go_on(self.order(), &begun);
        tokio::spawn(Box::pin(run(self.clone(), gap, Some(begun))));
    }

    fn order(&self) -> Order {
        let chunk_bytes = self.settings.range().chunk_bytes;
        Order { core: self.resources.core, chunk_bytes, by: self.by }
    }

    fn run(&self, joined: Joined) -> GapGuard {
        if let Some(gap) = joined.begun {
            self.refetch.expect(|| gap.transfer.asks());
            tokio::spawn(Box::pin(run(self.clone(), gap, None)));
        }
        joined.guard
    }

    /// Ends the transfer, once.
    fn end(&self, gap: &Arc<Gap>, end: Result<End, &'static str>) {
        if gap.transfer.ended().is_some() {
            return;
        }
        let event = end.map_or(Event::Failed, Event::Over);
        if let Err(word) = end {
            gap.transfer.fail_with(word);
        }
        gap.transfer.apply(event);
        let has_come = gap.transfer.reached() > gap.transfer.start();
        gap.transfer.end_asks(has_come.then_some(&*gap.generation));
        self.resources.inflight.gaps.done(gap);
        self.wake(gap);
    }

    fn wake(&self, gap: &Gap) {
        gap.transfer.wake(self.resources.core);
    }

    async fn fetch(&self, gap: &Arc<Gap>) -> Result<End, &'static str> {
        let anonymous_fields = || self.refetch.without_client(&gap.generation, &*self.settings);
        let part = match gap.by {
            FetchBy::Range => match self.ask(gap, &self.refetch).await {
                // What one client's fields may have caused says nothing for others.
                Err(no_part) if no_part.may_be_of_request() => self.ask(gap, &anonymous_fields()).await,
                part => part,
            },
            FetchBy::Whole => self.ask(gap, &anonymous_fields()).await,
        };
        let mut part = match part {
            Ok(part) => part,
            Err(PartError::Changed | PartError::Unlike) => return Ok(End::Changed),
            Err(PartError::Unable) => return Ok(End::Unable),
            Err(PartError::Refused) => return Err("origin-status"),
            Err(PartError::Failed(word)) => return Err(word),
        };
        let start = gap.transfer.start();
        if part.end > gap.transfer.end() {
            part.end = self.resources.inflight.gaps.extend(gap, part.end);
        }
        let interval = Interval::new(start, part.end);
        let Some(writer) = self.resources.store.resume(&gap.generation, interval) else {
            return if gap.generation.is_whole() { Ok(End::Fetched) } else { Err("generation-gone") };
        };
        self.resources.inflight.stop_fill(self.resources.core, &gap.generation, start);
        gap.transfer.speed.head(clock::mono());
        gap.transfer.apply(Event::Storable(None));
        self.wake(gap);
        self.go_on(gap, writer, part).await
    }

    /// Asks the origin, for as long as the transfer has readers.
    async fn ask(&self, gap: &Gap, refetch: &Refetch) -> Result<Part, PartError> {
        self.resources.counters().origin_asked();
        let want = Interval::new(gap.transfer.start(), gap.transfer.end());
        let asks = || gap.transfer.asks();
        let mut part = pin!(refetch.part(&gap.generation, want, gap.by, asks));
        loop {
            tokio::select! {
                biased;
                part = &mut part => return part,
                () = idle_timeout(&gap.transfer.turn) => {}
            }
            if self.resources.inflight.gaps.cancel_if_unread(gap) {
                return Err(PartError::Failed("deserted"));
            }
        }
    }

    async fn go_on(&self, gap: &Gap, mut writer: Writer, part: Part) -> Result<End, &'static str> {
        let end = self.copy(gap, &mut writer, part).await;
        let length = gap.generation.length();
        // A body that leaves memory as it arrives is not whole there.
        let is_sunk =
            gap.transfer.start() == 0 && Some(writer.position()) == length && writer.is_on_disk_only();
        writer.rest();
        if (is_sunk || gap.generation.is_whole()) && !gap.generation.is_retired() {
            events::report_stored(self.resources.events(), &gap.generation);
        }
        end
    }

    async fn copy(&self, gap: &Gap, writer: &mut Writer, part: Part) -> Result<End, &'static str> {
        let Part { mut body, mut skip_bytes, end } = part;
        let mut turn = Turn::default();
        while writer.position() < end.min(gap.stop()) {
            // A body that leaves memory as it arrives is read from the volume by slow readers.
            let is_ahead = gap.is_ahead(writer) && !writer.is_on_disk_only();
            if !is_ahead && skip_bytes == 0 {
                body.place(writer.to_block_end(), || writer.room());
            }
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
            self.resources.counters().origin_bytes(bytes.len() as u64);
            let received = bytes.len();
            skip(&mut bytes, &mut skip_bytes);
            // Meanwhile another may have begun to load what comes next, or the last reader may have left.
            let left = end.min(gap.stop()).saturating_sub(writer.position());
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            // Bytes that are cut off here are lost for a reader that joins now.
            let is_last = bytes.len() >= left;
            bytes.truncate(left);
            // A body that leaves memory for the volume does so at the drive's speed.
            let wait_max = if writer.is_on_disk_only() { SINKING_WAIT_MAX } else { MEMORY_WAIT_MAX };
            let pushed = gap.transfer.push(self.resources.core, writer, bytes, wait_max, |_| {}).await;
            pushed.map_err(|NoMemory| "memory")?;
            if is_last {
                break;
            }
            turn.received(received).await;
        }
        Ok(End::Fetched)
    }
}
