//! How many connections clients may have: all together, and each.

use std::time::Duration;

use weir_testkit::{Client, Exchange, Origin, Resource, Weir, until};

use crate::server::{Server, server, setup};

const SOON: Duration = Duration::from_secs(10);

/// An origin with a storable answer for each path, and silent below `/hang`.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange: &mut Exchange<'_>| {
        if exchange.request.target.starts_with("/hang") {
            exchange.peer_left_within(Duration::from_secs(120));
            return;
        }
        exchange.reply(200, &[("Cache-Control", "max-age=60")], "ok");
    });
    origin
}

fn hang(client: &mut Client, number: usize) {
    client.send(format!("GET /hang{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

fn count(weir: &Weir, series: &str) -> f64 {
    weir.metric(series).unwrap_or_default()
}

/// Weir behind a proxy on this machine: the client is 192.0.2.`number`, which is not trusted.
fn proxied(server: &Server) -> Weir {
    let listen = "address = \"{listen}\"";
    setup().run_config(&server.text().replacen(listen, &format!("{listen}\nproxy_protocol = \"v1\""), 1))
}

fn announced(weir: &Weir, address: &str) -> Client {
    let mut client = weir.client();
    let family = if address.contains(':') { "TCP6 {} ::1" } else { "TCP4 {} 127.0.0.1" };
    client.send(format!("PROXY {} 5000 80\r\n", family.replace("{}", address)));
    client
}

/// A Weir that may open only this many files.
fn with_files(files: usize, server: &Server) -> Weir {
    setup().first(&format!("ulimit -n {files}")).run_config(&server.text())
}

#[test]
fn idle_clients_give_way_when_descriptors_run_out() {
    let origin = origin();
    let volume = "[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"";
    let weir = with_files(256, &server(&[&origin]).upstream("connections = 20").more(volume));
    let idle: Vec<Client> = (0..300).map(|_| weir.client()).collect();
    for number in 0..30 {
        assert_eq!(weir.get(&format!("/{number}")).status(), 200, "with {} idle clients", idle.len());
    }
    until("the longest idle have made room", || count(&weir, "weir_connections_displaced_total") > 100.0);
    // Accepting may pause for a moment while what made room is being closed, and never comes to the longest
    // pause; nothing else meets the limit.
    let said = weir.stderr();
    assert!(!said.contains("pause_ms=1000"), "{said}");
    assert!(!said.contains("stores nothing more") && !said.contains("is let go"), "{said}");
}

#[test]
fn the_longest_idle_connection_makes_room_and_busy_ones_stay() {
    let origin = origin();
    let weir = server(&[&origin]).more("[limits]\nconnections = 4").start();
    until("nobody is there", || count(&weir, "weir_connections_open") == 0.0);
    let mut clients: Vec<Client> = (0..4).map(|_| weir.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("localhost", "/x", &[]).status(), 200);
    }
    // A connection that was idle for less than a second makes room only if none was idle for longer.
    std::thread::sleep(Duration::from_millis(1100));
    let mut busy = weir.client();
    hang(&mut busy, 0);
    origin.await_count("/hang0", 1);
    until("an idle one is closed", || count(&weir, "weir_connections_displaced_total") == 1.0);
    let mut more: Vec<Client> = (1..4).map(|_| weir.client()).collect();
    for (number, client) in more.iter_mut().enumerate() {
        hang(client, number + 1);
        origin.await_count(&format!("/hang{}", number + 1), 1);
    }
    for client in &mut clients {
        assert!(client.is_closed_within(SOON), "it was idle");
    }
    // No connection is idle by now.
    let mut turned_away = weir.client();
    hang(&mut turned_away, 9);
    assert!(turned_away.is_closed_within(SOON));
    until("it was turned away", || count(&weir, "weir_connections_refused_total") == 1.0);
    assert_eq!(count(&weir, "weir_requests_running"), 4.0);
    drop(busy);
    until("there is room again", || {
        let mut next = weir.client();
        next.send_get("localhost", "/x", &[]) && next.recv().is_ok_and(|answer| answer.status() == 200)
    });
}

#[test]
fn one_client_has_a_limited_number_of_connections() {
    let origin = origin();
    origin.put("/x", Resource::fresh("x"));
    let weir = proxied(&server(&[&origin]).more("[limits]\nconnections_per_client = 2"));
    for (one, same, other) in
        [("192.0.2.1", "192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::ffff", "2001:db8:0:1::1")]
    {
        let mut first = announced(&weir, one);
        let mut second = announced(&weir, same);
        for client in [&mut first, &mut second] {
            assert_eq!(client.get("localhost", "/x", &[]).status(), 200);
        }
        assert!(announced(&weir, same).is_closed_within(SOON));
        assert_eq!(announced(&weir, other).get("localhost", "/x", &[]).status(), 200);
        drop(first);
        until("one that is closed makes room", || {
            let mut next = announced(&weir, one);
            next.send_get("localhost", "/x", &[]) && next.recv().is_ok()
        });
        assert_eq!(second.get("localhost", "/x", &[]).status(), 200);
    }
}

#[test]
fn clients_named_by_a_trusted_proxy_are_counted() {
    let origin = origin();
    let weir = server(&[&origin]).more("[limits]\nconnections_per_client = 2").start();
    let named = |client: &str, target: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: {client}\r\n\r\n")
    };
    let mut held = Vec::new();
    for number in 0..2 {
        let mut client = weir.client();
        client.send(named("192.0.2.1", &format!("/hang{number}")));
        origin.await_count(&format!("/hang{number}"), 1);
        held.push(client);
    }
    let mut proxy = weir.client();
    let mut status = |client: &str, target: &str| {
        proxy.send(named(client, target));
        proxy.recv().unwrap().status()
    };
    assert_eq!(status("192.0.2.1", "/x"), 429);
    assert_eq!(status("192.0.2.2", "/x"), 200);
    assert_eq!(status("192.0.2.1", "/x"), 200, "what is held waits for nobody");
    // The proxy itself does not count as a client.
    for number in 0..4 {
        let mut client = weir.client();
        assert_eq!(client.get("localhost", &format!("/own{number}"), &[]).status(), 200);
        held.push(client);
    }
    held.clear();
    until("those that have ended count no more", || {
        let mut client = weir.client();
        client.send(named("192.0.2.1", "/new"));
        client.recv().is_ok_and(|answer| answer.status() == 200)
    });
}

#[test]
fn a_client_that_is_turned_away_is_named() {
    let origin = origin();
    origin.put("/x", Resource::fresh("x"));
    let weir = proxied(&server(&[&origin]).more("[limits]\nconnections_per_client = 1"));
    let mut first = announced(&weir, "192.0.2.7");
    assert_eq!(first.get("localhost", "/x", &[]).status(), 200);
    assert!(!weir.stderr().contains("connections_per_client"), "{}", weir.stderr());
    for _ in 0..20 {
        assert!(announced(&weir, "192.0.2.7").is_closed_within(SOON));
    }
    let said = || {
        let all = weir.stderr();
        all.lines().filter(|line| line.contains("limits.connections_per_client")).map(str::to_owned).collect()
    };
    until("it is said", || !Vec::<String>::is_empty(&said()));
    let said: Vec<String> = said();
    assert!(said.iter().all(|line| line.contains("WARN") && line.contains("192.0.2.7")), "{said:?}");
    assert!(said.len() as f64 <= count(&weir, "weir_workers"), "{said:?}");
}
