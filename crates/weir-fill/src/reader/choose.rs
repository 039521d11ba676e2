//! What a reader does next where no byte is at hand, as a pure function of what it sees. It must not wait for
//! bytes that no transfer loads, nor ask for bytes that are held.

use crate::machine::End;

/// What memory says of the reader's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InMemory {
    /// The byte is there.
    Held,
    /// A transfer will reach it. Where the reader reads a fill, the fill had not ended a moment ago.
    Coming,
    /// The body ends there.
    End,
    /// It is not there, and no transfer that writes will reach it.
    Gone,
}

/// What is known of the volume at the reader's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnVolume {
    /// Nothing is there.
    Nothing,
    /// It may be there: worth a read.
    Readable,
    /// Nothing was there; more may have been written since.
    Unlooked,
}

/// The fill that the reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillSeen {
    /// It reads none.
    None,
    /// It runs, and memory keeps all of it.
    Running,
    /// It has ended.
    Ended(End),
    /// Memory keeps only its newest bytes, whether it has ended or not.
    Windowed,
}

/// What the reader sees without looking further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Here {
    pub(super) memory: InMemory,
    pub(super) volume: OnVolume,
    pub(super) fill: FillSeen,
}

/// A running fill of the generation, which the reader does not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearby {
    /// None.
    None,
    /// It reaches the offset later than a new request would.
    Late,
    /// It has reached the offset, or will soon.
    Near,
}

/// The transfer of the gap at the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapSeen {
    /// The reader reads none.
    None,
    /// It runs and will reach the offset.
    Running,
    /// The origin does not send parts, and has not been asked for the whole.
    NoParts,
    /// The origin has refused the gap.
    Refused,
}

/// What a reader may still ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// Nothing: no gap of this generation can be told to be of its version.
    Never,
    /// What is missing.
    Allowed,
    /// No gap any more: it has asked too often without a byte. The rest, by itself.
    Spent,
    /// No more: too many transfers have failed under it.
    Broken,
}

/// What the reader sees where nothing is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beyond {
    /// The generation is being written to the volume, and the reader may wait for that.
    pub(super) is_writing: bool,
    pub(super) nearby: Nearby,
    pub(super) gap: GapSeen,
    pub(super) asking: Asking,
}

/// Why a body is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The bytes cannot be had any more.
    Gone,
    /// The fill that it reads has failed.
    FillFailed,
    /// The origin has another version, or does not send parts.
    PartGone,
    /// Too many transfers of gaps have failed.
    GapFailed,
}

/// What the reader does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Takes the bytes from memory.
    Take,
    /// Reads the volume.
    ReadVolume,
    /// Learns what has come to the volume since.
    LookOnVolume,
    /// Waits for the fill that it reads.
    WaitFill,
    /// Waits for the transfer of the gap.
    WaitGap,
    /// Waits for what is being written to the volume.
    WaitWriting,
    /// Reads the running fill from here on.
    JoinFill,
    /// Goes on without its fill, which has stopped where other transfers load the rest.
    LeaveFill,
    /// Begins, or joins, the transfer of the gap.
    BeginGap,
    /// As [`Act::BeginGap`], asking for the whole.
    BeginWhole,
    /// Asks the origin for the rest, by itself.
    AskOwn,
    /// The body has ended.
    End,
    /// It cannot go on.
    Cut(Why),
}

/// What a reader does next; `beyond` is looked at only where nothing is at hand.
pub(super) fn choose(here: Here, beyond: impl FnOnce() -> Beyond) -> Act {
    match (here.memory, here.volume, here.fill) {
        (InMemory::Held, ..) => Act::Take,
        (InMemory::End, _, FillSeen::None) => Act::Cut(Why::Gone),
        (InMemory::End, ..) => Act::End,
        (_, OnVolume::Readable, _) => Act::ReadVolume,
        (_, _, FillSeen::None) => missing(here.volume, beyond()),
        (InMemory::Coming, ..) => Act::WaitFill,
        (InMemory::Gone, _, fill) => left_behind(fill, beyond()),
    }
}

/// The fill that it reads does not load what is here.
fn left_behind(fill: FillSeen, beyond: Beyond) -> Act {
    match fill {
        FillSeen::Windowed if beyond.is_writing => Act::WaitWriting,
        FillSeen::Windowed => Act::AskOwn,
        FillSeen::Ended(End::Stopped) if beyond.asking != Asking::Never => Act::LeaveFill,
        _ => Act::Cut(Why::FillFailed),
    }
}

/// It reads no fill, and what is here is missing.
fn missing(volume: OnVolume, beyond: Beyond) -> Act {
    match beyond.asking {
        Asking::Never => return Act::Cut(Why::Gone),
        Asking::Broken => return Act::Cut(Why::GapFailed),
        Asking::Allowed | Asking::Spent => {}
    }
    match (beyond.gap, beyond.nearby) {
        (GapSeen::Running, _) => Act::WaitGap,
        // A fill loads it all the same, later.
        (GapSeen::Refused | GapSeen::NoParts, Nearby::Late | Nearby::Near) => Act::JoinFill,
        (GapSeen::Refused, Nearby::None) => Act::Cut(Why::PartGone),
        (GapSeen::None, Nearby::Near) => Act::JoinFill,
        _ if beyond.is_writing => Act::WaitWriting,
        _ if volume == OnVolume::Unlooked => Act::LookOnVolume,
        // Nothing that is loaded stays: memory is full of what others read, or has given the generation up.
        (GapSeen::None, _) if beyond.asking == Asking::Spent => Act::AskOwn,
        (GapSeen::NoParts, _) if beyond.asking == Asking::Spent => Act::Cut(Why::Gone),
        (GapSeen::NoParts, _) => Act::BeginWhole,
        (GapSeen::None, _) => Act::BeginGap,
    }
}

#[cfg(test)]
mod tests;
