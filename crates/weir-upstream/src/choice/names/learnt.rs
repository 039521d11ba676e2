//! What is known of a name after an answer of DNS. Pure.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Instant;

use crate::choice::adjust::Found;
use crate::choice::dns::{Answer, FOUND_MAX};

/// The most addresses of a name that are drained.
const GONE_MAX: usize = 1000;

impl Found {
    pub(crate) fn of(at: SocketAddr, weight: Option<u32>, role: Option<crate::settings::Role>) -> Found {
        Found { at, weight, role, gone: None }
    }
}

/// What is known of a name after an answer; `None` where nothing has changed. Whatever DNS says, there are at
/// most [`FOUND_MAX`] addresses that count as named and [`GONE_MAX`] that do not.
pub(super) fn learnt(before: &[Found], answer: &Answer, now: Instant) -> Option<Vec<Found>> {
    let named: HashSet<SocketAddr> = answer.found.iter().map(|found| found.at).collect();
    let mut after = answer.found.clone();
    let mut gone = Vec::new();
    for old in before.iter().filter(|old| !named.contains(&old.at)) {
        let is_known = if old.at.is_ipv4() { answer.is_known.0 } else { answer.is_known.1 };
        match old.gone {
            // The name server was silent about its family.
            None if !is_known && after.len() < FOUND_MAX => after.push(old.clone()),
            since => gone.push(Found { gone: Some(since.unwrap_or(now)), ..old.clone() }),
        }
    }
    // Those stay that went last.
    gone.sort_by_key(|found| (std::cmp::Reverse(found.gone), found.at));
    gone.truncate(GONE_MAX);
    after.append(&mut gone);
    after.sort_by_key(|found| found.at);
    (after != before).then_some(after)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    fn found(at: &str) -> Found {
        Found::of(at.parse().unwrap(), None, None)
    }

    fn numbered(number: u32) -> Found {
        let [one, high, low, last] = number.to_be_bytes();
        found(&format!("10.{}.{low}.{last}:80", high ^ one))
    }

    fn answer(found: Vec<Found>, is_known: (bool, bool)) -> Answer {
        Answer { found, is_known, ..Answer::default() }
    }

    #[test]
    fn no_more_than_so_many_are_drained() {
        let now = clock::now();
        let gone = |number: u32| {
            let gone = Some(now + Duration::from_secs(number.into()));
            Found { gone, ..numbered(number) }
        };
        let before: Vec<Found> = (0..1500).map(gone).collect();
        let after = learnt(&before, &answer(vec![found("10.1.0.0:80")], (true, true)), now).unwrap();
        assert_eq!(after.len(), GONE_MAX + 1);
        assert_eq!(after[0], before[500], "those stay that went last");
    }

    #[test]
    fn whatever_dns_says_there_is_a_ceiling() {
        let mut random = fastrand::Rng::with_seed(17);
        let (begun, mut known, mut next) = (clock::now(), Vec::new(), 0);
        for round in 0..200_u64 {
            let now = begun + Duration::from_secs(round);
            let count = [1, 16, 1000][random.usize(..3)];
            let of_number = |number: u32| match number % 3 {
                1.. => numbered(number),
                0 => found(&format!("[fd00::{:x}:{:x}]:80", number >> 16, number & 0xffff)),
            };
            let mut all: Vec<Found> = (next..next + count as u32).map(of_number).collect();
            all.sort_by_key(|found| found.at);
            next += random.u32(..2 * count as u32);
            let answer = answer(all.clone(), (random.bool(), random.bool()));
            let Some(after) = learnt(&known, &answer, now) else { continue };
            let named = |all: &[Found]| all.iter().filter(|found| found.gone.is_none()).count();
            assert!(named(&after) <= FOUND_MAX && after.len() - named(&after) <= GONE_MAX, "{round}");
            assert!(all.iter().all(|found| after.contains(found)), "{round}: what is named is used");
            assert!(after.windows(2).all(|two| two[0].at < two[1].at), "{round}: each address once");
            known = after;
        }
        assert!(known.len() > FOUND_MAX, "it came near the ceiling");
    }

    #[test]
    fn what_is_not_named_any_more_is_gone_and_comes_back() {
        let (now, later) = (clock::now(), clock::now() + Duration::from_secs(5));
        let (a, b, six) = (found("10.0.0.1:80"), found("10.0.0.2:80"), found("[::1]:80"));
        let answer = |found: &[Found], six| answer(found.to_vec(), (true, six));
        let all = learnt(&[], &answer(&[a.clone(), b.clone(), six.clone()], true), now).unwrap();
        assert_eq!(learnt(&all, &answer(&all, true), now), None);
        let less = learnt(&all, &answer(std::slice::from_ref(&a), false), now).unwrap();
        assert_eq!(less[1].gone, Some(now));
        assert_eq!(less[2].gone, None, "nothing is known of the other family");
        let still = learnt(&less, &answer(std::slice::from_ref(&a), true), later).unwrap();
        assert_eq!((still[1].gone, still[2].gone), (Some(now), Some(later)));
        assert_eq!(learnt(&still, &answer(&[a, b, six], true), later), Some(all));
    }
}
