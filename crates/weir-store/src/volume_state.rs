//! The one state that a volume has.

/// The state of a volume, for whoever wants something of it and for whoever supervises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeState {
    /// It is being opened.
    Probing,
    /// It stores and serves.
    Up,
    /// There is no room, since others have filled the file system: it serves.
    Full,
    /// Nothing can be written: it serves what it has.
    ReadOnly,
    /// It does not keep up: nobody waits for it, and nothing is stored.
    Slow,
    /// It is asked nothing more.
    Ejected,
}
