//! A process and the one that takes its place know the same.

use super::*;
use crate::choice::adjust::Adjustments;
use crate::health::standing::Standing;
use crate::settings::{AgentSettings, CheckAsk, CheckSettings, OriginSettings, UpstreamSettings};
use crate::snapshot::OriginSnapshot;

fn settings() -> UpstreamSettings {
    let every = Duration::from_secs(60);
    let origin = |url: &str| OriginSettings::new(url.parse().unwrap());
    UpstreamSettings {
        origins: ["http://app.test:80", "http://10.0.0.1:80"].map(origin).into(),
        check: Some(CheckSettings { ask: CheckAsk::Connect, every, timeout: every, rise: 2, fall: 3 }),
        agent: Some(AgentSettings { port: 1, send: bytes::Bytes::new(), every }),
        each_by: Some(Vec::new()),
        ..UpstreamSettings::single("app", "http://app.test:80".parse().unwrap())
    }
}

#[test]
fn what_one_process_knows_the_next_one_knows() {
    let old = Upstream::new(settings()).unwrap();
    let now = clock::now();
    let found = |number: u8, weight| Found::of(SocketAddr::from(([10, 0, 1, number], 80)), weight, None);
    let gone = Found { gone: Some(now), ..found(3, None) };
    let backup = Found { role: Some(Role::Backup), ..found(2, Some(7)) };
    old.find("http://app.test:80", vec![found(1, None), backup, gone]).unwrap();
    let origin = |upstream: &Upstream, at: usize| upstream.roster().origin(at).clone();
    origin(&old, 0).carry_check(State::Down { successes: 1 });
    let said = Said { order: Order::Maintenance, percent: 30, connections: Some(5), ..Said::default() };
    origin(&old, 1).carry_check(State::Up { failures: 2 });
    origin(&old, 1).agent.lock().carry(said, ("maint 30% maxconn:5 # disk", "disk"), now);
    origin(&old, 1).heed(said);
    origin(&old, 3).set_latency(Duration::from_millis(3));
    let carried = old.carried();
    let new = Upstream::adjusted(settings(), Adjustments::new()).unwrap();
    new.carry(&carried);
    let timeless = |upstream: &Upstream| {
        let mut all = upstream.carried();
        for one in &mut all {
            one.latency = Duration::ZERO;
            if let Some(find) = &mut one.found {
                find.gone_for = find.gone_for.map(|_| Duration::ZERO);
            }
        }
        all
    };
    assert_eq!(timeless(&new), timeless(&old));
    let standings = |upstream: &Upstream| {
        let all = upstream.snapshot().origins;
        all.into_iter().map(|origin| (origin.name, origin.standing)).collect::<Vec<_>>()
    };
    assert_eq!(standings(&new), standings(&old));
    let expect = [Standing::Down, Standing::Maintenance, Standing::Draining, Standing::Ready];
    assert_eq!(standings(&new).into_iter().map(|(_, standing)| standing).collect::<Vec<_>>(), expect);
    assert!(!origin(&new, 3).latency(clock::now()).is_zero());
    // One that the other process did not know waits for its first check.
    let more = || {
        let mut more = settings();
        more.origins.push(OriginSettings::new("http://10.0.0.2:80".parse().unwrap()));
        Upstream::adjusted(more, Adjustments::new()).unwrap()
    };
    let upstream = more();
    upstream.carry(&carried);
    assert_eq!(upstream.snapshot().origins[4].standing, Standing::Down);
    // An older process says nothing of checks.
    let upstream = more();
    upstream.carry(&[CarriedOrigin { name: "http://10.0.0.1:80".to_owned(), ..CarriedOrigin::default() }]);
    let waits = |origin: &OriginSnapshot| origin.why == "its name was not looked up yet";
    let all = upstream.snapshot().origins;
    assert!(all.iter().all(|origin| origin.standing == Standing::Ready || waits(origin)), "{all:?}");
    assert_eq!(all.iter().filter(|origin| waits(origin)).count(), 1);
}
