//! What a client's `PURGE` of one URL may take where routes have a `purge` of their own: nothing that another
//! route refuses it, by scheme and by method. Ports need listeners: `crates/weir/tests/it`.

use weir_testkit::{Origin, Resource, Response};

use crate::kit::{Weir, message, server};

/// A client of the site, and one of a route.
const OF_SITE: &str = "192.0.2.7";
const OF_ROUTE: &str = "192.0.2.9";

fn weir(origin: &Origin, route: &str) -> Weir {
    let site = format!("purge = {{ allow = [\"{OF_SITE}\"] }}\n[[site.route]]\n{route}\n");
    server(&[origin]).top("trusted_proxies = [\"127.0.0.1\"]").site(&site).start()
}

fn send(weir: &Weir, method: &str, client: &str, scheme: &str) -> Response {
    let fields = [("X-Forwarded-For", client), ("X-Forwarded-Proto", scheme)];
    weir.send(&message(method, "localhost", "/x", &fields))
}

fn hits(weir: &Weir) -> [bool; 2] {
    ["http", "https"].map(|scheme| send(weir, "GET", OF_SITE, scheme).is_hit())
}

#[test]
fn a_purge_of_a_url_takes_what_no_other_route_refuses() {
    let of_route = format!("purge = {{ allow = [\"{OF_ROUTE}\"] }}");
    let nobody = "purge = { allow = [] }";
    let both = format!("purge = {{ allow = [\"{OF_ROUTE}\", \"{OF_SITE}\"] }}");
    for (condition, purge, client, scheme, goes) in [
        ("scheme = \"https\"", &*of_route, OF_SITE, "http", Some([true, false])),
        ("scheme = \"https\"", &*of_route, OF_SITE, "https", None),
        ("scheme = \"https\"", &*of_route, OF_ROUTE, "https", Some([false, true])),
        ("scheme = \"https\"", &*of_route, OF_ROUTE, "http", None),
        ("scheme = \"http\"", &*of_route, OF_SITE, "https", Some([false, true])),
        ("scheme = \"https\"", nobody, OF_SITE, "http", Some([true, false])),
        ("scheme = \"https\"", &*both, OF_SITE, "http", Some([true, true])),
        ("method = \"GET\"", &*of_route, OF_SITE, "http", None),
        ("method = \"HEAD\"", &*of_route, OF_SITE, "https", None),
        ("method = \"GET\"", &*both, OF_SITE, "https", Some([true, true])),
        ("method = \"POST\"", &*of_route, OF_SITE, "http", Some([true, true])),
        // What a route answers itself is not stored, so that its rules guard nothing.
        ("scheme = \"http\"\nredirect = \"/y\"", &*of_route, OF_SITE, "https", Some([true, true])),
    ] {
        let origin = Origin::start();
        origin.put("/x", Resource::fresh("body"));
        let weir = weir(&origin, &format!("{condition}\n{purge}"));
        hits(&weir);
        let held = hits(&weir);
        let said = send(&weir, "PURGE", client, scheme);
        let shown = format!("{condition} {purge} {client} {scheme}: {} {}", said.status(), said.text());
        assert_eq!(said.status(), if goes.is_some() { 200 } else { 405 }, "{shown}");
        let [http, https] = goes.unwrap_or_default();
        assert_eq!(hits(&weir), [held[0] && !http, held[1] && !https], "{shown}");
        let left = match goes {
            Some([false, true]) => vec!["not purged: http://localhost/x;"],
            Some([true, false]) => vec!["not purged: https://localhost/x;"],
            _ => vec![],
        };
        assert_eq!(said.text().matches("not purged").count(), left.len(), "{shown}");
        assert!(left.iter().all(|line| said.text().contains(line)), "{shown}");
        if let Some(goes) = goes {
            let count = goes.iter().zip(held).filter(|(goes, held)| **goes && *held).count();
            let result = format!("exact; count={count}");
            assert_eq!(said.header("cache-purge-result").as_deref(), Some(result.as_str()), "{shown}");
        }
    }
}

/// The same of a list of URLs that fields name: all or nothing, also where a route is for HEAD alone.
#[test]
fn a_ban_of_a_url_is_refused_where_a_route_refuses_it() {
    for condition in ["scheme = \"https\"", "method = \"GET\"", "method = \"HEAD\""] {
        let origin = Origin::start();
        origin.put("/x", Resource::fresh("body"));
        let weir = weir(&origin, &format!("{condition}\npurge = {{ allow = [\"{OF_ROUTE}\"] }}"));
        hits(&weir);
        let fields = [("X-Forwarded-For", OF_SITE), ("X-Url", "^/x$"), ("X-Host", "^localhost$")];
        let said = weir.send(&message("BAN", "localhost", "/", &fields));
        assert_eq!((said.status(), hits(&weir)), (405, [true, true]), "{condition}: {}", said.text());
    }
}
