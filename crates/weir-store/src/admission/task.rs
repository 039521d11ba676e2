//! What the background thread is asked for.

use std::sync::Weak;

use crossbeam_channel::Sender;

use crate::generation::Generation;

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Task {
    /// A generation in memory is used: it may have earned its place below.
    WriteLater(Weak<Generation>),
    /// A volume has come: what memory alone holds may go down to it.
    Offer,
    /// Write down what is to be remembered, and end.
    Stop(Sender<()>),
}
