//! What is next for each host, as pure functions of what is known and of the time: order, ask about renewal,
//! or wait. What happened is told by `begun`, `issued`, `failed` and `asked`, which change a record. It is
//! written before the act that it tells of, so that a crash counts as a failure. No I/O and no clock here.
//!
//! - A host without a certificate is due at once; one with a certificate when ARI says so, else a third of
//!   its lifetime before the end, and never later than a tenth before it.
//! - After failures a host waits longer each time ([`BACKOFF_S`]), and a day has [`ORDERS_A_DAY`] at most.
//! - A CA that does not answer is left alone ([`OUTAGE_BACKOFF_S`]), whichever host was refused by it; that
//!   is no failure of the host. Where another CA is configured, hosts that cannot wait go there.

use crate::clock::Seconds;
use crate::record::{AuthorityRecord, Mishap, Pending, Record, Renewal};

/// How long a host waits after its first failure, its second and so on; the last counts for all others.
pub const BACKOFF_S: [Seconds; 7] = [60, 300, 900, 3600, 2 * 3600, 4 * 3600, 6 * 3600];
/// How long a CA that does not answer is left alone.
pub const OUTAGE_BACKOFF_S: [Seconds; 6] = [60, 120, 300, 600, 1800, 3600];
/// How many orders a host begins in a day at most, whatever happens.
pub const ORDERS_A_DAY: usize = 10;
/// How many accounts a CA is asked for in a day at most.
pub const ACCOUNTS_A_DAY: usize = 5;
/// The longest wait that a CA can ask for by `Retry-After`.
const RETRY_AFTER_S_MAX: Seconds = 7 * DAY_S;
const DAY_S: Seconds = 86_400;
/// How often ARI is asked where the CA does not say, and the bounds of what it can say (RFC 9773 §4.3.2).
const ASK_EVERY_S: Seconds = 6 * 3600;
const ASK_EVERY_S_MIN: Seconds = 60;
const ASK_EVERY_S_MAX: Seconds = DAY_S;
/// Failures of a host after which every second attempt goes to the next CA.
const FAILURES_BEFORE_NEXT: u32 = 2;
/// Pauses of a CA after which hosts that cannot wait go to the next CA.
const OUTAGES_BEFORE_NEXT: u32 = 3;
/// Hosts in a row that are told of a rate limit, after which the limit is taken for one of the account.
const LIMITED_BEFORE_PAUSE: u32 = 3;
const THOUSANDTHS: u64 = 1000;

/// A certificate that a host has.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The first second in which it is valid.
    pub not_before: Seconds,
    /// The last one.
    pub not_after: Seconds,
    /// Its name for ARI (RFC 9773 §4.1), where it has an authority key identifier.
    pub id: Option<String>,
}

impl Held {
    fn lifetime(&self) -> Seconds {
        self.not_after.saturating_sub(self.not_before)
    }
}

/// All that is known of one host.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// What is remembered.
    pub record: &'a Record,
    /// The certificate, if there is one.
    pub held: Option<&'a Held>,
    /// The CAs that can issue for it, by their place; never empty.
    pub able: &'a [usize],
}

/// What to do for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Order a certificate, or go on with the order under way, from the CA at this place.
    Order {
        /// Which CA.
        authority: usize,
    },
    /// Ask the CA at this place when to renew.
    Ask {
        /// Which CA.
        authority: usize,
    },
    /// Nothing before that moment.
    Wait {
        /// When.
        until: Seconds,
        /// For what.
        why: Why,
    },
}

/// What a host waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The time to renew.
    Renewal,
    /// The time to ask about renewal.
    Question,
    /// The back-off after failures.
    Backoff,
    /// The day's budget.
    Budget,
    /// The CA, which does not answer or asked for a pause.
    Authority,
}

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The CA cannot be reached, does not work, or refuses the account: no host is to blame.
    Outage {
        /// What the CA asked for by `Retry-After`, in seconds.
        retry_after: Option<Seconds>,
    },
    /// A rate limit.
    Limited {
        /// As above.
        retry_after: Option<Seconds>,
    },
    /// The CA refuses the host. The order is lost.
    Refused,
    /// The order stays, and may succeed later.
    Unsettled,
}

/// What is next for a host.
pub fn next(known: Known<'_>, authorities: &[AuthorityRecord], now: Seconds) -> Next {
    let Known { record, held, .. } = known;
    // A certificate of a CA that is configured no more is replaced.
    let is_ours =
        known.able.iter().any(|at| record.issued_by.as_deref() == Some(&authorities[*at].directory));
    let due = held.filter(|_| is_ours).map_or(0, |held| renew_at(held, record));
    let budget = budget_at(&record.begun, ORDERS_A_DAY, now);
    let (order_at, why) = [(record.not_before, Why::Backoff), (budget, Why::Budget)]
        .into_iter()
        .fold((due, Why::Renewal), |latest, other| if other.0 > latest.0 { other } else { latest });
    let order = match order_at <= now {
        true => match authority_for(known, authorities, now) {
            Ok(authority) => return Next::Order { authority },
            Err(until) => (until, Why::Authority),
        },
        false => (order_at, why),
    };
    let asked = question(known, authorities);
    match asked {
        Some((authority, at)) if at <= now && due > now => Next::Ask { authority },
        Some((_, at)) if at > now && at < order.0 && due > now => {
            Next::Wait { until: at, why: Why::Question }
        }
        _ => Next::Wait { until: order.0, why: order.1 },
    }
}

/// When a certificate is to be renewed: the host's place in the window of ARI (RFC 9773 §4.2), or else in the
/// tenth of the lifetime that ends a third of it before the end.
pub fn renew_at(held: &Held, record: &Record) -> Seconds {
    let lifetime = held.lifetime();
    let end = held.not_after - lifetime / 3;
    let (start, end) = match record.renewal.window {
        Some(window) => window,
        None => (end.saturating_sub(lifetime / 10), end),
    };
    let spread = u64::from(record.spread).min(THOUSANDTHS);
    let at =
        start + (end.saturating_sub(start) as u128 * u128::from(spread) / u128::from(THOUSANDTHS)) as u64;
    at.min(held.not_after - lifetime / 10)
}

/// The CA that knows about renewal, and when it is asked.
fn question(known: Known<'_>, authorities: &[AuthorityRecord]) -> Option<(usize, Seconds)> {
    known.held?.id.as_ref()?;
    let issuer = known.record.issued_by.as_ref()?;
    let at = *known.able.iter().find(|at| authorities[**at].directory == *issuer)?;
    Some((at, known.record.renewal.ask_at.max(authorities[at].not_before)))
}

/// The CA for the next attempt.
///
/// # Errors
/// The moment before which none may be asked.
fn authority_for(known: Known<'_>, authorities: &[AuthorityRecord], now: Seconds) -> Result<usize, Seconds> {
    let Known { record, held, able } = known;
    let of_order = record.order.as_ref().filter(|order| order.url.is_some());
    let of_order =
        of_order.and_then(|order| able.iter().find(|at| authorities[**at].directory == order.directory));
    let turn = match record.failures {
        few if few < FAILURES_BEFORE_NEXT => 0,
        many => (many - FAILURES_BEFORE_NEXT + 1) as usize % able.len(),
    };
    let preferred = of_order.copied().unwrap_or(able[turn]);
    let is_paused = |at: usize| authorities[at].not_before > now;
    if !is_paused(preferred) {
        return Ok(preferred);
    }
    let is_urgent = held.is_none_or(|held| held.not_after.saturating_sub(now) < held.lifetime() / 6);
    let is_down = authorities[preferred].outages >= OUTAGES_BEFORE_NEXT;
    if let Some(other) = able.iter().find(|at| !is_paused(**at) && is_urgent && is_down) {
        return Ok(*other);
    }
    let able = if is_urgent && is_down { able } else { std::slice::from_ref(&preferred) };
    Err(able.iter().map(|at| authorities[*at].not_before).min().unwrap_or(now))
}

/// When a budget of so many in a day has room again.
fn budget_at(begun: &[Seconds], a_day: usize, now: Seconds) -> Seconds {
    let today = begun.iter().filter(|at| **at + DAY_S > now).count();
    match today < a_day {
        true => 0,
        false => begun[begun.len() - a_day] + DAY_S,
    }
}

/// How many orders may run at a CA at once: one finds out whether a CA that did not answer does again.
pub fn orders_at_once(authority: &AuthorityRecord, orders_max: usize) -> usize {
    if authority.outages > 0 || authority.limited > 0 { 1 } else { orders_max }
}

/// Whether a CA may be asked for a new account.
pub fn may_register(authority: &AuthorityRecord, now: Seconds) -> bool {
    budget_at(&authority.registered, ACCOUNTS_A_DAY, now) <= now
}

/// Notes that a CA is asked for an account.
pub fn registering(authority: &mut AuthorityRecord, now: Seconds) {
    authority.registered.retain(|at| at + DAY_S > now);
    authority.registered.push(now);
}

/// Notes that an attempt begins. It counts as a failure until it has succeeded.
pub fn begun(record: &mut Record, now: Seconds) {
    record.begun.retain(|at| at + DAY_S > now);
    record.begun.push(now);
    record.failures = record.failures.saturating_add(1);
    record.not_before = now + step(&BACKOFF_S, record.failures);
}

/// Notes that an attempt was put down for no fault of the host (the process ends, the CA is down): it can go
/// on at any time.
pub fn put_down(record: &mut Record) {
    record.begun.pop();
    record.failures = record.failures.saturating_sub(1);
    record.not_before = 0;
}

/// Notes the certificate of an attempt.
pub fn issued(record: &mut Record, authority: &mut AuthorityRecord, spread: u32) {
    *record = Record {
        begun: std::mem::take(&mut record.begun),
        spread,
        issued_by: Some(authority.directory.clone()),
        ..Record::default()
    };
    works(authority);
}

/// Notes that a CA does what it is for.
pub fn works(authority: &mut AuthorityRecord) {
    (authority.outages, authority.limited, authority.not_before) = (0, 0, 0);
    authority.last_error = None;
}

/// Notes how an attempt failed.
pub fn failed(record: &mut Record, authority: &mut AuthorityRecord, failure: &Failure, mishap: Mishap) {
    let now = mishap.at;
    match *failure {
        Failure::Outage { retry_after } => {
            put_down(record);
            paused(authority, retry_after, mishap.clone());
        }
        Failure::Limited { retry_after } => {
            let wait = bounded(retry_after.unwrap_or(BACKOFF_S[3]));
            record.not_before = record.not_before.max(now + wait);
            authority.limited = authority.limited.saturating_add(1);
            if authority.limited >= LIMITED_BEFORE_PAUSE && authority.not_before <= now {
                authority.not_before = now + wait.min(BACKOFF_S[3]);
            }
        }
        Failure::Refused => authority.limited = 0,
        Failure::Unsettled => {}
    }
    if matches!(failure, Failure::Refused | Failure::Limited { .. }) {
        // What was validated stays with the CA; a new order has a new key.
        record.order = None;
    }
    record.last_error = Some(mishap);
}

/// Notes that a CA did not answer. Several orders that notice the same outage count once.
pub fn paused(authority: &mut AuthorityRecord, retry_after: Option<Seconds>, mishap: Mishap) {
    let now = mishap.at;
    if authority.not_before <= now {
        authority.outages = authority.outages.saturating_add(1);
        let wait = step(&OUTAGE_BACKOFF_S, authority.outages);
        authority.not_before = now + wait.max(bounded(retry_after.unwrap_or(0)));
    }
    authority.last_error = Some(mishap);
}

/// Notes what a CA says about renewal: the window and when to ask again.
///
/// A window that ends before it begins says nothing (RFC 9773 §4.2).
pub fn asked(record: &mut Record, window: (Seconds, Seconds), again_s: Seconds, now: Seconds) -> bool {
    if window.0 >= window.1 {
        unanswered(record, now);
        return false;
    }
    let ask_at = now + again_s.clamp(ASK_EVERY_S_MIN, ASK_EVERY_S_MAX);
    record.renewal = Renewal { window: Some(window), ask_at, failures: 0 };
    true
}

/// Notes that a question about renewal had no answer. The window that was known stays.
pub fn unanswered(record: &mut Record, now: Seconds) {
    record.renewal.failures = record.renewal.failures.saturating_add(1);
    record.renewal.ask_at = now + step(&OUTAGE_BACKOFF_S, record.renewal.failures).min(ASK_EVERY_S);
}

/// Notes that a CA has no ARI: it is asked again after a day.
pub fn unknown(record: &mut Record, now: Seconds) {
    record.renewal = Renewal { window: None, ask_at: now + DAY_S, failures: 0 };
}

/// An order that begins: with the key that is left of one that never reached the CA.
pub fn pending(record: &Record, directory: &str) -> Option<Pending> {
    record.order.clone().filter(|order| order.directory == directory)
}

fn step(steps: &[Seconds], count: u32) -> Seconds {
    let last = steps.len() - 1;
    steps[(count.max(1) as usize - 1).min(last)]
}

fn bounded(retry_after: Seconds) -> Seconds {
    retry_after.min(RETRY_AFTER_S_MAX)
}

#[cfg(test)]
mod tests;
