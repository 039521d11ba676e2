//! All limits of one response's body. The play rate of an MP4 is first *sought*, then *known*, or dropped
//! where the file tells none.

use std::sync::Arc;
use std::time::Instant;

use weir_store::Generation;

use weir_front::Turn;

use super::bucket::Bucket;
use super::media::{self, Found};

/// So many seconds of playing time go out without a limit.
const UNHINDERED_S: u64 = 60;

/// The limits of one response's body.
pub(crate) struct Pace {
    limit: Option<Limit>,
    media: Option<Media>,
    /// Body bytes that went out.
    sent: u64,
}

/// The rate that holds for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// The operator's.
    Said(u64),
    /// The client's. While it holds an origin it is raised up to the operator's own, if there is one.
    Asked(u64, Option<u64>),
}

/// One rate, and the least that holds in its place while the body holds an origin.
struct Limit {
    rate: Rate,
    bucket: Bucket,
    least: Option<Bucket>,
}

impl Limit {
    fn new(rate: Rate, burst_bytes: u64, now: Instant) -> Limit {
        let (Rate::Said(bytes) | Rate::Asked(bytes, _)) = rate;
        Limit { rate, bucket: Bucket::new(bytes, burst_bytes, now), least: None }
    }

    fn turn(&mut self, now: Instant, wanted: u64, least: u64) -> Turn {
        let turn = self.bucket.turn(now, wanted);
        let least = match self.rate {
            Rate::Asked(asked, most) => {
                Some(least.min(most.unwrap_or(u64::MAX))).filter(|least| *least > asked)
            }
            Rate::Said(_) => None,
        };
        let Some(least) = least else { return turn };
        let least = self.least.get_or_insert_with(|| Bucket::new(least, 0, now));
        match (turn, least.turn(now, wanted)) {
            (Turn::Go(one), Turn::Go(other)) => Turn::Go(one.max(other)),
            (Turn::Wait(one), Turn::Wait(other)) => Turn::Wait(one.min(other)),
            (Turn::Go(bytes), Turn::Wait(_)) | (Turn::Wait(_), Turn::Go(bytes)) => Turn::Go(bytes),
        }
    }

    fn take(&mut self, bytes: u64) {
        self.bucket.take(bytes);
        if let Some(least) = &mut self.least {
            least.take(bytes);
        }
    }
}

enum Media {
    /// The bytes that tell the play rate may not have come yet.
    Sought(Sought),
    Known(Bucket),
}

struct Sought {
    generation: Arc<Generation>,
    factor: f64,
    begun: Instant,
    /// The search is repeated when so many bytes went out.
    look_at: u64,
}

impl Pace {
    /// The pace of a response that begins `now`, with a rate and the burst before it. `media` is the
    /// generation, and how many times faster than its play rate it may go out. `None` where nothing is
    /// limited.
    pub(crate) fn new(
        limit: Option<(Rate, u64)>,
        media: Option<(Arc<Generation>, f64)>,
        now: Instant,
    ) -> Option<Pace> {
        let sought =
            |(generation, factor)| Media::Sought(Sought { generation, factor, begun: now, look_at: 0 });
        let media = media.map(sought);
        let limit = limit.map(|(rate, burst_bytes)| Limit::new(rate, burst_bytes, now));
        (limit.is_some() || media.is_some()).then_some(Pace { limit, media, sent: 0 })
    }
}

impl weir_front::Pace for Pace {
    /// Looks for an unknown play rate when new bytes may tell it: after the first bytes, then each time after
    /// twice as many. It reads only held bytes; nothing is fetched for it.
    ///
    /// # Cancel safety
    /// Safe: the next call looks again.
    async fn look(&mut self) {
        let Some(Media::Sought(sought)) = &mut self.media else { return };
        if self.sent < sought.look_at {
            return;
        }
        let found = media::mean_rate(&sought.generation).await;
        sought.look_at = (2 * self.sent).max(1);
        self.media = match found {
            Found::NotYet => return,
            Found::Nothing => None,
            Found::Mean(mean) => {
                let rate = (mean as f64 * sought.factor) as u64;
                let mut bucket = Bucket::new(rate, mean.saturating_mul(UNHINDERED_S), sought.begun);
                bucket.take(self.sent);
                Some(Media::Known(bucket))
            }
        };
    }

    /// How many of `wanted` bytes may go out `now`, or when to ask again.
    fn turn(&mut self, now: Instant, wanted: u64, least: u64) -> Turn {
        let limit = self.limit.as_mut().map_or(Turn::Go(wanted), |limit| limit.turn(now, wanted, least));
        let media = match &mut self.media {
            Some(Media::Known(bucket)) => bucket.turn(now, wanted),
            Some(Media::Sought(_)) | None => Turn::Go(wanted),
        };
        match (limit, media) {
            (Turn::Go(one), Turn::Go(other)) => Turn::Go(one.min(other)),
            (Turn::Wait(one), Turn::Wait(other)) => Turn::Wait(one.max(other)),
            (Turn::Wait(until), Turn::Go(_)) | (Turn::Go(_), Turn::Wait(until)) => Turn::Wait(until),
        }
    }

    /// Notes that so many bytes went out.
    fn took(&mut self, bytes: u64) {
        self.sent += bytes;
        if let Some(limit) = &mut self.limit {
            limit.take(bytes);
        }
        if let Some(Media::Known(media)) = &mut self.media {
            media.take(bytes);
        }
    }
}
