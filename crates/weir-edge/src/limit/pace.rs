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
    limit: Option<Bucket>,
    media: Option<Media>,
    /// Body bytes that went out.
    sent: u64,
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
    /// The pace of a response that begins `now`. `media` is the generation, and how many times faster than
    /// its play rate it may go out. `None` where nothing is limited.
    pub(crate) fn new(
        limit: Option<Bucket>,
        media: Option<(Arc<Generation>, f64)>,
        now: Instant,
    ) -> Option<Pace> {
        let sought =
            |(generation, factor)| Media::Sought(Sought { generation, factor, begun: now, look_at: 0 });
        let media = media.map(sought);
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
    fn turn(&mut self, now: Instant, wanted: u64) -> Turn {
        let media = match &mut self.media {
            Some(Media::Known(bucket)) => Some(bucket),
            Some(Media::Sought(_)) | None => None,
        };
        let mut turn = Turn::Go(wanted);
        for bucket in self.limit.iter_mut().chain(media) {
            turn = match (turn, bucket.turn(now, wanted)) {
                (Turn::Go(one), Turn::Go(other)) => Turn::Go(one.min(other)),
                (Turn::Wait(one), Turn::Wait(other)) => Turn::Wait(one.max(other)),
                (Turn::Wait(until), Turn::Go(_)) | (Turn::Go(_), Turn::Wait(until)) => Turn::Wait(until),
            };
        }
        turn
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
