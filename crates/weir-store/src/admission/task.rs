//! What the background thread is asked to do.

use std::sync::Weak;

use crossbeam_channel::Sender;

use crate::generation::Generation;

/// A task of the background thread.
#[derive(Debug)]
pub(crate) enum Task {
    /// A generation in memory was used: it may have earned its place on a volume.
    WriteLater(Weak<Generation>),
    /// A volume has come: offer it what only memory holds.
    Offer,
    /// Write down what is to be remembered, and end.
    Stop(Sender<()>),
}
