//! Clients that log in on a connection (NTLM in three steps, Negotiate): what is logged in is the client's
//! connection's alone, over either version.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use weir_testkit::{Client, Exchange, H2Client, Origin, Response, Weir, until};

use crate::server::setup;

const HOST: &str = "intranet.example";

/// A server that knows who somebody is by the connection. What it says to a user may be stored, as far as its
/// fields go.
fn origin() -> Origin {
    let origin = Origin::start();
    let known: Mutex<HashMap<usize, (bool, Option<String>)>> = Mutex::default();
    origin.otherwise(move |exchange: &mut Exchange<'_>| {
        exchange.body();
        let said = exchange.request.header("authorization").unwrap_or_default();
        let mut known = known.lock().unwrap();
        let (is_midway, user) = known.entry(exchange.request.connection).or_default();
        let challenge = match said.split_once(' ') {
            Some(("NTLM", "one")) => "NTLM two",
            Some(("NTLM", name)) if *is_midway => {
                *user = Some(name.to_owned());
                ""
            }
            Some(("Negotiate", name)) => {
                *user = Some(name.to_owned());
                ""
            }
            _ => "NTLM",
        };
        *is_midway = challenge == "NTLM two";
        match user {
            Some(user) if !*is_midway => {
                let fields = [("Cache-Control", "public, max-age=600"), ("ETag", "\"x\"")];
                exchange.reply(200, &fields, user.as_bytes());
            }
            _ => drop(exchange.reply(401, &[("WWW-Authenticate", challenge)], "")),
        }
    });
    origin
}

fn weir(origin: &Origin, trusted: &str) -> Weir {
    setup().run_config(&format!(
        "trusted_proxies = {trusted}\n[admin]\nlisten = \"{{admin}}\"\n\
         [[listen]]\naddress = \"{{listen}}\"\nprotocols = [\"h2\", \"http/1.1\"]\n\
         [upstream.main]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*\"]\nupstream = \"main\"\n",
        origin.url()
    ))
}

/// A client of either version.
enum Any {
    Old(Client),
    New(Box<H2Client>),
}

#[derive(Clone, Copy, Debug)]
enum Version {
    Old,
    New,
}

impl Any {
    fn connect(weir: &Weir, version: Version) -> Any {
        match version {
            Version::Old => Any::Old(weir.client()),
            Version::New => Any::New(Box::new(H2Client::connect(weir.addr()))),
        }
    }

    fn get(&mut self, target: &str, fields: &[(&str, &str)]) -> Response {
        match self {
            Any::Old(client) => client.get(HOST, target, fields),
            Any::New(client) => client.get(HOST, target, fields),
        }
    }

    fn says(&mut self, credentials: &str) -> (u16, String) {
        self.get_as("/in", credentials, &[])
    }

    fn get_as(&mut self, target: &str, credentials: &str, more: &[(&str, &str)]) -> (u16, String) {
        let answered = self.get(target, &[more, &[("authorization", credentials)]].concat());
        (answered.status(), answered.text())
    }

    /// What a request without credentials is answered.
    fn sees(&mut self, target: &str) -> (u16, String) {
        let answered = self.get(target, &[]);
        (answered.status(), answered.text())
    }

    fn posts(&mut self, target: &str) -> (u16, String) {
        let answered = match self {
            Any::Old(client) => {
                client.send(format!("POST {target} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 2\r\n\r\nhi"));
                client.recv().unwrap()
            }
            Any::New(client) => {
                let stream = client.begin("POST", HOST, target, &[]);
                client.data(stream, b"hi", weir_testkit::End::Stream).unwrap();
                client.recv(stream).unwrap()
            }
        };
        (answered.status(), answered.text())
    }
}

fn user(name: &str) -> (u16, String) {
    (200, name.to_owned())
}

#[test]
fn what_ntlm_has_logged_in_is_that_clients_alone() {
    for version in [Version::Old, Version::New] {
        let origin = origin();
        let weir = weir(&origin, "[]");
        let mut alice = Any::connect(&weir, version);
        let mut others = [Any::connect(&weir, Version::Old), Any::connect(&weir, Version::New)];
        assert_eq!(alice.sees("/").0, 401);
        assert_eq!(alice.says("NTLM one").0, 401);
        // Others may ask between the steps.
        assert!(others.iter_mut().all(|other| other.sees("/in").0 == 401 && other.posts("/in").0 == 401));
        assert_eq!(alice.says("NTLM alice"), user("alice"), "{version:?}");
        for round in 0..10 {
            let target = format!("/page?{}", round / 2);
            assert_eq!(alice.sees(&target), user("alice"), "{version:?} {round}");
            for other in &mut others {
                assert_eq!(
                    (other.sees(&target).0, other.posts(&target).0),
                    (401, 401),
                    "{version:?} {round}"
                );
            }
            assert_eq!(alice.posts(&target), user("alice"), "{version:?} {round}");
        }
        let of_alice: Vec<usize> = origin
            .requests("/page")
            .iter()
            .filter(|it| it.method == "POST")
            .map(|it| it.connection)
            .collect();
        assert!(of_alice.len() == 30, "{of_alice:?}");
        assert!(alice.get("/page?0", &[]).cache_status().contains("login"));
        // It ends with the client's connection.
        drop((alice, others));
        until("nothing is left of it", || weir.metric("weir_origin_streams") == Some(0.0));
        assert_eq!(Any::connect(&weir, version).sees("/page?0").0, 401);
    }
}

#[test]
fn what_negotiate_has_logged_in_is_that_clients_alone() {
    for version in [Version::Old, Version::New] {
        let origin = origin();
        let weir = weir(&origin, "[]");
        let (mut alice, mut bob) = (Any::connect(&weir, version), Any::connect(&weir, version));
        let mut nobody = Any::connect(&weir, version);
        assert_eq!(alice.says("Negotiate alice"), user("alice"));
        assert_eq!(nobody.sees("/in").0, 401);
        assert_eq!(bob.says("Negotiate bob"), user("bob"));
        for _ in 0..5 {
            assert_eq!((nobody.sees("/in").0, nobody.posts("/in").0), (401, 401), "{version:?}");
            assert_eq!((bob.sees("/in"), alice.sees("/in")), (user("bob"), user("alice")), "{version:?}");
        }
    }
}

#[test]
fn behind_a_proxy_a_login_succeeds_and_is_used_once() {
    for version in [Version::Old, Version::New] {
        let origin = origin();
        let weir = weir(&origin, "[\"127.0.0.0/8\"]");
        let mut proxy = Any::connect(&weir, version);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|address| [("x-forwarded-for", address)]);
        assert_eq!(proxy.get_as("/in", "NTLM one", &one).0, 401);
        assert_eq!(proxy.get("/in", &other).status(), 401);
        assert_eq!(proxy.get_as("/in", "NTLM alice", &one), user("alice"), "{version:?}");
        for _ in 0..5 {
            // The address may be that of several users.
            assert_eq!(proxy.get("/in", &one).status(), 401, "{version:?}");
            assert_eq!(proxy.get("/in", &other).status(), 401, "{version:?}");
        }
        // Of a client that is not named nothing is kept at all.
        let before = origin.connections();
        assert!((0..3).all(|_| proxy.says("NTLM one").0 == 401));
        assert_eq!(origin.connections(), before + 3);
    }
}

#[test]
fn a_login_is_sent_once() {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        std::thread::sleep(Duration::from_millis(10));
        exchange.close();
    });
    let weir = weir(&origin, "[]");
    for (credentials, expect) in [("NTLM one", 1), ("Basic eA==", 2)] {
        let mut client = weir.client();
        assert_eq!(client.get(HOST, "/x", &[("authorization", credentials)]).status(), 502);
        let seen = origin.seen();
        let sent =
            seen.iter().filter(|it| it.request.header("authorization").as_deref() == Some(credentials));
        assert_eq!(sent.count(), expect, "{credentials}");
    }
}
