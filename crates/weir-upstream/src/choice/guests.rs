//! Addresses that a decider has named although no origin of the upstream is there, where the administrator
//! allows that: each becomes an origin for the requests that it is named for, and for no others. It is
//! reached as the first origin of the upstream is. Bounded; one that is not used for a minute is forgotten.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::choice::roster::{Member, Roster};
use crate::health::standing::Standing;
use crate::origin::Origin;
use crate::sessions::affinity::OriginId;
use crate::settings::{OriginAddress, OriginSettings, Role};

/// The most of an upstream. Further ones are not used until one has been idle.
const GUESTS_MAX: usize = 1024;
const IDLE: Duration = Duration::from_secs(60);

/// The guests of an upstream.
#[derive(Debug, Default)]
pub(crate) struct Guests(Mutex<HashMap<SocketAddr, Guest>>);

#[derive(Debug)]
struct Guest {
    origin: Arc<Origin>,
    /// The roster that has it as its last member, with the one that this was made of.
    seated: Option<(Arc<Roster>, Arc<Roster>)>,
    used: Instant,
}

impl Guests {
    /// This roster with an origin at this address as its last member, which takes no share; `make` makes it.
    /// `None` where there is no room for one more, or it is ejected.
    pub(crate) fn seat(
        &self,
        roster: &Arc<Roster>,
        (socket, now): (SocketAddr, Instant),
        make: impl FnOnce() -> Option<Origin>,
    ) -> Option<Arc<Roster>> {
        let mut guests = self.0.lock();
        if !guests.contains_key(&socket) {
            if guests.len() >= GUESTS_MAX {
                guests.retain(|_, guest| now.saturating_duration_since(guest.used) < IDLE);
            }
            if guests.len() >= GUESTS_MAX {
                return None;
            }
            guests.insert(socket, Guest { origin: Arc::new(make()?), seated: None, used: now });
        }
        let guest = guests.get_mut(&socket)?;
        guest.used = now;
        if guest.origin.standing() != Standing::Ready {
            return None;
        }
        if let Some((seated, of)) = &guest.seated
            && Arc::ptr_eq(of, roster)
        {
            return Some(seated.clone());
        }
        let id = OriginId::of_address(guest.origin.name());
        let member = Member { origin: guest.origin.clone(), weight: 1, role: Role::Primary, id, node: None };
        let seated = Arc::new(roster.with_guest(member));
        guest.seated = Some((seated.clone(), roster.clone()));
        Some(seated)
    }
}

/// Settings of an origin there, in the way of the upstream's first one.
pub(crate) fn settings(origins: &[OriginSettings], socket: SocketAddr) -> OriginSettings {
    match origins.first().map(|first| &first.address) {
        Some(address @ OriginAddress::Https { .. }) => {
            OriginSettings { at: Some(socket), ..OriginSettings::new(address.clone()) }
        }
        _ => OriginSettings::new(OriginAddress::Http { host: socket.ip().to_string(), port: socket.port() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::UpstreamSettings;
    use crate::upstream::Upstream;

    #[test]
    fn guests_are_bounded_and_leave_when_they_are_idle() {
        let origin = "http://127.0.0.1:1".parse().unwrap();
        let upstream = Upstream::new(UpstreamSettings::single("app", origin)).unwrap();
        let (roster, mut now) = (upstream.roster(), crate::clock::now());
        let at = |number: usize| SocketAddr::from(([10, 0, (number / 256) as u8, number as u8], 80));
        let seat = |number: usize, now: Instant| {
            upstream.guests.seat(&roster, (at(number), now), || upstream.origin_at(at(number)))
        };
        let first = seat(0, now).unwrap();
        assert_eq!((first.members.len(), first.at_socket(at(0))), (2, Some(1)));
        assert!(!first.takes_share(1) && first.takes_share(0));
        assert!(Arc::ptr_eq(&first, &seat(0, now).unwrap()), "made once");
        assert!((1..GUESTS_MAX).all(|number| seat(number, now).is_some()));
        assert!(seat(GUESTS_MAX, now).is_none());
        now += IDLE / 2;
        assert!(seat(0, now).is_some());
        now += IDLE / 2;
        assert!(seat(GUESTS_MAX, now).is_some());
        assert_eq!(upstream.guests.0.lock().len(), 2);
        assert_eq!(roster.members.len(), 1);
    }

    #[test]
    fn a_guest_is_reached_as_the_first_origin_is() {
        let socket = "10.0.0.9:8443".parse().unwrap();
        let of = |url: &str| settings(&[OriginSettings::new(url.parse().unwrap())], socket).name();
        assert_eq!(of("https://a.example"), "https://a.example@10.0.0.9:8443");
        assert_eq!(of("http://a.example"), "http://10.0.0.9:8443");
        assert_eq!(of("unix:/run/a.sock"), "http://10.0.0.9:8443");
    }
}
