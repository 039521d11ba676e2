//! What `weir explain` is told of the origins.

use super::balance::order;
use super::scripted::settings;
use crate::choice::pick::{HashOf, Pick, Picking, Reason};
use crate::sessions::affinity::{OriginId, Session};
use crate::{Asked, Order, Role, Standing, Upstream, WhyNot};

#[tokio::test]
async fn the_pick_is_explained_and_changes_nothing() {
    let urls = ["a", "b", "c", "d"].map(|name| format!("http://{name}.example"));
    let mut settings = settings(&urls);
    settings.origins[0].weight = 3;
    settings.origins[3].role = Role::Backup;
    let upstream = Upstream::new(settings).unwrap();
    order(&upstream, "http://c.example:80", Order::Drain);
    let (picking, headers) = (Picking::default(), http::HeaderMap::new());
    let asked = Asked { picking: &picking, target: b"/x", headers: &headers };
    for _ in 0..3 {
        let explained = upstream.explain(&asked, None);
        let picked = explained.picked.unwrap();
        assert_eq!((picked.at, picked.reason), (0, Reason::Turn));
        let shares: Vec<f64> = explained.origins.iter().map(|origin| origin.share).collect();
        assert_eq!(shares, [0.75, 0.25, 0.0, 0.0]);
        let why_not: Vec<_> = explained.origins.iter().map(|origin| origin.why_not).collect();
        let draining = WhyNot::Standing(Standing::Draining);
        assert_eq!(why_not, [None, Some(WhyNot::Pick(Reason::Turn)), Some(draining), Some(WhyNot::Backup)]);
    }
    assert!(upstream.snapshot().origins.iter().all(|origin| origin.picks.is_empty()));
    // A route's own pick.
    let picks = [Pick::Hash { of: HashOf::Path, bound: 1.25 }];
    let picking = Picking { picks: Some(picks.into()), ..Picking::default() };
    let explained = upstream.explain(&Asked { picking: &picking, ..asked }, None);
    assert_eq!(explained.picked.map(|picked| picked.reason), Some(Reason::Hash));
    // A session's request goes to its origin, also while that drains.
    let session = Session::At(OriginId::of_address("http://c.example:80"));
    let explained = upstream.explain(&asked, Some(&session));
    assert_eq!(explained.picked.map(|picked| (picked.at, picked.reason)), Some((2, Reason::Session)));
    assert_eq!(explained.origins[0].why_not, Some(WhyNot::Pick(Reason::Session)));
    // Primaries that take no share leave the backup.
    for name in ["http://a.example:80", "http://b.example:80"] {
        order(&upstream, name, Order::Maintenance);
    }
    let explained = upstream.explain(&asked, None);
    assert_eq!(explained.picked.map(|picked| (picked.at, picked.reason)), Some((3, Reason::Backup)));
    assert_eq!(explained.origins[3].share, 1.0);
    assert_eq!(explained.origins[0].why_not, Some(WhyNot::Standing(Standing::Maintenance)));
}
