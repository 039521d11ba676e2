//! Clocks that are wrong: before 1970, and beyond the dates that a field can say.

use std::time::{Duration, SystemTime};

use weir_testkit::{Origin, Resource};

use crate::kit::server;

/// The year 10000, in seconds since 1970.
const YEAR_10000_S: u64 = 253_402_300_800;

#[test]
fn a_clock_that_has_no_date_ends_no_request() {
    let day = Duration::from_secs(86_400);
    let begin = SystemTime::UNIX_EPOCH;
    for wall in [begin - day, begin + Duration::from_secs(YEAR_10000_S), begin + day] {
        let origin = Origin::start();
        origin.put("/x", Resource::fresh("x"));
        let routes = "[[site.route]]\nprefix = \"/own\"\nanswer = { body = \"own\" }\n";
        let weir = server(&[&origin]).site(routes).start();
        weir.set_wall(wall);
        for (path, status) in [("/x", 200), ("/x", 200), ("/own", 200), ("/none", 404)] {
            let answer = weir.get(path);
            assert_eq!(answer.status(), status, "{path} at {wall:?}: {:?}", answer.head);
        }
        let own = weir.get("/own").header("date");
        assert_eq!(own.is_some(), wall == begin + day, "{own:?}");
    }
}
