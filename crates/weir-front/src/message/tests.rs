//! Prepared heads give their fields back as they were.

use proptest::prelude::*;

use super::*;

/// Two fields that differ from response to response.
struct Two;

impl Late for Two {
    fn write(&self, to: &mut impl Fields) {
        to.add("age", |out| out.extend_from_slice(b"7"));
        to.add("cache-status", |out| out.extend_from_slice(b"weir; hit"));
    }
}

proptest! {
    #[test]
    fn fields_come_back_as_they_were(
        fields in proptest::collection::vec(("[a-z][a-z0-9-]{0,12}", "([!-~]([ -~]{0,20}[!-~])?)?"), 0..12),
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in &fields {
            map.append(HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
        }
        let prepared = Prepared::new(StatusCode::NOT_FOUND, &map);
        prop_assert_eq!(&prepared.fields(), &map);
        let again = Prepared::of_text(StatusCode::NOT_FOUND, prepared.text().clone());
        prop_assert_eq!(Head::Prepared(again).status(), Some(StatusCode::NOT_FOUND));
        map.append("age", HeaderValue::from_static("7"));
        map.append("cache-status", HeaderValue::from_static("weir; hit"));
        prop_assert_eq!(Head::Prepared(prepared).fields(&Two), map);
    }
}

#[test]
fn the_requests_of_a_connection_hold_a_bounded_part_of_their_content() {
    let peer = crate::listen::Peer::Unix;
    let info = std::rc::Rc::new(PeerInfo::new(peer, Trust::Untrusted, std::sync::Arc::default(), None));
    let places: Vec<_> = (0..6).map(|_| info.hold(64 << 10)).collect();
    assert_eq!(places.iter().filter(|place| place.is_some()).count(), 4);
    drop(places);
    let large = info.hold(10 << 20);
    assert!(large.is_some() && info.hold(1).is_none(), "one request alone has a place");
    drop(large);
    assert!(info.hold(64 << 10).is_some());
}
