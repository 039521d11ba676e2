//! Reading a generation: from memory, from the volume, from a running fill, from the transfers of its gaps,
//! or from an origin that is asked for the rest. [`choose`] says what a reader does where no byte is at hand,
//! [`refill`] has missing bytes loaded. A reader is woken by whatever writes the bytes it waits for. It must
//! never mix two versions of a body.

mod choose;
mod own;
pub mod refill;

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_body::{Body, Cut, kept};
use weir_policy::Interval;
use weir_store::{BLOCK_BYTES, Blocks, Generation, InUse, Place, Read, STALLED_MAX, Store, Writing};

use self::choose::{Act, Asking, Beyond, FillSeen, GapSeen, Here, InMemory, Nearby, OnVolume, Why, choose};
use self::own::Own;
use self::refill::Refill;
use super::machine::{End, State};
use super::refetch::{Refetch, strong};
use super::witness::Witness;
use super::{Fill, ReaderGuard, is_windowed};
use weir_clock as clock;

/// How long a reader waits for what is being written to the volume while nothing more of that is written,
/// where it could ask the origin for it, and its client has always taken what it got.
const WRITING_WAIT_MAX: Duration = Duration::from_secs(2);

/// Reads an interval of a generation that is held, is being filled, or whose missing parts can be loaded.
pub struct Reader {
    rest: Interval,
    place: Place,
    tried: Tried,
    /// Until when the reader waits for what is being written.
    patience: Option<Instant>,
    /// The running fill that it reads.
    filled: Option<Box<Filled>>,
    /// The rest, from an origin that it has asked by itself.
    own: Option<Box<Own>>,
    refill: Option<Box<Refill>>,
    /// The blocks of a body that has several, once it is whole.
    blocks: OnceLock<Blocks>,
    /// The generation that it has let go of, as long as memory keeps it.
    in_memory: Weak<Generation>,
    /// Its client has taken nothing for a while, and can wait as well.
    has_paused: bool,
    /// Last: when it is dropped nothing else of the reader holds the generation.
    generation: InUse,
}

/// The blocks from where `rest` begins, the offset in the first of them, and the length of `rest`. None where
/// there is no block there.
pub fn blocks_from(blocks: &[Bytes], rest: Interval) -> Option<(&[Bytes], usize, u64)> {
    let block = usize::try_from(rest.start / BLOCK_BYTES as u64).ok()?;
    let within = (rest.start % BLOCK_BYTES as u64) as usize;
    Some((blocks.get(block..)?, within, rest.end - rest.start))
}

/// What a reader knows of the volume at its offset.
enum Tried {
    /// It has not looked.
    Nothing,
    /// A read has found nothing. It holds the wait for more, made before that read, where more is being
    /// written.
    Read(Option<Writing>),
    /// Nothing was written there since.
    Looked,
}

/// A fill that a reader reads.
pub struct Filled {
    /// None once the reader asks for the rest by itself: the fill need not go on for this reader.
    guard: Option<ReaderGuard>,
    /// The version that is read, as the fill writes it.
    generation: Arc<Generation>,
    refetch: Arc<Refetch>,
    store: Store,
}

impl Filled {
    /// Reads this fill of this generation. `refetch` asks for the rest where the reader falls behind.
    pub fn new(
        guard: ReaderGuard,
        generation: Arc<Generation>,
        refetch: Arc<Refetch>,
        store: Store,
    ) -> Filled {
        Filled { guard: Some(guard), generation, refetch, store }
    }

    fn state(&self) -> Option<State> {
        self.guard.as_ref().map(|guard| guard.fill().machine().state())
    }

    fn has_ended(&self) -> bool {
        matches!(self.state(), None | Some(State::Ended(_)))
    }
}

/// What a reader of a fill finds at an offset. None where it has to wait.
pub(super) fn look(fill: &Fill, generation: &Generation, start: u64, bytes_max: usize) -> Option<Read> {
    // In this order, so that bytes are seen that came just before the end. Bytes of other transfers are not
    // waited for here.
    let has_ended = matches!(fill.machine().state(), State::Ended(_));
    match generation.read(start, bytes_max) {
        Read::NotYet => has_ended.then_some(Read::Gone),
        read => Some(read),
    }
}

impl Reader {
    /// Reads the bytes `of` a generation that is held, whole or in part.
    pub fn new(generation: Arc<Generation>, of: Interval, refill: Option<Box<Refill>>) -> Reader {
        Reader::of(generation, of, refill, None)
    }

    /// Reads the bytes `of` a generation from a running fill, and has the rest loaded where the fill stops
    /// before the end. `of.end` is `u64::MAX` where the length is not known.
    pub fn filling(filled: Filled, of: Interval, refill: Option<Box<Refill>>) -> Reader {
        Reader::of(filled.generation.clone(), of, refill, Some(Box::new(filled)))
    }

    fn of(
        generation: Arc<Generation>,
        rest: Interval,
        refill: Option<Box<Refill>>,
        filled: Option<Box<Filled>>,
    ) -> Reader {
        let mut reader = Reader {
            rest,
            place: Place::default(),
            tried: Tried::Nothing,
            patience: None,
            filled,
            own: None,
            refill,
            blocks: OnceLock::new(),
            in_memory: Weak::new(),
            has_paused: false,
            generation: InUse::new(generation),
        };
        reader.note();
        reader
    }

    /// Has the volume know of it, where it will need the volume.
    fn note(&mut self) {
        let Reader { filled, refill, generation, place, rest, .. } = self;
        let refetch = refill.as_deref().map(|refill| &refill.refetch);
        let refetch = refetch.or(filled.as_deref().map(|filled| &filled.refetch));
        let client = || refetch.map_or(Witness::Unnamed, |refetch| refetch.witness).number();
        let generation = filled.as_deref().map_or(&**generation, |filled| &filled.generation);
        generation.note_reader(place, client, *rest);
    }

    /// Goes on with other bytes `of` the same generation.
    pub fn turn_to(&mut self, of: Interval) {
        self.place.turn_to(of);
        (self.rest, self.own, self.tried, self.patience) = (of, None, Tried::Nothing, None);
        if let Some(refill) = &mut self.refill {
            // Whether the fill comes soon enough is decided again.
            self.filled = None;
            refill.turn();
        }
    }

    /// How many bytes are still to be sent.
    fn left(&self) -> u64 {
        self.rest.end - self.rest.start
    }
}

impl Body for Reader {
    /// Waits for the volume, for a fill, or for an origin.
    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, Cut> {
        loop {
            let left = self.left();
            if left == 0 {
                return Ok(None);
            }
            let bytes_max = usize::try_from(left).map_or(bytes_max, |left| left.min(bytes_max));
            if self.own.is_some() {
                return self.next_own(bytes_max).await;
            }
            self.note();
            if let Some(piece) = self.read_memory(bytes_max) {
                return Ok(Some(self.take(piece)));
            }
            let piece = match choose(self.here(), || self.beyond()) {
                // The byte has come meanwhile.
                Act::Take => None,
                Act::ReadVolume => self.read_volume(bytes_max).await,
                Act::LookOnVolume => self.look_on_volume().await,
                Act::WaitFill => self.wait_fill(bytes_max).await,
                Act::WaitGap => self.wait_gap(bytes_max).await,
                Act::WaitWriting => self.wait_writing().await,
                Act::JoinFill => self.join_fill(),
                Act::LeaveFill => self.leave_fill(),
                Act::BeginGap => self.begin(Refill::begin),
                Act::BeginWhole => self.begin(Refill::begin_whole),
                // Few readers do it, and it takes much memory.
                Act::AskOwn => Box::pin(self.ask_own()).await?,
                Act::End => return Ok(None),
                Act::Cut(why) => return Err(self.cut(why)),
            };
            if let Some(piece) = piece {
                return Ok(Some(self.take(piece)));
            }
        }
    }

    /// None while the generation is not whole in memory.
    fn at_hand(&self) -> Option<(&[Bytes], usize, u64)> {
        let blocks = match self.generation.block() {
            Some(block) => block,
            None => match self.blocks.get() {
                Some(blocks) => blocks,
                None => {
                    let blocks = self.generation.blocks()?;
                    self.blocks.get_or_init(|| blocks)
                }
            },
        };
        blocks_from(blocks, self.rest)
    }

    fn advance(&mut self, bytes: u64) {
        self.rest.start += bytes;
    }

    /// Reads on from the volume where all lies there, so that memory can have the blocks; from memory as long
    /// as they stay there.
    fn let_go(&mut self, unsent: Bytes) -> Option<Bytes> {
        self.place.let_go();
        self.has_paused = true;
        let generation = self.read_from();
        let holds = self.own.is_some() || !self.is_fill_needed() && generation.held_bytes() > 0;
        let on_volume = holds.then(|| generation.on_volume_alone()).flatten();
        // Where the origin has sent it more than that under the same tag, it goes on as it began.
        let is_as_long =
            |body: &Arc<Generation>| body.length().is_none_or(|length| length >= self.rest.start);
        let on_volume = on_volume.filter(is_as_long);
        if on_volume.is_none() && !self.can_be_had_again() {
            return kept(unsent);
        }
        self.rest.start -= unsent.len() as u64;
        if let Some(on_volume) = on_volume {
            self.go_on_from(on_volume);
        }
        None
    }

    fn may_let_go(&self) -> bool {
        let generation = self.read_from();
        let may_be_read = generation.is_stored_on_disk() && generation.held_bytes() > 0;
        self.own.is_some() || self.is_fill_needed() || may_be_read
    }

    /// A connection waits for it that is its own, or that of a windowed fill of which it is the foremost
    /// reader, but for a piece that it has given back.
    fn holds_origin(&self) -> bool {
        let reach = self.rest.start.saturating_add(BLOCK_BYTES as u64);
        let is_foremost = |filled: &Filled| {
            let front = filled.guard.as_ref().map(|guard| guard.fill().transfer.front());
            is_windowed(&filled.generation) && front.is_some_and(|front| front <= reach)
        };
        self.own.is_some() || self.filled.as_deref().is_some_and(is_foremost)
    }
}

impl Reader {
    /// Reads the same version from its volume from here on.
    fn go_on_from(&mut self, on_volume: Arc<Generation>) {
        // A body whose length nobody knew before has one now.
        if let Some(length) = on_volume.length() {
            self.rest.end = self.rest.end.min(length);
        }
        self.in_memory = Arc::downgrade(self.read_from());
        // Its own connection is free for others.
        (self.own, self.filled, self.tried, self.blocks) = (None, None, Tried::Nothing, OnceLock::new());
        self.generation = InUse::new(on_volume);
        self.refill.as_deref_mut().map(Refill::let_go);
        self.note();
    }

    /// Whether the fill that it reads has yet to bring something.
    fn is_fill_needed(&self) -> bool {
        self.filled.as_deref().is_some_and(|filled| filled.state() != Some(State::Ended(End::Whole)))
    }

    /// Whether all bytes were given out.
    pub fn is_sent(&self) -> bool {
        self.left() == 0
    }

    /// Whether bytes that were taken can be read again, from memory, from a volume, or from the origin.
    fn can_be_had_again(&self) -> bool {
        let generation = self.read_from();
        let is_named = || strong(&generation.head().stored.headers).is_some();
        // Where its write was given up, a window may drop it at once.
        let is_written = || match self.filled.as_deref() {
            Some(Filled { store, .. }) => store.is_being_written(generation),
            None => true,
        };
        let is_to_stay = || generation.is_stored_on_disk() && is_written() && is_named();
        self.own.is_none() && (generation.is_whole() || is_to_stay())
    }

    /// The generation that is read: the fill's, which may be another one of the same version.
    fn read_from(&self) -> &Arc<Generation> {
        self.filled.as_deref().map_or(&self.generation, |filled| &filled.generation)
    }

    /// What memory has of the generation, or of the one that it has let go of.
    fn read_memory(&self, bytes_max: usize) -> Option<Bytes> {
        if let Read::Piece(piece) = self.read_from().read(self.rest.start, bytes_max) {
            return Some(piece);
        }
        let in_memory = InUse::new(self.in_memory.upgrade()?);
        match in_memory.read(self.rest.start, bytes_max) {
            Read::Piece(piece) => Some(piece),
            Read::NotYet | Read::End | Read::Gone => None,
        }
    }

    fn first(&self) -> Interval {
        Interval::new(self.rest.start, self.rest.start + 1)
    }

    fn here(&self) -> Here {
        // In this order, so that bytes are seen that came just before the end.
        let had_ended = self.filled.as_deref().is_some_and(Filled::has_ended);
        let memory = match self.read_from().read(self.rest.start, 1) {
            Read::Piece(_) => InMemory::Held,
            Read::End => InMemory::End,
            // Bytes of other transfers are not waited for at a fill that has ended.
            Read::NotYet if !had_ended => InMemory::Coming,
            Read::NotYet | Read::Gone => InMemory::Gone,
        };
        Here { memory, volume: self.volume(memory), fill: self.fill() }
    }

    fn fill(&self) -> FillSeen {
        let Some(filled) = &self.filled else { return FillSeen::None };
        match filled.state() {
            _ if is_windowed(&filled.generation) => FillSeen::Windowed,
            Some(State::Ended(end)) => FillSeen::Ended(end),
            Some(State::Asking | State::Filling { .. }) => FillSeen::Running,
            None => FillSeen::Windowed,
        }
    }

    fn volume(&self, memory: InMemory) -> OnVolume {
        let generation = self.read_from();
        // Bytes that were loaded leave memory once they are on the volume.
        let is_held = || generation.is_on_disk() && generation.gap(self.first()).is_none();
        let is_worth_a_read = || match (&self.filled, memory) {
            (Some(_), InMemory::Gone) if is_windowed(generation) => generation.is_stored_on_disk(),
            (None, InMemory::Gone) => generation.is_on_disk(),
            _ => is_held(),
        };
        match self.tried {
            Tried::Nothing if is_worth_a_read() => OnVolume::Readable,
            Tried::Nothing | Tried::Read(_) if generation.is_on_disk() => OnVolume::Unlooked,
            Tried::Nothing | Tried::Read(_) | Tried::Looked => OnVolume::Nothing,
        }
    }

    fn beyond(&mut self) -> Beyond {
        let is_patient = self.patience.is_none_or(|until| clock::mono() < until);
        let at_fill = Beyond {
            is_writing: matches!(self.tried, Tried::Read(Some(_))) && is_patient,
            nearby: Nearby::None,
            gap: GapSeen::None,
            asking: if self.refill.is_some() { Asking::Allowed } else { Asking::Never },
        };
        match &mut self.refill {
            Some(refill) if self.filled.is_none() => {
                let seen = refill.look(&self.generation, self.rest);
                Beyond { is_writing: seen.is_writing && is_patient, ..seen }
            }
            _ => at_fill,
        }
    }

    fn cut(&self, why: Why) -> Cut {
        let word = match why {
            Why::Gone => "generation-gone",
            Why::PartGone => "part-gone",
            Why::FillFailed => {
                let guard = self.filled.as_deref().and_then(|filled| filled.guard.as_ref());
                guard.map_or("reader-behind", |guard| guard.fill().failure_word())
            }
            Why::GapFailed => self.refill.as_deref().map_or("generation-gone", Refill::failure_word),
        };
        self.cut_by(word)
    }

    /// It cannot go on. Where its volume kept for it what was removed, it ends because that has an end.
    fn cut_by(&self, word: &'static str) -> Cut {
        Cut { word: if self.place.is_lost() { "kept-no-longer" } else { word } }
    }

    /// Takes a piece as sent, and has what is missing ahead of it loaded.
    fn take(&mut self, piece: Bytes) -> Bytes {
        // It may give the piece back.
        self.place.moved(self.rest.start);
        self.rest.start += piece.len() as u64;
        (self.tried, self.patience) = (Tried::Nothing, None);
        if let Some(Filled { guard: Some(guard), generation, .. }) = self.filled.as_deref() {
            guard.fill().advance(self.rest.start, generation);
        }
        if let Some(refill) = &mut self.refill {
            refill.moved(&self.generation, self.rest);
        }
        piece
    }

    async fn read_volume(&mut self, bytes_max: usize) -> Option<Bytes> {
        let (start, place) = (self.rest.start, &mut self.place);
        let (piece, writing) = match self.filled.as_deref() {
            Some(Filled { generation, store, .. }) if is_windowed(generation) => {
                // Made before the read: what is written after the read wakes it.
                let writing = store.writing(generation);
                (store.fetch_on_disk(generation, place, start, bytes_max).await, writing)
            }
            filled => {
                let generation = filled.map_or(&*self.generation, |filled| &filled.generation);
                (generation.fetch(place, start, bytes_max).await, None)
            }
        };
        let piece = piece.ok().flatten();
        if piece.is_none() {
            // With it the memory that was to take the bytes.
            self.place.let_go();
            self.tried = Tried::Read(writing);
        }
        piece
    }

    async fn look_on_volume(&mut self) -> Option<Bytes> {
        self.generation.look_on_disk().await;
        self.tried = Tried::Looked;
        if self.generation.gap(self.first()).is_none() {
            // It is there by now.
            self.tried = Tried::Nothing;
            self.refill.as_deref_mut().map(Refill::tried);
        }
        None
    }

    async fn wait_fill(&mut self, bytes_max: usize) -> Option<Bytes> {
        let (start, filled) = (self.rest.start, self.filled.as_deref()?);
        let guard = filled.guard.as_ref()?;
        let (fill, core) = (guard.fill(), guard.core());
        // A reader whose interval lies ahead of the window moves the window on, as one does that has read
        // everything.
        fill.advance(start, &filled.generation);
        let look = || look(fill, &filled.generation, start, bytes_max);
        let read = fill.wait(core, look).await;
        self.tried = Tried::Nothing;
        match read {
            Read::Piece(piece) => Some(piece),
            Read::NotYet | Read::End | Read::Gone => None,
        }
    }

    async fn wait_gap(&mut self, bytes_max: usize) -> Option<Bytes> {
        self.tried = Tried::Nothing;
        let refill = self.refill.as_deref_mut()?;
        refill.wait(&self.generation, self.rest.start, bytes_max).await
    }

    /// Waits until more can be read from the volume, for a bounded time.
    async fn wait_writing(&mut self) -> Option<Bytes> {
        let is_elsewhere = || strong(&self.read_from().head().stored.headers).is_some();
        let longest = if !self.has_paused && is_elsewhere() { WRITING_WAIT_MAX } else { STALLED_MAX };
        let until = *self.patience.get_or_insert_with(|| clock::mono() + longest);
        let writing = match std::mem::replace(&mut self.tried, Tried::Nothing) {
            Tried::Read(Some(writing)) => Some(writing),
            Tried::Read(None) | Tried::Nothing | Tried::Looked => self.writing().await,
        };
        if let Some(writing) = writing {
            // What does not come in time is asked for from the origin. A drive that goes on, if only slowly,
            // has it sooner than an origin and that drive would.
            if tokio::time::timeout_at(until.into(), writing.moved()).await.is_ok() {
                self.patience = Some(clock::mono() + longest);
            }
        }
        None
    }

    /// A wait for more of a part that is being written. None where more is there by now.
    async fn writing(&mut self) -> Option<Writing> {
        let refill = self.refill.as_deref_mut()?;
        refill.waited();
        // Made before the look: what is written after it wakes the reader.
        let writing = refill.request.resources.store.writing(&self.generation)?;
        self.generation.look_on_disk().await;
        self.generation.gap(self.first()).is_some().then_some(writing)
    }

    fn join_fill(&mut self) -> Option<Bytes> {
        let refill = self.refill.as_deref_mut()?;
        if let Some((guard, generation)) = refill.join_fill() {
            let (refetch, store) = (refill.refetch.clone(), refill.request.resources.store.clone());
            self.filled = Some(Box::new(Filled::new(guard, generation, refetch, store)));
        }
        self.tried = Tried::Nothing;
        None
    }

    fn leave_fill(&mut self) -> Option<Bytes> {
        (self.filled, self.tried) = (None, Tried::Nothing);
        None
    }

    fn begin(&mut self, begin: impl FnOnce(&mut Refill, &Arc<Generation>, Interval)) -> Option<Bytes> {
        self.tried = Tried::Nothing;
        begin(self.refill.as_deref_mut()?, &self.generation, self.rest);
        None
    }
}
