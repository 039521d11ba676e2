//! The attempts of a transfer at origins, as far as they have come, for the traces of the requests that read
//! it. The log of requests to origins shows an attempt once it has ended. A trace is written when its request
//! has ended, and the attempt may go on. It must not decide anything.

use std::time::Instant;

use parking_lot::Mutex;
use weir_observe::trace::{Moment, Step, TRIES_MAX, Tried, TriedEnd};
use weir_observe::{AskedEnd, AskedId, Purpose};
use weir_upstream::{Attempt, AttemptEnd, Link, Picked};

/// The attempts of one transfer, the oldest first; those beyond [`TRIES_MAX`] are left out.
#[derive(Debug, Default)]
pub(super) struct Tries(Mutex<Vec<(Instant, Tried)>>);

impl Tries {
    /// An attempt of a request is under way.
    pub(super) fn under_way(&self, (id, purpose): (AskedId, Purpose), attempt: &Attempt) {
        self.note((id, purpose), attempt, None);
    }

    /// It has ended.
    pub(super) fn ended(&self, (id, purpose): (AskedId, Purpose), attempt: &Attempt) {
        let end = end_of(attempt);
        let error = match end {
            AskedEnd::Failed(word) | AskedEnd::Cut(word) => word,
            AskedEnd::Whole | AskedEnd::Abandoned => "",
        };
        let total = attempt.ended.saturating_duration_since(attempt.begun);
        self.note((id, purpose), attempt, Some(TriedEnd { total, completion: end.word(), error }));
    }

    /// A request will make no further attempt.
    pub(super) fn over(&self, id: AskedId, now: Instant) {
        for (begun, tried) in self.0.lock().iter_mut().filter(|(_, tried)| tried.asked == id.0) {
            let total = now.saturating_duration_since(*begun);
            let completion = AskedEnd::Abandoned.word();
            tried.ended.get_or_insert(TriedEnd { total, completion, error: "" });
        }
    }

    fn note(&self, (id, purpose): (AskedId, Purpose), attempt: &Attempt, ended: Option<TriedEnd>) {
        let mut all = self.0.lock();
        let is_it =
            |(_, known): &&mut (Instant, Tried)| known.asked == id.0 && known.attempt == attempt.number;
        let (connection, connect) = match attempt.connection {
            None => ("", None),
            Some(Link::New(took)) => ("new", Some(took)),
            Some(Link::Reused) => ("reused", None),
        };
        let tried = || Tried {
            asked: id.0,
            purpose: purpose.word(),
            attempt: attempt.number,
            retry: attempt.retry.unwrap_or_default(),
            origin: attempt.origin.clone(),
            pick: attempt.picked.map(Picked::words).unwrap_or_default(),
            address: attempt.address.clone().unwrap_or_default(),
            connection,
            connect,
            status: attempt.status.map(|status| status.as_u16()),
            first_byte: attempt.first_byte,
            received_bytes: attempt.received_bytes,
            ended,
        };
        if let Some((_, known)) = all.iter_mut().find(is_it) {
            *known = tried();
        } else if all.len() < TRIES_MAX {
            all.push((attempt.begun, tried()));
        }
    }

    /// Appends them as steps of a request whose head had been read at `since`.
    pub(super) fn write(&self, since: Instant, out: &mut Vec<Moment>) {
        for (begun, tried) in self.0.lock().iter() {
            let after = begun.saturating_duration_since(since).as_micros();
            let before = since.saturating_duration_since(*begun).as_micros();
            let us = |micros: u128| i64::try_from(micros).unwrap_or(i64::MAX);
            let at_us = if before > 0 { -us(before) } else { us(after) };
            out.push(Moment { at_us, step: Step::Tried(Box::new(tried.clone())) });
        }
    }
}

/// How an attempt ended, as its log says it.
pub(super) fn end_of(attempt: &Attempt) -> AskedEnd {
    match attempt.end {
        AttemptEnd::Whole => AskedEnd::Whole,
        AttemptEnd::Abandoned => AskedEnd::Abandoned,
        AttemptEnd::Failed(word) if attempt.status.is_some() => AskedEnd::Cut(word),
        AttemptEnd::Failed(word) => AskedEnd::Failed(word),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn attempt(number: u32, begun: Instant) -> Attempt {
        Attempt {
            number,
            retry: (number > 1).then_some("connect-refused"),
            origin: Arc::from("one"),
            address: None,
            connection: None,
            picked: None,
            begun,
            first_byte: None,
            ended: begun,
            status: None,
            content_type: None,
            sent_bytes: 0,
            received_bytes: 0,
            end: AttemptEnd::Whole,
        }
    }

    fn said(tries: &Tries, since: Instant) -> Vec<(i64, u32, &'static str, &'static str)> {
        let mut moments = Vec::new();
        tries.write(since, &mut moments);
        let line = |moment: &Moment| {
            let Step::Tried(tried) = &moment.step else { panic!("{moment:?}") };
            let end = tried.ended.map_or(("", ""), |end| (end.completion, end.error));
            (moment.at_us, tried.attempt, end.0, end.1)
        };
        moments.iter().map(line).collect()
    }

    #[test]
    fn an_attempt_is_shown_as_far_as_it_has_come() {
        let (tries, since) = (Tries::default(), weir_clock::mono());
        let of = (AskedId(7), Purpose::Fill);
        let ms = Duration::from_millis;
        let first = attempt(1, since - ms(2));
        tries.under_way(of, &first);
        assert_eq!(said(&tries, since), [(-2000, 1, "", "")]);
        tries.ended(of, &Attempt { end: AttemptEnd::Failed("connect-refused"), ..first });
        tries.under_way(of, &attempt(2, since + ms(3)));
        let expect = [(-2000, 1, "failed", "connect-refused"), (3000, 2, "", "")];
        assert_eq!(said(&tries, since), expect);
        let status = Some(http::StatusCode::OK);
        tries.ended(of, &Attempt { status, end: AttemptEnd::Failed("reset"), ..attempt(2, since + ms(3)) });
        assert_eq!(said(&tries, since)[1], (3000, 2, "cut", "reset"));
        // Another request, given up before it has sent anything.
        tries.under_way((AskedId(8), Purpose::Fill), &attempt(1, since));
        tries.over(AskedId(8), since + ms(1));
        assert_eq!(said(&tries, since)[2], (0, 1, "abandoned", ""));
        assert_eq!(said(&tries, since)[1].2, "cut");
    }

    #[test]
    fn so_many_are_shown() {
        let (tries, since) = (Tries::default(), weir_clock::mono());
        for number in 1..100 {
            tries.under_way((AskedId(7), Purpose::Fill), &attempt(number, since));
        }
        assert_eq!(said(&tries, since).len(), TRIES_MAX);
    }
}
