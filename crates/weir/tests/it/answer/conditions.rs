//! Conditions on requests over sockets: which clients get an answer, and what no spelling of a request
//! evades.

use weir_testkit::{Client, Origin};

use crate::server::server;

const SITE: &str = "bypass = { query = [\"preview\"], clients = [\"192.0.2.0/24\"] }\n\
                    no_store = { query = [\"search\"] }\nkey = { query = { keep = [\"page\"] } }\n\
                    [[site.route]]\nprefix = \"/inside/\"\nallow = [\"192.0.2.0/24\"]\n";

/// Each response names its own request.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let text =
            format!("{} for {:?}", exchange.request.target, exchange.request.header("x-forwarded-for"));
        exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
    });
    origin
}

#[test]
fn no_spelling_stores_what_a_condition_keeps_out() {
    let origin = origin();
    let weir = server(&[&origin]).top("trusted_proxies = []").site(SITE).start();
    for odd in ["preview=1", "%70review=1", "page=1;preview", "a=b&preview=", "search=x", "%73earch=x"] {
        for _ in 0..2 {
            let answer = weir.get(&format!("/a?{odd}"));
            assert!(!answer.is_hit() && answer.status() == 200, "{odd}: {:?}", answer.head);
        }
    }
    assert!(!weir.get("/a").is_hit(), "nothing of it was kept");
    assert!(weir.get("/a?search=y").is_hit(), "but it may look");
    assert!(!weir.get("/a?preview").is_hit());
}

#[test]
fn a_stored_page_is_given_to_no_client_that_may_not_have_it() {
    let origin = origin();
    let weir = server(&[&origin])
        .site(SITE.replace("clients = [\"192.0.2.0/24\"]", "clients = []").as_str())
        .start();
    let from = |client: &str| {
        let mut connection = Client::connect(weir.addr());
        connection.get("localhost", "/inside/a", &[("X-Forwarded-For", client)])
    };
    assert_eq!(from("192.0.2.1").status(), 200);
    assert!(from("192.0.2.2").is_hit());
    let refused =
        ["203.0.113.1", "192.0.2.1, 203.0.113.1", "unknown", "192.0.2.1, unknown", "::ffff:203.0.113.1"];
    for client in refused {
        let answer = from(client);
        assert_eq!(
            (answer.status(), answer.header("cache-control").as_deref()),
            (403, Some("no-store")),
            "{client}"
        );
    }
    assert!(from("::ffff:192.0.2.3").status() == 200 && from("203.0.113.1, 192.0.2.3").is_hit());
    assert_eq!(origin.total(), 1);
}

/// An editor's page has no mark of its own: only the map says whose it is.
#[test]
fn no_second_field_stores_what_a_map_keeps_out() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        let head = String::from_utf8_lossy(&exchange.request.raw).to_ascii_lowercase();
        let is_editor = head.contains("x-role: editor");
        exchange.reply(200, &[("Cache-Control", "max-age=600")], if is_editor { "drafts" } else { "page" });
    });
    let site = "bypass = { map = [\"role=editor\"] }\n[map.role]\nof = \"{header.X-Role}\"\n\
                rules = [[\"~*^editor$\", \"editor\"]]\ndefault = \"reader\"\n";
    let weir = server(&[&origin]).site(site).start();
    let editors: [&[(&str, &str)]; 4] = [
        &[("X-Role", "editor")],
        &[("X-Role", "Editor")],
        &[("X-Role", "reader"), ("X-Role", "editor")],
        &[("X-Role", "editor"), ("x-role", "reader")],
    ];
    for fields in editors {
        assert_eq!(weir.get_with("/a", fields).text(), "drafts", "{fields:?}");
        let answer = weir.get("/a");
        assert_eq!(answer.text(), "page", "after {fields:?}");
    }
    assert!(weir.get_with("/a", &[("X-Role", "anything else")]).is_hit());
}

/// Most origins decode a path, merge its slashes and resolve its dots: so does the choice of a route.
#[test]
fn no_spelling_of_a_path_goes_round_a_route_or_a_condition() {
    let origin = origin();
    let site = "bypass = { paths = [\"/secret/**\"], query = [\"*\"] }\n\
                [[site.route]]\nprefix = \"/inside/\"\nallow = [\"192.0.2.0/24\"]\n\
                [[site.route]]\nregex = '/\\.'\nanswer = { status = 404 }\n\
                [[site.route]]\npath = \"/old/*\"\nredirect = \"/new/{1}\"\n";
    let weir = server(&[&origin]).top("trusted_proxies = []").site(site).start();
    let ask = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut client = weir.client();
        client.send(head.as_bytes());
        client.recv().unwrap()
    };
    for path in [
        "/inside/x",
        "/%69nside/x",
        "//inside/x",
        "/inside%2fx",
        "/inside;/x",
        "/a/../inside/x",
        "/a/%2e%2E/inside/x",
        "/.//inside/x",
        "/\\inside/x",
    ] {
        assert_eq!(ask(path).status(), 403, "{path}");
    }
    for path in ["/.git/config", "/%2egit/config", "//.git/config", "/a%2f.git"] {
        assert_eq!(ask(path).status(), 404, "{path}");
    }
    assert_eq!(origin.total(), 0);
    for path in ["/secret/1", "/%73ecret/1", "//secret/1", "/secret%2F1", "/secret/;/1"] {
        for _ in 0..2 {
            assert!(!ask(path).is_hit(), "{path}");
        }
    }
    // A star is what the client has sent where the route fits that, and else what was read.
    for (path, to) in
        [("/old/a%7Eb", "/new/a%7Eb"), ("//old/a%7Eb", "/new/a~b"), ("/old/%250a", "/new/%250a")]
    {
        assert_eq!(ask(path).header("location").as_deref(), Some(to), "{path}");
    }
    // No parameter is none, and an empty one is none.
    for (path, is_kept) in [("/page", true), ("/page?", true), ("/page?a", false), ("/page?&=b", false)] {
        ask(path);
        assert_eq!(ask(path).is_hit(), is_kept, "{path}");
    }
}
