//! The numbers of an account. They only ever grow, so that of two versions of one row the larger is the
//! later.

/// How many numbers there are.
pub(crate) const FLOWS: usize = 10;

/// What an account has used in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flows {
    /// Requests answered from the cache, fresh.
    pub hits: u64,
    /// Requests answered from the cache, stale.
    pub stale: u64,
    /// Requests answered by a transfer from an origin that the cache took part in.
    pub misses: u64,
    /// Requests answered from the cache after the origin answered 304.
    pub revalidations: u64,
    /// Requests answered by the origin, past the cache.
    pub passes: u64,
    /// Requests answered by Weir itself: a static answer, a redirect, an error page.
    pub local: u64,
    /// Requests turned away.
    pub refused: u64,
    /// Bytes written to clients: heads, interim responses, framing and bodies, without TLS.
    pub client_bytes: u64,
    /// Requests written to origins, each retry and range counted.
    pub origin_requests: u64,
    /// Bytes read from origins: heads, framing and bodies, without TLS.
    pub origin_bytes: u64,
}

impl Flows {
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        let Flows { hits, stale, misses, revalidations, passes, local, refused, .. } = *self;
        [hits, stale, misses, revalidations, passes, local, refused].into_iter().fold(0, u64::saturating_add)
    }

    /// Whether nothing was used.
    pub fn is_nothing(&self) -> bool {
        *self == Flows::default()
    }

    /// Adds.
    pub fn add(&mut self, other: &Flows) {
        *self = self.with(other, u64::saturating_add);
    }

    /// What was added since `before`; 0 where a number fell.
    #[must_use]
    pub fn since(&self, before: &Flows) -> Flows {
        self.with(before, u64::saturating_sub)
    }

    /// The later of two versions of one row.
    #[must_use]
    pub(crate) fn later(&self, other: &Flows) -> Flows {
        self.with(other, u64::max)
    }

    fn with(&self, other: &Flows, of: impl Fn(u64, u64) -> u64) -> Flows {
        let (one, other) = (self.numbers(), other.numbers());
        Flows::of(std::array::from_fn(|at| of(one[at], other[at])))
    }

    /// In the order of the file.
    pub(crate) fn numbers(&self) -> [u64; FLOWS] {
        [
            self.hits,
            self.stale,
            self.misses,
            self.revalidations,
            self.passes,
            self.local,
            self.refused,
            self.client_bytes,
            self.origin_requests,
            self.origin_bytes,
        ]
    }

    pub(crate) fn of(numbers: [u64; FLOWS]) -> Flows {
        let [
            hits,
            stale,
            misses,
            revalidations,
            passes,
            local,
            refused,
            client_bytes,
            origin_requests,
            origin_bytes,
        ] = numbers;
        Flows {
            hits,
            stale,
            misses,
            revalidations,
            passes,
            local,
            refused,
            client_bytes,
            origin_requests,
            origin_bytes,
        }
    }
}
