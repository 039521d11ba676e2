//! What is stored only from a later request on: `min_uses`.

use weir_testkit::{Origin, Resource};

use crate::kit::{message, server};

#[test]
fn what_is_asked_for_often_enough_is_stored_and_stays_so() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("x").header("Cache-Control", "max-age=10").etag("\"1\"").ranges());
    origin.put("/once", Resource::fresh("x"));
    origin.put("/free/x", Resource::fresh("x"));
    let site = "min_uses = 3\n[[site.route]]\nprefix = \"/free/\"\nmin_uses = 1\n";
    let weir = server(&[&origin]).site(site).start();
    for request in 1..=5 {
        let answer = weir.get("/x");
        assert_eq!(answer.is_hit(), request > 3, "{request}: {:?}", answer.head);
        assert_eq!(answer.cache_status().contains("detail=min-uses"), request < 3, "{:?}", answer.head);
    }
    assert_eq!(origin.count("/x"), 3);
    weir.get("/once");
    let told = weir.explain(&message("GET", "localhost", "/once", &[]));
    assert_eq!((told.verdict.word(), told.not_stored), ("miss", Some("min-uses")));
    weir.get("/free/x");
    assert!(weir.get("/free/x").is_hit(), "another route says otherwise");
    // What is stored is revalidated as ever.
    weir.later(std::time::Duration::from_secs(12));
    assert!(weir.get("/x").cache_status().contains("fwd-status=304"));
    assert!(weir.get("/x").is_hit());
}

#[test]
fn ranges_count_as_well_and_cost_one_request_each() {
    let origin = Origin::start();
    origin.put("/r", Resource::fresh("hello world").etag("\"1\"").ranges());
    let weir = server(&[&origin]).site("min_uses = 2").start();
    for request in 1..=3 {
        let answer = weir.get_with("/r", &[("Range", "bytes=0-4")]);
        assert_eq!((answer.status(), answer.text().as_str()), (206, "hello"), "{request}");
        assert_eq!(answer.is_hit(), request > 2, "{request}: {:?}", answer.head);
    }
    assert_eq!(origin.count("/r"), 2);
}
