//! What one client may ask: so many questions a second, a /48 eight times as many. Pure: time is an argument.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_share::{ByClient, Client};

/// Addresses that are counted each for itself; the others share one count.
const ADDRESSES_MAX: usize = 4096;

/// The questions of this second, by address. Each thread has its own.
#[derive(Debug)]
pub(super) struct Sources {
    second: Mutex<Second>,
}

#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    counts: ByClient<u32>,
    others: u32,
}

impl Sources {
    pub(super) fn shared() -> Arc<Sources> {
        Arc::new(Sources { second: Mutex::default() })
    }

    /// Whether one more question of this address is answered.
    pub(super) fn may_ask(&self, address: IpAddr, rate: u32, now: Instant) -> bool {
        let mut second = self.second.lock();
        let is_new =
            second.began.is_none_or(|began| now.saturating_duration_since(began) >= Duration::from_secs(1));
        if is_new {
            second.began = Some(now);
            second.counts.clear();
            second.others = 0;
        }
        let client = Client::of(address);
        if second.counts.len() >= ADDRESSES_MAX && !second.counts.contains(client) {
            second.others = second.others.saturating_add(1);
            return second.others <= rate;
        }
        let may = second.counts.fits(client, |count| u64::from(*count), 1, u64::from(rate));
        if may {
            second.counts.change(client, |count| *count += 1);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_ask_so_much_in_a_second_and_no_other_one_loses_by_it() {
        let (sources, now) = (Sources::shared(), crate::clock::now());
        let one = IpAddr::from([127, 0, 0, 1]);
        let asked = (0..50).filter(|_| sources.may_ask(one, 10, now)).count();
        assert_eq!(asked, 10);
        assert!(sources.may_ask(IpAddr::from([127, 0, 0, 2]), 10, now));
        assert!(sources.may_ask(one, 10, now + Duration::from_secs(1)));
    }

    #[test]
    fn addresses_are_bounded_and_those_beyond_share_a_count() {
        let (sources, now) = (Sources::shared(), crate::clock::now());
        let all = 0..10_000_u32;
        let asked = all.filter(|at| sources.may_ask(IpAddr::from(at.to_be_bytes()), 10, now)).count();
        assert_eq!(asked, ADDRESSES_MAX + 10);
        assert_eq!(sources.second.lock().counts.len(), ADDRESSES_MAX);
    }
}
