//! What a reader chooses: over all that it can see, and over random small worlds that it reads from beginning
//! to end.

use proptest::prelude::*;

use super::*;

const MEMORIES: [InMemory; 4] = [InMemory::Held, InMemory::Coming, InMemory::End, InMemory::Gone];
const VOLUMES: [OnVolume; 3] = [OnVolume::Nothing, OnVolume::Readable, OnVolume::Unlooked];
const FILLS: [FillSeen; 7] = [
    FillSeen::None,
    FillSeen::Running,
    FillSeen::Windowed,
    FillSeen::Ended(End::Whole),
    FillSeen::Ended(End::Failed),
    FillSeen::Ended(End::Deserted),
    FillSeen::Ended(End::Stopped),
];
const NEARBY: [Nearby; 3] = [Nearby::None, Nearby::Late, Nearby::Near];
const GAPS: [GapSeen; 4] = [GapSeen::None, GapSeen::Running, GapSeen::NoParts, GapSeen::Refused];
const ASKING: [Asking; 4] = [Asking::Never, Asking::Allowed, Asking::Spent, Asking::Broken];

fn each(mut check: impl FnMut(Here, Beyond, Act)) {
    for memory in MEMORIES {
        for (volume, fill) in VOLUMES.iter().flat_map(|volume| FILLS.map(|fill| (*volume, fill))) {
            for (nearby, gap) in NEARBY.iter().flat_map(|nearby| GAPS.map(|gap| (*nearby, gap))) {
                for (asking, is_writing) in
                    ASKING.iter().flat_map(|asking| [(*asking, false), (*asking, true)])
                {
                    let here = Here { memory, volume, fill };
                    let beyond = Beyond { is_writing, nearby, gap, asking };
                    check(here, beyond, choose(here, || beyond));
                }
            }
        }
    }
}

#[test]
fn nothing_is_waited_for_that_nobody_brings() {
    each(|here, beyond, act| match act {
        Act::WaitFill => {
            assert!(here.memory == InMemory::Coming && here.fill != FillSeen::None, "{here:?} {beyond:?}")
        }
        Act::WaitGap => assert_eq!(beyond.gap, GapSeen::Running, "{here:?}"),
        Act::WaitWriting => assert!(beyond.is_writing, "{here:?} {beyond:?}"),
        Act::JoinFill => assert_ne!(beyond.nearby, Nearby::None, "{here:?}"),
        _ => {}
    });
}

#[test]
fn nothing_is_asked_for_that_is_held_or_on_its_way() {
    each(|here, beyond, act| {
        let is_asked = matches!(act, Act::BeginGap | Act::BeginWhole | Act::AskOwn);
        let is_held = here.memory == InMemory::Held || here.volume == OnVolume::Readable;
        assert!(
            !(is_asked && (is_held || here.memory == InMemory::End || beyond.is_writing)),
            "{here:?} {beyond:?}"
        );
        if matches!(act, Act::BeginGap | Act::BeginWhole) {
            assert_eq!((here.fill, here.volume), (FillSeen::None, OnVolume::Nothing));
            assert_eq!(beyond.gap == GapSeen::NoParts, act == Act::BeginWhole, "{here:?}");
            assert!(beyond.gap != GapSeen::Running && beyond.nearby != Nearby::Near, "{here:?} {beyond:?}");
        }
        assert_eq!(act == Act::Take, here.memory == InMemory::Held);
    });
}

#[test]
fn what_the_origin_has_refused_is_not_asked_for_again_nor_ended_cleanly() {
    each(|here, beyond, act| {
        if act == Act::End {
            assert!(here.memory == InMemory::End && here.fill != FillSeen::None, "{here:?}");
        }
        if beyond.gap == GapSeen::Refused && here.fill == FillSeen::None {
            assert!(!matches!(act, Act::BeginGap | Act::BeginWhole | Act::AskOwn), "{here:?} {beyond:?}");
        }
        if act == Act::LeaveFill {
            assert!(here.fill == FillSeen::Ended(End::Stopped) && beyond.asking != Asking::Never);
        }
    });
}

#[test]
fn a_reader_for_whom_nothing_stays_asks_for_the_rest_itself() {
    let here = Here { memory: InMemory::Gone, volume: OnVolume::Nothing, fill: FillSeen::None };
    let spent = Beyond { is_writing: false, nearby: Nearby::None, gap: GapSeen::None, asking: Asking::Spent };
    assert_eq!(choose(here, || spent), Act::AskOwn);
    // An origin that does not send parts could not answer that.
    let whole = Beyond { gap: GapSeen::NoParts, ..spent };
    assert_eq!(choose(here, || whole), Act::Cut(Why::Gone));
    let late = Beyond { nearby: Nearby::Near, ..spent };
    assert_eq!(choose(here, || late), Act::JoinFill);
}

const BYTES: usize = 6;
/// What a reader is given to end: it has some bytes, each at the price of a few rounds.
const ROUNDS_MAX: usize = 400;

/// A transfer of the world's, from a place on; it brings one byte at a time of the version that the origin
/// has.
#[derive(Clone, Debug)]
struct Run {
    at: usize,
    stop: usize,
    ended: Option<End>,
    version: u8,
}

impl Run {
    fn comes_to(&self, at: usize) -> bool {
        self.ended.is_none() && self.at <= at && at < self.stop
    }
}

/// What is random about a world, byte by byte and step by step.
#[derive(Clone, Debug)]
struct Seed {
    memory: [bool; BYTES],
    volume: [bool; BYTES],
    /// Still on its way to the volume, in this order.
    writing: Vec<usize>,
    fill: Option<(usize, usize)>,
    is_window: bool,
    reads_fill: bool,
    asking: bool,
    /// What happens while the reader waits.
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Transfers and the volume's writer move on.
    On,
    /// Memory drops a byte that the volume has.
    Evict(usize),
    /// The fill, or the gap's transfer, breaks off.
    BreakFill,
    BreakGap,
    /// The origin has another version from here on.
    Change,
    /// The origin stops sending parts.
    Whole,
}

fn seeds() -> impl Strategy<Value = Seed> {
    let step = prop_oneof![
        12 => Just(Step::On),
        2 => (0..BYTES).prop_map(Step::Evict),
        1 => Just(Step::BreakFill),
        2 => Just(Step::BreakGap),
        1 => Just(Step::Change),
        1 => Just(Step::Whole),
    ];
    let bytes = || prop::array::uniform6(any::<bool>());
    (
        (bytes(), bytes(), prop::collection::vec(0..BYTES, 0..3)),
        prop::option::of((0..BYTES, 0..=BYTES)),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        prop::collection::vec(step, 0..40),
    )
        .prop_map(|((memory, volume, writing), fill, (is_window, reads_fill, asking), steps)| Seed {
            memory,
            volume,
            writing,
            fill,
            is_window,
            reads_fill: reads_fill && fill.is_some(),
            asking,
            steps,
        })
}

/// A world of one generation of version 1, and a reader that wants all of it.
#[derive(Debug)]
struct World {
    memory: [Option<u8>; BYTES],
    volume: [Option<u8>; BYTES],
    writing: Vec<usize>,
    fill: Option<Run>,
    is_window: bool,
    gap: Option<Run>,
    origin: u8,
    sends_parts: bool,
    steps: Vec<Step>,
    // The reader.
    at: usize,
    reads_fill: bool,
    has_seat: bool,
    may_ask: bool,
    is_unread: bool,
    is_unlooked: bool,
    refused: Option<GapSeen>,
    is_whole: bool,
    own: Option<u8>,
    tries: u8,
    breaks: u8,
    asked: usize,
}

impl World {
    fn new(seed: Seed) -> World {
        let held = |is_held: [bool; BYTES]| is_held.map(|is_held| is_held.then_some(1));
        let fill = seed.fill.map(|(at, stop)| Run { at, stop: stop.max(at), ended: None, version: 1 });
        World {
            memory: held(seed.memory),
            volume: held(seed.volume),
            writing: seed.writing,
            fill,
            is_window: seed.is_window,
            gap: None,
            origin: 1,
            sends_parts: true,
            steps: seed.steps,
            at: 0,
            reads_fill: seed.reads_fill,
            has_seat: false,
            may_ask: seed.asking,
            is_unread: true,
            is_unlooked: true,
            refused: None,
            is_whole: false,
            own: None,
            tries: 0,
            breaks: 0,
            asked: 0,
        }
    }

    fn is_coming(&self) -> bool {
        // A fill that is to stop is not told apart from any other until it has ended.
        let by_fill = self.fill.as_ref().is_some_and(|fill| fill.ended.is_none() && fill.at <= self.at);
        by_fill || self.is_coming_by_gap()
    }

    fn here(&self) -> Here {
        let ended = self.fill.as_ref().and_then(|fill| fill.ended);
        let memory = match self.memory[self.at] {
            Some(_) => InMemory::Held,
            None if self.is_coming() && !(self.reads_fill && ended.is_some()) => InMemory::Coming,
            None => InMemory::Gone,
        };
        // A reader of a window learns by the read what is there; any other knows what was there.
        let is_known = self.volume[self.at].is_some();
        let volume = match (self.is_unread, self.is_unlooked && !self.reads_fill) {
            (true, _) if is_known || self.reads_fill && self.is_window && memory == InMemory::Gone => {
                OnVolume::Readable
            }
            (_, true) => OnVolume::Unlooked,
            _ => OnVolume::Nothing,
        };
        let fill = match ended {
            _ if !self.reads_fill => FillSeen::None,
            _ if self.is_window => FillSeen::Windowed,
            None => FillSeen::Running,
            Some(end) => FillSeen::Ended(end),
        };
        Here { memory, volume, fill }
    }

    fn beyond(&self) -> Beyond {
        let fill =
            self.fill.as_ref().filter(|fill| fill.ended.is_none() && !self.reads_fill && !self.is_window);
        let nearby = match fill {
            Some(fill) if fill.comes_to(self.at) && fill.at + 1 >= self.at => Nearby::Near,
            Some(fill) if fill.comes_to(self.at) => Nearby::Late,
            _ => Nearby::None,
        };
        let gap = match &self.gap {
            Some(gap) if self.has_seat && gap.comes_to(self.at) => GapSeen::Running,
            _ => self.refused.unwrap_or(GapSeen::None),
        };
        let asking = match () {
            () if !self.may_ask => Asking::Never,
            () if self.breaks > 8 => Asking::Broken,
            () if self.tries >= 3 && gap != GapSeen::Running => Asking::Spent,
            () => Asking::Allowed,
        };
        Beyond { is_writing: !self.writing.is_empty(), nearby, gap, asking }
    }

    /// Something happens; what runs always comes to its end.
    fn step(&mut self) {
        match self.steps.pop().unwrap_or(Step::On) {
            Step::On => self.move_on(),
            Step::Evict(at) if self.volume[at].is_some() => self.memory[at] = None,
            Step::Evict(_) => {}
            Step::BreakFill => end(&mut self.fill, End::Failed),
            Step::BreakGap => end(&mut self.gap, End::Failed),
            Step::Change => self.origin = 2,
            Step::Whole => self.sends_parts = false,
        }
        self.is_unread = true;
        self.is_unlooked = true;
    }

    fn move_on(&mut self) {
        if let Some(at) = self.writing.pop() {
            self.volume[at] = Some(1);
        }
        for (run, done) in [(&mut self.fill, End::Stopped), (&mut self.gap, End::Fetched)] {
            let Some(run) = run.as_mut().filter(|run| run.ended.is_none()) else { continue };
            match run.at < run.stop {
                true => {
                    self.memory[run.at] = Some(run.version);
                    run.at += 1;
                }
                false => {
                    run.ended =
                        Some(if run.stop == BYTES && done == End::Stopped { End::Whole } else { done })
                }
            }
        }
    }

    fn begin_gap(&mut self) {
        assert!(self.memory[self.at].is_none() && self.volume[self.at].is_none(), "it is held: {self:?}");
        assert!(!self.has_seat || !self.is_coming_by_gap(), "it is on its way: {self:?}");
        self.asked += 1;
        let ended = match (self.origin, self.sends_parts) {
            (1, true) => None,
            (1, false) if self.is_whole => None,
            (1, false) => Some(End::Unable),
            _ => Some(End::Changed),
        };
        self.has_seat = true;
        self.refused = ended.map(|end| match end == End::Unable {
            true => GapSeen::NoParts,
            false => GapSeen::Refused,
        });
        self.tries += 1;
        self.gap = Some(Run { at: self.at, stop: BYTES, ended, version: self.origin });
    }

    fn is_coming_by_gap(&self) -> bool {
        self.gap.as_ref().is_some_and(|gap| gap.comes_to(self.at))
    }

    fn take(&mut self, version: Option<u8>) {
        assert_eq!(version, Some(1), "a byte of another version at {}", self.at);
        self.at += 1;
        (self.is_unread, self.is_unlooked, self.tries) = (true, true, 0);
    }

    fn wait_gap(&mut self) {
        assert!(self.is_coming_by_gap(), "nobody brings it: {self:?}");
        while self.memory[self.at].is_none() && self.is_coming_by_gap() {
            self.step();
        }
        self.tries += u8::from(self.memory[self.at].is_none());
        let has_failed = self.gap.as_ref().is_some_and(|gap| gap.ended == Some(End::Failed));
        self.breaks += u8::from(has_failed);
    }

    fn wait_fill(&mut self) {
        let is_running = self.fill.as_ref().is_some_and(|fill| fill.ended.is_none());
        assert!(self.reads_fill && is_running && self.is_coming(), "nobody brings it: {self:?}");
        while self.memory[self.at].is_none() && self.fill.as_ref().is_some_and(|fill| fill.ended.is_none()) {
            self.step();
        }
    }

    /// Does what was chosen; false at the end.
    fn act(&mut self, act: Act) -> bool {
        match act {
            Act::Take => self.take(self.memory[self.at]),
            Act::ReadVolume => match self.volume[self.at] {
                None => self.is_unread = false,
                version => self.take(version),
            },
            Act::LookOnVolume => (self.is_unlooked, self.is_unread) = (false, true),
            Act::WaitFill => self.wait_fill(),
            Act::WaitGap => self.wait_gap(),
            Act::WaitWriting => {
                assert!(!self.writing.is_empty(), "nothing is written: {self:?}");
                let left = self.writing.len();
                while self.writing.len() == left {
                    self.step();
                }
                self.tries = 0;
            }
            Act::JoinFill => {
                let fill = self.fill.as_ref().filter(|fill| fill.comes_to(self.at));
                assert!(fill.is_some() && !self.reads_fill, "no fill brings it: {self:?}");
                (self.reads_fill, self.refused) = (true, None);
                self.tries += 1;
            }
            Act::LeaveFill => self.reads_fill = false,
            Act::BeginGap => self.begin_gap(),
            Act::BeginWhole => {
                self.is_whole = true;
                self.begin_gap();
            }
            Act::AskOwn => {
                assert!(self.own.is_none() && self.memory[self.at].is_none());
                self.own = Some(self.origin);
                self.asked += 1;
            }
            Act::End | Act::Cut(_) => return false,
        }
        true
    }

    /// Reads to the end, or to the cut; how far it came.
    fn run(&mut self) -> usize {
        for _ in 0..ROUNDS_MAX {
            if self.at == BYTES {
                return self.at;
            }
            if let Some(version) = self.own {
                // What comes is of the same version, or the origin's answer is not taken.
                match version {
                    1 => self.take(Some(1)),
                    _ => return self.at,
                }
                continue;
            }
            let here = self.here();
            let act = choose(here, || self.beyond());
            if !self.act(act) {
                return self.at;
            }
        }
        panic!("it goes on for ever: {self:?}");
    }
}

fn end(run: &mut Option<Run>, end: End) {
    if let Some(run) = run.as_mut().filter(|run| run.ended.is_none()) {
        run.ended = Some(end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn a_reader_comes_to_an_end_in_one_version_and_asks_for_what_is_missing_alone(seed in seeds()) {
        let is_held = (0..BYTES).all(|at| seed.memory[at] || seed.volume[at]);
        let is_calm = seed.steps.iter().all(|step| matches!(step, Step::On | Step::Evict(_) | Step::Whole));
        let (reads_fill, may_ask) = (seed.reads_fill, seed.asking);
        let mut world = World::new(seed);
        let came = world.run();
        prop_assert!(!is_held || came == BYTES && world.asked == 0, "what is held is read: {world:?}");
        let must_come = is_calm && may_ask && !reads_fill;
        prop_assert!(!must_come || came == BYTES, "what can be had is had: {world:?}");
    }
}
