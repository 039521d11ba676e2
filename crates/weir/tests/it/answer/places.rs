//! Routes by host and by the port of ours: what one of them answers never goes out to a request that came in
//! elsewhere, whatever it says of ports, and a purge takes the objects of all of them.

use weir_testkit::{Client, Origin, Response, Weir, free_port};

use crate::server::server;

/// Answers with its name and the path.
fn named(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.otherwise(move |exchange| {
        exchange.body();
        let text = format!("{name} {}", exchange.request.target);
        exchange.reply(200, &[("Cache-Control", "max-age=600")], text);
    });
    origin
}

/// A Weir with a second port, which leads to the upstream `inner`.
fn weir(outer: &Origin, inner: &Origin, rules: &str) -> (Weir, u16) {
    let port = free_port();
    let more = format!(
        "[[listen]]\naddress = \"127.0.0.1:{port}\"\n[upstream.inner]\norigins = [\"{}\"]\n",
        inner.url()
    );
    let site = format!("[[site.route]]\nport = {port}\nupstream = \"inner\"\n{rules}");
    (server(&[outer]).site(&site).more(&more).start(), port)
}

fn get(weir: &Weir, port: u16, target: &str, fields: &[(&str, &str)]) -> Response {
    let mut at = weir.addr();
    at.set_port(port);
    Client::connect(at).get("shop.test", target, fields)
}

#[test]
fn two_ports_with_two_answers_are_never_mixed() {
    let (outer, inner) = (named("outer"), named("inner"));
    let (weir, port) = weir(&outer, &inner, "");
    let own = weir.addr().port();
    for _ in 0..2 {
        assert_eq!(get(&weir, own, "/a", &[]).text(), "outer /a");
        assert_eq!(get(&weir, port, "/a", &[]).text(), "inner /a");
    }
    assert!(get(&weir, own, "/a", &[]).is_hit() && get(&weir, port, "/a", &[]).is_hit());
    assert_eq!((outer.total(), inner.total()), (1, 1));
    // Nothing that a client or a trusted proxy says is the port.
    let (number, host) = (port.to_string(), format!("shop.test:{port}"));
    let said: [&[(&str, &str)]; 4] = [
        &[("X-Forwarded-Port", number.as_str())],
        &[("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Port", number.as_str())],
        &[("X-Forwarded-Host", host.as_str())],
        &[("Forwarded", "host=\"shop.test:8443\"")],
    ];
    for (number, fields) in said.into_iter().enumerate() {
        let target = format!("/said-{number}");
        assert_eq!(get(&weir, own, &target, fields).text(), format!("outer {target}"));
        assert_eq!(get(&weir, own, &target, &[]).text(), format!("outer {target}"));
        assert_eq!(get(&weir, port, &target, &[]).text(), format!("inner {target}"));
    }
    let mut client = weir.client();
    assert_eq!(client.get(&host, "/a", &[]).text(), "outer /a");
}

#[test]
fn a_purge_and_an_unsafe_request_take_the_objects_of_all_ports() {
    let (outer, inner) = (named("outer"), named("inner"));
    let rules = "key = { query = { drop = [\"utm\"] } }\n[[site.route]]\nmethod = \"POST\"\n";
    let (weir, port) = weir(&outer, &inner, rules);
    let own = weir.addr().port();
    let fill = || {
        for at in [own, port] {
            get(&weir, at, "/a?b&utm=1", &[]);
            assert!(get(&weir, at, "/a?b&utm=1", &[]).is_hit(), "{at}");
        }
    };
    let are_gone = || [own, port].map(|at| !get(&weir, at, "/a?b&utm=1", &[]).is_hit());
    fill();
    assert_eq!(weir.command(&["purge", "http://shop.test/a?b&utm=1"]).code, Some(0));
    assert_eq!(are_gone(), [true, true]);
    for at in [own, port] {
        fill();
        let mut to = weir.addr();
        to.set_port(at);
        let mut client = Client::connect(to);
        client.send("POST /a?b&utm=1 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.recv().unwrap().status(), 200);
        assert_eq!(are_gone(), [true, true], "after a POST to {at}");
    }
}

#[test]
fn hosts_lead_to_their_routes_however_they_are_spelled() {
    let (outer, inner) = (named("outer"), named("inner"));
    let more = format!("[upstream.inner]\norigins = [\"{}\"]\n", inner.url());
    let site =
        "[[site.route]]\nhosts = [\"*.shop.test\", \"~^shop[0-9]+\\\\.test$\"]\nupstream = \"inner\"\n";
    let weir = server(&[&outer]).site(site).more(&more).start();
    let of = |host: &str| weir.client().get(host, "/a", &[]).text();
    for host in
        ["m.shop.test", "M.SHOP.test.", "m.shop.test:80", "m.shop.test:81", "a.b.shop.test", "Shop7.test"]
    {
        assert_eq!(of(host), "inner /a", "{host}");
    }
    for host in ["shop.test", "xshop.test", "m.shop.test.example", "shop7.test.example", "shop.test:80"] {
        assert_eq!(of(host), "outer /a", "{host}");
    }
    // An absolute target names the host, whatever the field says.
    let mut client = weir.client();
    client.send("GET http://m.shop.test/a HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    let answer = client.recv().unwrap();
    assert!(answer.status() != 200 || answer.text() == "inner /a", "{:?}", answer.head);
    assert_eq!(of("shop.test"), "outer /a");
}
