//! How many orders a token of some sites may give: the history of these is one for all such tokens, and a
//! flood of one would push out the entries of the others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;

use crate::answer::Refusal;

/// The orders that a token may give at once,
const BURST: u32 = 600;
/// and the time after which it may give one more.
const EACH: Duration = Duration::from_millis(500);

/// When each token's orders are used up: it has so many left as `EACH` fits into the time since then.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<String, Instant>>);

impl Rates {
    /// Counts an order.
    ///
    /// # Errors
    /// 429 where there were too many.
    pub(crate) fn take(&self, identity: &str, now: Instant) -> Result<(), Refusal> {
        let whole = EACH * BURST;
        let mut of = self.0.lock();
        of.retain(|_, empty| now.saturating_duration_since(*empty) < whole);
        let full = now.checked_sub(whole).unwrap_or(now);
        let empty = of.entry(identity.to_owned()).or_insert(full);
        let next = (*empty).max(full) + EACH;
        if next > now {
            let message =
                format!("a token of some sites gives {BURST} orders at once, and then two a second");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too-many-orders", message)
                .help("name up to a thousand scopes in one order, or wait")
                .field(RETRY_AFTER, HeaderValue::from_static("1")));
        }
        *empty = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_token_is_bounded_and_others_are_not_concerned() {
        let rates = Rates::default();
        let begun = crate::clock::mono() + Duration::from_secs(3600);
        let taken = (0..45_000).filter(|_| rates.take("a", begun).is_ok()).count();
        assert_eq!(taken, BURST as usize);
        assert!(rates.take("b", begun).is_ok());
        let later = begun + Duration::from_secs(10);
        assert_eq!((0..100).filter(|_| rates.take("a", later).is_ok()).count(), 20);
        let much_later = begun + Duration::from_secs(3600);
        assert_eq!((0..1000).filter(|_| rates.take("a", much_later).is_ok()).count(), BURST as usize);
        assert_eq!(rates.0.lock().len(), 1, "who is quiet is forgotten");
    }
}
