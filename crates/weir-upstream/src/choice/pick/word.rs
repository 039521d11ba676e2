//! The words of a pick: which one decided, and why it took this origin. For metrics, logs and `weir explain`.

/// Which pick decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum PickWord {
    /// `round_robin`.
    RoundRobin,
    /// `random`.
    Random,
    /// `least_requests`.
    LeastRequests,
    /// `two_choices`.
    TwoChoices,
    /// `latency`.
    Latency,
    /// `by_requests`.
    ByRequests,
    /// `by_traffic`.
    ByTraffic,
    /// `by_busyness`.
    ByBusyness,
    /// `client_address`.
    ClientAddress,
    /// `hash`.
    Hash,
    /// `first`.
    First,
    /// `least`, by metrics.
    Least,
    /// `pack`, by metrics.
    Pack,
    /// A script.
    Script,
    /// A distributor.
    Distributor,
}

impl PickWord {
    /// All of them, in the order of their numbers.
    pub const ALL: [PickWord; 15] = [
        PickWord::RoundRobin,
        PickWord::Random,
        PickWord::LeastRequests,
        PickWord::TwoChoices,
        PickWord::Latency,
        PickWord::ByRequests,
        PickWord::ByTraffic,
        PickWord::ByBusyness,
        PickWord::ClientAddress,
        PickWord::Hash,
        PickWord::First,
        PickWord::Least,
        PickWord::Pack,
        PickWord::Script,
        PickWord::Distributor,
    ];

    /// The word of the configuration.
    pub fn word(self) -> &'static str {
        match self {
            PickWord::RoundRobin => "round_robin",
            PickWord::Random => "random",
            PickWord::LeastRequests => "least_requests",
            PickWord::TwoChoices => "two_choices",
            PickWord::Latency => "latency",
            PickWord::ByRequests => "by_requests",
            PickWord::ByTraffic => "by_traffic",
            PickWord::ByBusyness => "by_busyness",
            PickWord::ClientAddress => "client_address",
            PickWord::Hash => "hash",
            PickWord::First => "first",
            PickWord::Least => "least",
            PickWord::Pack => "pack",
            PickWord::Script => "script",
            PickWord::Distributor => "distributor",
        }
    }
}

/// Why an origin was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// It was its turn, perhaps among those that the picks found alike.
    Turn,
    /// It was drawn at random, by weight.
    Chance,
    /// It has the least of what the pick measures, for its weight.
    Least,
    /// The hash says so.
    Hash,
    /// The hash says another one, which has more requests than its share: this is the next one.
    Bound,
    /// It is the first that has room.
    First,
    /// It is the only one that takes a share.
    Only,
    /// The request lacks what the pick goes by: the less busy of two.
    Fallback,
    /// It was ejected and is tried.
    Trial,
    /// No primary takes a share.
    Backup,
    /// The request asked for it: the rest of a body that came from there.
    Preferred,
    /// The client's session is there.
    Session,
    /// Another origin failed the request.
    Retry,
    /// None takes a share: its time ends first.
    LastResort,
    /// The request waited for another origin, and this one had room first.
    Room,
    /// A hedge: the first one had not answered yet.
    Hedge,
    /// The script or the distributor has named it.
    Answered,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 17] = [
        Reason::Turn,
        Reason::Chance,
        Reason::Least,
        Reason::Hash,
        Reason::Bound,
        Reason::First,
        Reason::Only,
        Reason::Fallback,
        Reason::Trial,
        Reason::Backup,
        Reason::Preferred,
        Reason::Session,
        Reason::Retry,
        Reason::LastResort,
        Reason::Room,
        Reason::Hedge,
        Reason::Answered,
    ];

    /// The word for metrics and logs.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Turn => "turn",
            Reason::Chance => "chance",
            Reason::Least => "least",
            Reason::Hash => "hash",
            Reason::Bound => "bound",
            Reason::First => "first",
            Reason::Only => "only",
            Reason::Fallback => "fallback",
            Reason::Trial => "trial",
            Reason::Backup => "backup",
            Reason::Preferred => "preferred",
            Reason::Session => "session",
            Reason::Retry => "retry",
            Reason::LastResort => "last-resort",
            Reason::Room => "room",
            Reason::Hedge => "hedge",
            Reason::Answered => "answered",
        }
    }
}
