//! What a request would come to, in one word.

/// What a request would come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Foretold {
    /// What is held goes out, fresh.
    Hit,
    /// It goes out stale.
    Stale,
    /// The origin is asked whether it is still good.
    Revalidate,
    /// The origin is asked for it.
    Miss,
    /// The request goes past the cache.
    Pass,
    /// Weir answers by itself.
    #[default]
    Local,
    /// The client takes only what is held, and nothing is.
    GatewayTimeout,
}

impl Foretold {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Foretold::Hit => "hit",
            Foretold::Stale => "stale",
            Foretold::Revalidate => "revalidate",
            Foretold::Miss => "miss",
            Foretold::Pass => "pass",
            Foretold::Local => "local",
            Foretold::GatewayTimeout => "gateway-timeout",
        }
    }
}
