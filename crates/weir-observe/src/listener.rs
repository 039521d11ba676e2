//! Listeners to lines as they are made: streams of the API.

/// A line for listeners.
#[derive(Clone, Copy, Debug)]
pub struct Told<'t> {
    /// The names of the sites that it is about; none where it is about the whole.
    pub sites: &'t [&'t str],
    /// The line, JSON without a line break.
    pub json: &'t [u8],
}

/// A listener to lines.
pub trait Listener: Send {
    /// Hears a line; now and then `None`, while nothing is told. Must not wait. False when it wants no more.
    fn hear(&mut self, told: Option<Told<'_>>) -> bool;

    /// Lines were lost on their way that may have been for it.
    fn lose(&mut self, count: u64);
}
