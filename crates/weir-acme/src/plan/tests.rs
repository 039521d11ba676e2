//! What is next for a host, in tables and over virtual weeks.

use proptest::prelude::*;

use super::*;

const CA: &str = "https://ca.example/dir";
const OTHER: &str = "https://other.example/dir";
const NOW: Seconds = 1_800_000_000;
const LIFETIME: Seconds = 90 * DAY_S;

fn authorities() -> Vec<AuthorityRecord> {
    [CA, OTHER].map(|ca| AuthorityRecord { directory: ca.to_owned(), ..AuthorityRecord::default() }).into()
}

fn held(not_after: Seconds) -> Held {
    Held { not_before: not_after - LIFETIME, not_after, id: Some("key.serial".to_owned()) }
}

fn issued_record() -> Record {
    let renewal = Renewal { ask_at: Seconds::MAX, ..Renewal::default() };
    Record { issued_by: Some(CA.to_owned()), renewal, ..Record::default() }
}

fn mishap(at: Seconds) -> Mishap {
    Mishap { at, what: "it failed".to_owned() }
}

/// What is next with one CA.
fn check(record: &Record, held: Option<&Held>, expect: Next) {
    assert_eq!(next(Known { record, held, able: &[0] }, &authorities(), NOW), expect);
}

#[test]
fn who_has_none_orders_and_who_has_one_waits() {
    check(&Record::default(), None, Next::Order { authority: 0 });
    let fresh = held(NOW + LIFETIME);
    // The window is the tenth of the lifetime that ends a third of it before the end.
    let (from, to) = (NOW + 51 * DAY_S, NOW + 60 * DAY_S);
    for (spread, until) in [(0, from), (500, (from + to) / 2), (1000, to), (5000, to)] {
        let record = Record { spread, ..issued_record() };
        check(&record, Some(&fresh), Next::Wait { until, why: Why::Renewal });
    }
    check(&issued_record(), Some(&held(NOW + 39 * DAY_S - 1)), Next::Order { authority: 0 });
    check(&issued_record(), Some(&held(NOW - 1)), Next::Order { authority: 0 });
    // A certificate of a CA that is configured no more.
    let elsewhere = Record { issued_by: Some(OTHER.to_owned()), ..issued_record() };
    check(&elsewhere, Some(&fresh), Next::Order { authority: 0 });
}

#[test]
fn the_ca_says_when_to_renew() {
    let fresh = held(NOW + LIFETIME);
    let mut record = Record { spread: 250, ..issued_record() };
    record.renewal.ask_at = NOW;
    check(&record, Some(&fresh), Next::Ask { authority: 0 });
    assert!(asked(&mut record, (NOW + 1000, NOW + 2000), 21_600, NOW));
    check(&record, Some(&fresh), Next::Wait { until: NOW + 1250, why: Why::Renewal });
    // A window in the past means now; one beyond the end is not believed.
    assert!(asked(&mut record, (NOW - 2000, NOW - 1000), 21_600, NOW));
    check(&record, Some(&fresh), Next::Order { authority: 0 });
    assert!(asked(&mut record, (NOW + 2 * LIFETIME, NOW + 3 * LIFETIME), 21_600, NOW));
    assert_eq!(renew_at(&fresh, &record), fresh.not_after - LIFETIME / 10);
    // One that ends before it begins says nothing, and the earlier one stays.
    assert!(asked(&mut record, (NOW + 1000, NOW + 2000), 21_600, NOW));
    assert!(!asked(&mut record, (NOW + 2000, NOW + 1000), 21_600, NOW));
    assert_eq!(record.renewal.window, Some((NOW + 1000, NOW + 2000)));
    // How often it is asked has bounds.
    for (says, every) in [(0, 60), (3600, 3600), (10 * DAY_S, DAY_S)] {
        assert!(asked(&mut record, (NOW, NOW + 1), says, NOW));
        assert_eq!(record.renewal.ask_at, NOW + every);
    }
}

#[test]
fn a_question_without_an_answer_delays_no_renewal() {
    let fresh = held(NOW + LIFETIME);
    let mut record = issued_record();
    record.renewal.ask_at = 0;
    let mut now = NOW;
    let mut questions = 0;
    loop {
        match next(Known { record: &record, held: Some(&fresh), able: &[0] }, &authorities(), now) {
            Next::Order { .. } => break,
            Next::Ask { .. } => {
                questions += 1;
                unanswered(&mut record, now);
            }
            Next::Wait { until, .. } => {
                assert!(until > now);
                now = until;
            }
        }
    }
    assert_eq!(now, NOW + 51 * DAY_S);
    assert!((51 * 4..=51 * 25).contains(&questions), "{questions}");
}

#[test]
fn a_host_that_is_refused_waits_longer_each_time() {
    let mut all = authorities();
    let mut record = Record::default();
    let mut now = NOW;
    let mut at = Vec::new();
    while now < NOW + 3 * DAY_S {
        match next(Known { record: &record, held: None, able: &[0] }, &all, now) {
            Next::Order { .. } => {
                at.push(now - NOW);
                begun(&mut record, now);
                failed(&mut record, &mut all[0], &Failure::Refused, mishap(now));
            }
            Next::Wait { until, .. } => now = until,
            Next::Ask { .. } => panic!(),
        }
    }
    assert_eq!(at[..6], [0, 60, 360, 1260, 4860, 12_060]);
    let in_the_first_hour = at.iter().filter(|at| **at < 3600).count();
    assert!(in_the_first_hour < 5, "Let's Encrypt allows five in an hour");
    let today = at.iter().filter(|at| **at < DAY_S).count();
    assert!((7..=ORDERS_A_DAY).contains(&today), "{at:?}");
    assert_eq!(all[0].outages, 0);
}

#[test]
fn a_crash_loop_has_a_days_budget() {
    // Each attempt ends with the process: nothing but `begun` was written.
    let mut record = Record::default();
    let mut now = NOW;
    let mut attempts = 0;
    while now < NOW + DAY_S {
        if let Next::Order { .. } =
            next(Known { record: &record, held: None, able: &[0] }, &authorities(), now)
        {
            begun(&mut record, now);
            record = Record::of_bytes(&record.to_bytes()).unwrap();
            attempts += 1;
        }
        // It is started again each second.
        now += 1;
    }
    assert!(attempts <= ORDERS_A_DAY, "{attempts}");
    // The same holds where each attempt succeeds and its certificate is lost.
    let (mut record, mut all, mut attempts) = (Record::default(), authorities(), 0);
    for now in (NOW..NOW + DAY_S).step_by(60) {
        if let Next::Order { .. } = next(Known { record: &record, held: None, able: &[0] }, &all, now) {
            begun(&mut record, now);
            issued(&mut record, &mut all[0], 0);
            attempts += 1;
        }
    }
    assert_eq!(attempts, ORDERS_A_DAY);
}

/// What a CA does in a virtual history.
#[derive(Clone, Copy, PartialEq)]
enum Ca {
    Works,
    Down,
    Limits,
}

struct History {
    now: Seconds,
    hosts: Vec<(Record, Option<Held>)>,
    all: Vec<AuthorityRecord>,
    /// Requests to each CA.
    asked: [usize; 2],
    /// Moments at which some host had no valid certificate.
    unserved: usize,
}

impl History {
    fn new(hosts: usize) -> History {
        let hosts = vec![(Record::default(), None); hosts];
        History { now: NOW, hosts, all: authorities(), asked: [0; 2], unserved: 0 }
    }

    /// Lives until that moment. Each attempt takes no time.
    fn live(&mut self, until: Seconds, able: &[usize], ca: [Ca; 2]) {
        while self.now < until {
            let mut wake = until;
            for (record, held) in &mut self.hosts {
                let known = Known { record, held: held.as_ref(), able };
                match next(known, &self.all, self.now) {
                    Next::Wait { until, .. } => wake = wake.min(until.max(self.now + 1)),
                    Next::Ask { authority } => {
                        self.asked[authority] += 1;
                        match ca[authority] {
                            Ca::Works => unknown(record, self.now),
                            _ => {
                                unanswered(record, self.now);
                                paused(&mut self.all[authority], None, mishap(self.now));
                            }
                        }
                        wake = self.now + 1;
                    }
                    Next::Order { authority } => {
                        self.asked[authority] += 1;
                        begun(record, self.now);
                        let at = &mut self.all[authority];
                        match ca[authority] {
                            Ca::Works => {
                                issued(record, at, 500);
                                *held = Some(super::tests::held(self.now + LIFETIME));
                            }
                            Ca::Down => {
                                failed(record, at, &Failure::Outage { retry_after: None }, mishap(self.now));
                            }
                            Ca::Limits => {
                                let failure = Failure::Limited { retry_after: Some(7200) };
                                failed(record, at, &failure, mishap(self.now));
                            }
                        }
                        wake = self.now + 1;
                    }
                }
            }
            let is_unserved =
                |held: &Option<Held>| held.as_ref().is_none_or(|held| held.not_after < self.now);
            self.unserved += self.hosts.iter().filter(|(_, held)| is_unserved(held)).count();
            self.now = wake;
        }
    }
}

#[test]
fn a_week_without_the_ca_costs_no_certificate_and_few_requests() {
    let mut history = History::new(200);
    history.live(NOW + 50 * DAY_S, &[0], [Ca::Works; 2]);
    assert_eq!(history.asked[0], 200 + history.questions(50));
    let (unserved, before) = (history.unserved, history.asked[0]);
    // It is down when all are to be renewed.
    history.live(NOW + 59 * DAY_S, &[0], [Ca::Down; 2]);
    let asked = history.asked[0] - before;
    assert!(asked < 9 * 24 * 3, "{asked} requests in nine days of an outage");
    history.live(NOW + 59 * DAY_S + 2 * 3600, &[0], [Ca::Works; 2]);
    assert!(history.hosts.iter().all(|(_, held)| held.as_ref().unwrap().not_after > NOW + 140 * DAY_S));
    assert_eq!(history.unserved, unserved, "all were served all the time");
    assert_eq!(history.all[0].outages, 0);
}

impl History {
    /// How many questions about renewal the hosts have asked: one a day each.
    fn questions(&self, days: usize) -> usize {
        self.hosts.len() * days
    }
}

#[test]
fn who_cannot_wait_goes_to_the_other_ca() {
    let mut history = History::new(3);
    history.live(NOW + DAY_S, &[0, 1], [Ca::Down, Ca::Works]);
    assert!(history.hosts.iter().all(|(record, _)| record.issued_by.as_deref() == Some(OTHER)));
    assert!(history.asked[0] >= OUTAGES_BEFORE_NEXT as usize);
    // Those that have time wait for the first one.
    let mut history = History::new(3);
    history.live(NOW + 50 * DAY_S, &[0, 1], [Ca::Works; 2]);
    history.live(NOW + 58 * DAY_S, &[0, 1], [Ca::Down, Ca::Works]);
    assert!(history.hosts.iter().all(|(record, _)| record.issued_by.as_deref() == Some(CA)));
    // And go when the end comes near.
    history.live(NOW + 80 * DAY_S, &[0, 1], [Ca::Down, Ca::Works]);
    assert!(history.hosts.iter().all(|(record, _)| record.issued_by.as_deref() == Some(OTHER)));
    assert_eq!(history.unserved, 0);
}

#[test]
fn a_host_that_is_refused_tries_the_other_ca_and_holds_up_nobody() {
    let mut all = authorities();
    let mut record = Record::default();
    let mut went = Vec::new();
    let mut now = NOW;
    while went.len() < 6 {
        match next(Known { record: &record, held: None, able: &[0, 1] }, &all, now) {
            Next::Order { authority } => {
                went.push(authority);
                begun(&mut record, now);
                failed(&mut record, &mut all[authority], &Failure::Refused, mishap(now));
            }
            Next::Wait { until, .. } => now = until,
            Next::Ask { .. } => panic!(),
        }
    }
    assert_eq!(went, [0, 0, 1, 0, 1, 0]);
    check(&Record::default(), None, Next::Order { authority: 0 });
    assert_eq!(all, authorities());
}

#[test]
fn a_rate_limit_is_obeyed_and_after_three_hosts_it_is_the_accounts() {
    let mut history = History::new(200);
    history.live(NOW + 3600, &[0], [Ca::Limits; 2]);
    assert!(history.asked[0] <= 6, "{}", history.asked[0]);
    let waits: Vec<_> = history.hosts.iter().filter(|(record, _)| record.last_error.is_some()).collect();
    assert!(waits.iter().all(|(record, _)| record.not_before >= NOW + 7200));
    history.live(NOW + DAY_S, &[0], [Ca::Works; 2]);
    assert!(history.hosts.iter().all(|(_, held)| held.is_some()));
    // What a CA asks for has an end.
    let (mut record, mut all) = (Record::default(), authorities());
    begun(&mut record, NOW);
    let failure = Failure::Limited { retry_after: Some(Seconds::MAX) };
    failed(&mut record, &mut all[0], &failure, mishap(NOW));
    assert_eq!(record.not_before, NOW + RETRY_AFTER_S_MAX);
}

#[test]
fn an_order_is_taken_up_where_it_began() {
    let order = |directory: &str| {
        let url = Some("https://ca.example/order/1".to_owned());
        Record {
            failures: 4,
            order: Some(Pending { directory: directory.to_owned(), url, ..Pending::default() }),
            ..Record::default()
        }
    };
    for (directory, authority) in [(CA, 0), (OTHER, 1)] {
        let record = order(directory);
        let known = Known { record: &record, held: None, able: &[0, 1] };
        assert_eq!(next(known, &authorities(), NOW), Next::Order { authority });
    }
    // A process that ends in order leaves no failure behind.
    let mut record = order(CA);
    let before = record.clone();
    begun(&mut record, NOW);
    put_down(&mut record);
    assert_eq!(record, before);
}

#[test]
fn few_accounts_are_asked_for() {
    let mut authority = AuthorityRecord::default();
    let asked = (NOW..NOW + DAY_S).step_by(60).filter(|now| {
        let may = may_register(&authority, *now);
        if may {
            registering(&mut authority, *now);
        }
        may
    });
    assert_eq!(asked.count(), ACCOUNTS_A_DAY);
    assert!(may_register(&authority, NOW + DAY_S));
    assert_eq!(orders_at_once(&authority, 8), 8);
    authority.outages = 1;
    assert_eq!(orders_at_once(&authority, 8), 1);
}

/// Something that happens to a host.
#[derive(Clone, Debug)]
enum Event {
    Passes(Seconds),
    Begins,
    Refused,
    Outage,
    Limited(Seconds),
    Issued(Seconds),
    Asked(Seconds, Seconds),
    Restarts,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..200_000u64).prop_map(Event::Passes),
        Just(Event::Begins),
        Just(Event::Refused),
        Just(Event::Outage),
        (0..1_000_000u64).prop_map(Event::Limited),
        (3600..LIFETIME).prop_map(Event::Issued),
        (0..LIFETIME, 0..LIFETIME).prop_map(|(from, to)| Event::Asked(from, to)),
        Just(Event::Restarts),
    ]
}

proptest! {
    /// Whatever happens: waiting has an end in the future, the budget holds, and what is written is read
    /// back.
    #[test]
    fn any_history_keeps_the_bounds(events in proptest::collection::vec(event(), 0..60)) {
        let (mut record, mut all, mut now) = (Record::default(), authorities(), NOW);
        let mut held: Option<Held> = None;
        let mut orders: Vec<Seconds> = Vec::new();
        for event in events {
            match event {
                Event::Passes(seconds) => now += seconds,
                Event::Begins => {
                    let known = Known { record: &record, held: held.as_ref(), able: &[0, 1] };
                    match next(known, &all, now) {
                        Next::Order { authority } => {
                            prop_assert!(all[authority].not_before <= now);
                            begun(&mut record, now);
                            orders.push(now);
                        }
                        Next::Wait { until, .. } => prop_assert!(until > now),
                        Next::Ask { authority } => {
                            prop_assert!(held.is_some());
                            prop_assert!(all[authority].not_before <= now);
                        }
                    }
                }
                Event::Refused => failed(&mut record, &mut all[0], &Failure::Refused, mishap(now)),
                // No attempt was made that could be taken back.
                Event::Outage => paused(&mut all[0], None, mishap(now)),
                Event::Limited(wait) => {
                    let failure = Failure::Limited { retry_after: Some(wait) };
                    failed(&mut record, &mut all[0], &failure, mishap(now));
                }
                Event::Issued(lifetime) => {
                    issued(&mut record, &mut all[0], 500);
                    let id = Some("a.b".to_owned());
                    held = Some(Held { not_before: now, not_after: now + lifetime, id });
                }
                Event::Asked(from, to) => drop(asked(&mut record, (now + from, now + to), 600, now)),
                Event::Restarts => {
                    prop_assert_eq!(&Record::of_bytes(&record.to_bytes()).unwrap(), &record);
                    for at in &all {
                        prop_assert_eq!(&AuthorityRecord::of_bytes(&at.to_bytes()).unwrap(), at);
                    }
                }
            }
            let today = orders.iter().filter(|at| **at + DAY_S > now).count();
            prop_assert!(today <= ORDERS_A_DAY);
        }
    }
}
