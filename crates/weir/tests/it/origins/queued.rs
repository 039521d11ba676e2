//! Requests that go to another origin because the first has no free connection.

use weir_testkit::{Client, Gate, Origin, Weir, until};

use super::changes::named;
use crate::server::server;

/// What goes past the cache.
const PASS: &str = "bypass = { paths = [\"/pass/**\"] }";

/// A path at which this origin waits for the gate, and then answers as it does elsewhere.
fn held(origin: &Origin, path: &str, gate: &Gate, body: &str) {
    let (gate, body) = (gate.clone(), body.to_owned());
    origin.on(path, move |exchange| {
        exchange.body();
        gate.pass();
        exchange.reply(200, &[("Cache-Control", "max-age=600")], &body);
    });
}

fn metric(weir: &Weir, name: &str) -> f64 {
    weir.metric(name).unwrap_or_default()
}

#[test]
fn what_waits_goes_where_there_is_room() {
    let (a, b) = (named("a"), named("b"));
    let gates = [Gate::new(), Gate::new()];
    held(&a, "/pass/hold", &gates[0], "a");
    held(&b, "/pass/hold", &gates[1], "b");
    let weir = server(&[&a, &b])
        .upstream("connections = 1\nclient_share = 100\nqueue_wait = \"30s\"")
        .site(PASS)
        .start();
    let get = |path: &str| {
        let mut client: Client = weir.client();
        client.send_get("x", path, &[]);
        client
    };
    let mut holding = [get("/pass/hold"), get("/pass/hold")];
    until("both are asked", || a.count("/pass/hold") + b.count("/pass/hold") == 2);
    let waiting: Vec<Client> = (0..6).map(|number| get(&format!("/pass/{number}"))).collect();
    until("the others wait", || metric(&weir, "weir_origin_requests_queued") == 6.0);
    gates[1].open();
    for mut client in waiting {
        assert_eq!(client.recv().unwrap().text(), "b");
    }
    assert_eq!(a.total(), 1);
    gates[0].open();
    holding.iter_mut().for_each(|client| assert_eq!(client.recv().unwrap().status(), 200));
    until("nothing waits", || metric(&weir, "weir_origin_requests_queued") == 0.0);
}
