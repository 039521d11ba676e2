//! A file as a representation: for its own path, in place of another one, or as content by hand. Weir is its
//! origin, and nothing of an intermediary is said.

use std::sync::Arc;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_body::{Body, PrintedSlot};
use weir_files::{File, Reading, Sums};
use weir_observe::Outcome;
use weir_policy::{Ask, Interval, Stored};
use weir_store::Generation;

use super::{Holding, Representation, answer, printed_for};
use crate::deliver::source::Kept;
use crate::exchange::{Exchange, Told};
use crate::files::{BY_HAND, WORD};
use crate::late::Late;
use crate::plan::Route;
use crate::response::Response;

/// What a file is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For its own path.
    Itself,
    /// For a path where there is nothing, as the `fallback`.
    Instead,
    /// For a URL over which it is laid by hand.
    ByHand,
}

/// What is sent as files are.
pub(crate) struct Sending<'s> {
    /// Its bytes are the first ones of this file.
    pub(crate) file: Arc<File>,
    /// How many.
    pub(crate) length: u64,
    /// Fields and validators.
    pub(crate) stored: &'s Stored,
    /// Where its head is kept once it is printed.
    pub(crate) printed: Option<&'s PrintedSlot>,
    pub(crate) purpose: Purpose,
    /// What the bytes must be, where that is known.
    pub(crate) sums: Option<Arc<Sums>>,
}

/// A file that is sent.
struct OfFile<'f> {
    file: Arc<File>,
    sums: Option<Arc<Sums>>,
    purpose: Purpose,
    route: &'f Route,
    scheme: &'f str,
}

/// Sends what is sent as a file is. None where the method asks for something else.
pub(crate) fn send(exchange: &mut Exchange<'_, '_>, sending: Sending<'_>) -> Option<Response> {
    let (asked, chosen) = (exchange.asked, exchange.chosen);
    let ask = Ask::of_own(&asked.request.method, &asked.request.headers)?;
    let Sending { file, length, stored, printed, purpose, sums } = sending;
    let word = if purpose == Purpose::ByHand { BY_HAND } else { WORD };
    exchange.told.outcome(Outcome::Local, word);
    let mut of = printed_for(asked, chosen);
    of.is_instead = purpose == Purpose::Instead;
    let what = Representation {
        stored,
        own_fields: None,
        length: Some(length),
        printed: printed.map(|slot| (slot, of)),
        late: Late::file(word, asked.now.wall),
    };
    let holding = OfFile { file, sums, purpose, route: chosen.route, scheme: asked.scheme };
    Some(answer(exchange, &ask, what, holding))
}

impl Holding for OfFile<'_> {
    fn present(&self, mut fields: HeaderMap, status: StatusCode) -> HeaderMap {
        if self.purpose == Purpose::Instead {
            // A file may come to be there. No lifetime for browsers replaces this.
            fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        self.route.secure(&mut fields, self.scheme);
        match self.purpose {
            // Browsers keep it for no longer than it is there.
            Purpose::ByHand => self.route.edit_response(&mut fields),
            Purpose::Itself | Purpose::Instead => self.route.present(&mut fields, status, 0),
        }
        fields
    }

    fn note_unmet(&self, told: &mut Told<'_>, word: &'static str) {
        told.outcome(Outcome::Local, word);
    }

    fn generation(&self) -> Option<&Arc<Generation>> {
        None
    }

    fn kept(self, exchange: &mut Exchange<'_, '_>, interval: Interval) -> Kept {
        let asked = exchange.asked;
        let bounds = (interval.start, interval.end);
        let reading = Reading::new(self.file, asked.core.shared.files.clone(), bounds).checked(self.sums);
        let is_at_hand = reading.at_hand().is_some() || reading.sealed().is_some();
        Kept::File(Box::new(if is_at_hand { reading } else { reading.of(asked.sharer()) }))
    }
}
