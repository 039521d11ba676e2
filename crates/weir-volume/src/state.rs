//! The one state that a volume has, for all who hold it: its own threads, the store, the supervisor.

/// The state of a volume. Open, it tells its own state, which is [`Up`](VolumeState::Up) or one of the
/// failures of its drive; that it is probed or slow is known by who looks after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeState {
    /// It is being opened.
    Probing,
    /// It stores and serves.
    Up,
    /// There is no room, since others have filled the file system: it serves.
    Full,
    /// Too many writes have failed, or it was read-only when it was opened: it serves what it has.
    ReadOnly,
    /// It does not keep up: nobody waits for it, and nothing is stored.
    Slow,
    /// Too many reads have failed, one of its threads has, or its drive is gone: it is asked nothing more.
    Ejected,
}

impl VolumeState {
    /// Whether its drive takes writes, as far as there is room.
    pub fn is_writable(self) -> bool {
        match self {
            VolumeState::Up | VolumeState::Full => true,
            VolumeState::Probing | VolumeState::ReadOnly | VolumeState::Slow | VolumeState::Ejected => false,
        }
    }
}
