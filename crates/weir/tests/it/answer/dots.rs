//! `/./` in paths, from the connection to the origin, the log and a purge.

use weir_testkit::{Origin, Resource, until};

use crate::server::server;

#[test]
fn a_flat_repository_is_one_object_however_it_is_asked_for_and_is_purged_so() {
    let origin = Origin::start();
    origin.put("/debian/Packages", Resource::fresh("packages"));
    origin.put("/debian/../x", Resource::fresh("other"));
    let log = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"";
    let weir = server(&[&origin]).more(log).start();
    assert_eq!(weir.get("/debian/./Packages").text(), "packages");
    for same in ["/debian/Packages", "/./debian/././Packages", "/debian/./Packages"] {
        assert!(weir.get(same).is_hit(), "{same}");
    }
    assert_eq!(origin.requests("/debian/Packages").len(), 1);
    assert!(weir.get("/debian/./../x").cache_status().contains("dot-segment"));
    let purged = weir.command(&["purge", "localhost/debian/./Packages"]);
    assert_eq!(purged.code, Some(0), "{purged:?}");
    assert!(!weir.get("/debian/./Packages").is_hit());
    let log = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    until("the log is written", || log().lines().count() >= 6);
    assert!(log().contains("\"target\":\"/debian/Packages\"") && !log().contains("/./"), "{}", log());
}
