//! Operators change origins while Weir runs: at once, without a failed request, and for as long as they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use serde_json::Value;
use weir_testkit::{Client, Gate, Origin, Resource, Server, Weir, until};

use crate::server::server;

/// How many requests the load sends; a long run sets more.
fn requests() -> usize {
    std::env::var("WEIR_ORIGIN_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

/// An origin that answers its own name, which is not stored.
pub(crate) fn named(name: &str) -> Origin {
    let (origin, name) = (Origin::start(), name.to_owned());
    origin.otherwise(move |exchange| {
        exchange.body();
        exchange.reply(200, &[("Cache-Control", "no-store")], &name);
    });
    origin
}

/// The names that answer `n` requests in a row, as a sorted text.
pub(crate) fn answers(weir: &Weir, n: usize) -> String {
    let mut client = weir.client();
    let mut texts: Vec<String> = (0..n).map(|_| client.get("x", "/", &[]).text()).collect();
    texts.sort();
    texts.concat()
}

/// `weir origins` with these arguments, which succeeds.
pub(crate) fn origins(weir: &Weir, args: &[&str]) -> String {
    let output = weir.command(&[&["origins"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
    output.stdout
}

/// The same, which is refused with this.
fn refused(weir: &Weir, args: &[&str], expect: &str) {
    let before = origins(weir, &["--json"]);
    let output = weir.command(&[&["origins"], args].concat());
    assert_ne!(output.code, Some(0), "{args:?}: {output:?}");
    assert!(output.stderr.contains(expect), "{args:?}: {output:?}");
    let after = origins(weir, &["--json"]);
    let state = |text: &str| -> Vec<Value> {
        let all: Value = serde_json::from_str(text).unwrap();
        let all = all[0]["origins"].as_array().unwrap().iter();
        all.map(|origin| serde_json::json!([origin["origin"], origin["state"], origin["weight"]])).collect()
    };
    assert_eq!(state(&before), state(&after), "a refused change changes nothing");
}

/// What the list says of an origin.
pub(crate) fn shown(weir: &Weir, origin: &str) -> Value {
    let all: Value = serde_json::from_str(&origins(weir, &["--json"])).unwrap();
    let all = all[0]["origins"].as_array().unwrap();
    all.iter().find(|shown| shown["origin"] == origin).cloned().unwrap_or_default()
}

fn difference(weir: &Weir, origin: &str) -> String {
    let shown = shown(weir, origin);
    let all = shown["differences"].as_array().cloned().unwrap_or_default();
    all.iter().map(|said| said.as_str().unwrap()).collect::<Vec<_>>().join(", ")
}

#[test]
fn an_operator_drains_weighs_adds_and_removes_at_once() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let weir = server(&[&a, &b]).start();
    assert_eq!(answers(&weir, 8), "aaaabbbb");
    origins(&weir, &["drain", "main", &a.url()]);
    assert_eq!(answers(&weir, 8), "bbbbbbbb");
    assert_eq!(difference(&weir, &a.url()), "drained by the operator");
    assert_eq!(shown(&weir, &a.url())["empty"], true);
    origins(&weir, &["ready", "main", &a.url()]);
    origins(&weir, &["weight", "main", &a.url(), "--weight", "3"]);
    assert_eq!(answers(&weir, 8), "aaaaaabb");
    assert_eq!(difference(&weir, &a.url()), "weight 3 (file: 1)");
    origins(&weir, &["add", "main", &c.url(), "--weight", "4"]);
    assert_eq!(answers(&weir, 8), "aaabcccc");
    assert_eq!(difference(&weir, &c.url()), "added");
    origins(&weir, &["remove", "main", &a.url()]);
    assert_eq!(answers(&weir, 10), "bbcccccccc");
    assert_eq!(difference(&weir, &a.url()), "removed");
    origins(&weir, &["maint", "main", &c.url()]);
    assert_eq!(answers(&weir, 4), "bbbb");
    let listed = origins(&weir, &[]);
    assert!(listed.contains("in maintenance by the operator"), "{listed}");
    // A reload changes none of that, and says what it leaves out.
    let reloaded = weir.reload();
    assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
    assert!(format!("{reloaded:?}").contains("was removed at run time"), "{reloaded:?}");
    assert_eq!(answers(&weir, 4), "bbbb");
    let history = weir.command(&["history", "--act", "origin-change", "--json"]);
    let history: Value = serde_json::from_str(&history.stdout).unwrap();
    let entries = history["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 6);
    assert_eq!(entries[0]["scope"]["act"], "drain");
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let (a, b) = (named("a"), named("b"));
    let weir = server(&[&a, &b]).start();
    let (a, b) = (a.url(), b.url());
    refused(&weir, &["drain", "mian", &a], "did you mean main?");
    refused(&weir, &["drain", "main", "http://127.0.0.1:1"], "has no origin");
    refused(&weir, &["drain", "main", &format!("{a}0")], &format!("did you mean {a}?"));
    refused(&weir, &["add", "main", &a], "already");
    refused(&weir, &["add", "main", "ftp://x"], "scheme");
    refused(&weir, &["weight", "main", &a, "--weight", "0"], "1 to 1000");
    refused(&weir, &["weight", "main", &a, "--weight", "1001"], "1 to 1000");
    origins(&weir, &["remove", "main", &b]);
    refused(&weir, &["remove", "main", &b], "removed already");
    refused(&weir, &["drain", "main", &b], "`add` brings it back");
    refused(&weir, &["remove", "main", &a], "last origin");
    // What leaves no origin with a share is said.
    assert!(origins(&weir, &["maint", "main", &a]).contains("no origin of main takes its share"));
}

#[test]
fn a_drain_waits_for_what_is_under_way_and_says_when_the_origin_is_empty() {
    let (a, b, gate) = (Origin::start(), named("b"), Gate::new());
    a.put("/slow", Resource::new("whole").header("Cache-Control", "no-store").head_gate(&gate));
    let weir = server(&[&a, &b]).start();
    let mut slow = weir.client();
    let url = a.url();
    // One of two requests goes to `a`, which holds it.
    let mut other = weir.client();
    other.send_get("x", "/slow", &[]);
    slow.send_get("x", "/slow", &[]);
    a.await_count("/slow", 1);
    origins(&weir, &["drain", "main", &url]);
    assert_eq!(
        (shown(&weir, &url)["empty"].clone(), shown(&weir, &url)["in_flight"].clone()),
        (false.into(), 1.into())
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| origins(&weir, &["drain", "main", &url, "--wait"]));
        assert!(!waits.is_finished());
        gate.open();
        assert!(waits.join().unwrap().contains("is empty"));
    });
    let texts = [slow.recv().unwrap().text(), other.recv().unwrap().text()];
    assert!(texts.contains(&"whole".to_owned()), "{texts:?}");
    assert_eq!(shown(&weir, &url)["empty"], true);
}

#[test]
fn a_request_under_way_finishes_at_an_origin_that_is_removed() {
    let (a, b, gate) = (Origin::start(), named("b"), Gate::new());
    let body = "x".repeat(100_000);
    a.put("/", Resource::new(&body).header("Cache-Control", "no-store").body_gate(50_000, &gate));
    let weir = server(&[&a, &b]).start();
    let mut clients = [weir.client(), weir.client()];
    assert!(clients.iter_mut().all(|client| client.send_get("x", "/", &[])));
    a.await_count("/", 1);
    origins(&weir, &["remove", "main", &a.url()]);
    gate.open();
    let mut texts = clients.map(|mut client| client.recv().unwrap().text().len());
    texts.sort_unstable();
    assert_eq!(texts, [1, body.len()]);
    assert_eq!(answers(&weir, 4), "bbbb");
}

#[test]
fn what_is_kept_outlasts_a_restart_and_nothing_else_does() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let mut weir = server(&[&a, &b]).start();
    origins(&weir, &["weight", "main", &a.url(), "--weight", "3", "--keep"]);
    origins(&weir, &["add", "main", &c.url(), "--weight", "2", "--keep"]);
    origins(&weir, &["drain", "main", &b.url()]);
    assert_eq!(shown(&weir, &a.url())["kept"], true);
    assert_eq!(shown(&weir, &b.url())["kept"], Value::Null);
    assert_eq!(answers(&weir, 10), "aaaaaacccc");
    weir.restart();
    assert_eq!(answers(&weir, 6), "aaabcc");
    // A change that is not kept leaves what is.
    let said = origins(&weir, &["remove", "main", &c.url()]);
    assert!(said.contains("is kept and returns"), "{said}");
    weir.restart();
    assert_eq!(answers(&weir, 6), "aaabcc");
    origins(&weir, &["remove", "main", &c.url(), "--keep"]);
    weir.restart();
    assert_eq!(answers(&weir, 4), "aaab");
    // What is none of Weir's is set aside.
    std::fs::write(weir.state().join("origins"), "not JSON").unwrap();
    weir.restart();
    assert_eq!(answers(&weir, 4), "aabb");
    assert_eq!(std::fs::read_to_string(weir.state().join("origins-unread-1")).unwrap(), "not JSON");
    weir.await_stderr("origins-unread-1");
}

/// Clients that ask until they are stopped, or have asked so often.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub(crate) fn start(weir: &Weir, clients: usize) -> Load {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let addr = weir.addr();
        let client = |number: usize| {
            let (stop, done) = (stop.clone(), done.clone());
            std::thread::spawn(move || {
                let mut failures = Vec::new();
                let mut client = Client::connect(addr);
                while !stop.load(Ordering::SeqCst) {
                    client.send_get("x", &format!("/{number}"), &[]);
                    match client.recv() {
                        Ok(answer) if answer.status() == 200 => {}
                        other => {
                            failures.push(format!("{other:?}"));
                            client = Client::connect(addr);
                        }
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
                failures
            })
        };
        Load { clients: (0..clients).map(client).collect(), stop, done }
    }

    pub(crate) fn done(&self) -> usize {
        self.done.load(Ordering::SeqCst)
    }

    /// Waits for so many more requests.
    pub(crate) fn more(&self, count: usize) {
        let before = self.done();
        while self.done() < before + count {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Ends it; no request has failed.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            assert_eq!(client.join().unwrap(), Vec::<String>::new());
        }
    }
}

#[test]
fn no_request_fails_while_origins_among_a_hundred_come_and_go() {
    let all: Vec<Origin> = (0..101).map(|number| named(&number.to_string())).collect();
    let first: Vec<&Origin> = all[..100].iter().collect();
    let weir = server(&first).start();
    let (load, step) = (Load::start(&weir, 4), requests() / 8);
    load.more(step);
    origins(&weir, &["add", "main", &all[100].url()]);
    load.more(step);
    assert!(all[100].total() > 0, "it gets its share");
    origins(&weir, &["drain", "main", &all[0].url(), "--wait"]);
    let drained = all[0].total();
    load.more(step);
    assert_eq!(all[0].total(), drained, "a drained origin gets nothing new");
    origins(&weir, &["weight", "main", &all[1].url(), "--weight", "100"]);
    let before = all[1].total();
    load.more(step);
    assert!(all[1].total() - before > step / 4, "half of all");
    origins(&weir, &["remove", "main", &all[2].url()]);
    load.more(step);
    origins(&weir, &["ready", "main", &all[0].url()]);
    load.more(step);
    assert!(all[0].total() > drained);
    load.more(step);
    load.end();
    // Each change is made once for all workers: none of them goes on with the old list.
    until("the removed origin has nothing under way", || shown(&weir, &all[2].url())["empty"] == true);
}

#[test]
fn an_upgrade_carries_changes_and_states_over() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let bad = Origin::start();
    bad.raw("/", "");
    let eject = "eject = { failures = 1, time = \"600s\", time_max = \"600s\" }";
    let mut weir = server(&[&a, &b, &bad]).upstream(eject).start();
    let mut number = 0;
    until("the failing origin is ejected", || {
        number += 1;
        // Each of its own client for its own URL.
        let client = format!("192.0.2.{}", number % 200);
        weir.client().get("x", &format!("/?{number}"), &[("X-Forwarded-For", &client)]);
        shown(&weir, &bad.url())["state"] == "ejected"
    });
    let asked = bad.total();
    origins(&weir, &["weight", "main", &a.url(), "--weight", "3"]);
    origins(&weir, &["add", "main", &c.url(), "--weight", "2"]);
    origins(&weir, &["maint", "main", &b.url()]);
    for _ in 0..2 {
        let upgraded = weir.upgrade(&[]);
        assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
        assert_eq!(answers(&weir, 10), "aaaaaacccc");
        assert_eq!(bad.total(), asked, "it is ejected still");
        assert_eq!(difference(&weir, &a.url()), "weight 3 (file: 1)");
        assert!(shown(&weir, &bad.url())["reason"].as_str().unwrap().contains("tried again in"));
    }
    // None of it is kept.
    weir.restart();
    assert_eq!(shown(&weir, &b.url())["state"], "ready");
    assert_eq!(difference(&weir, &a.url()), "");
}

/// The text of a config with these origins as TOML.
fn text(list: &str, lines: &str) -> String {
    Server::<Weir>::new(String::new(), &[], |_, _| unreachable!()).origins(list).upstream(lines).text()
}

#[test]
fn what_was_kept_can_be_forgotten() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let mut weir = server(&[&a, &b]).start();
    origins(&weir, &["add", "main", &c.url(), "--keep"]);
    origins(&weir, &["weight", "main", &a.url(), "--weight", "3", "--keep"]);
    // It is gone for now, and would return.
    assert!(origins(&weir, &["remove", "main", &c.url()]).contains("--keep ends that"));
    origins(&weir, &["remove", "main", &c.url(), "--keep"]);
    refused(&weir, &["remove", "main", &c.url(), "--keep"], "has no origin");
    origins(&weir, &["forget", "main", &a.url(), "--keep"]);
    assert_eq!(difference(&weir, &a.url()), "");
    weir.restart();
    assert_eq!(answers(&weir, 8), "aaaabbbb");
}

#[test]
fn the_list_says_what_is_wrong_with_an_origin() {
    let (gone, b) = (named("gone"), named("b"));
    let url = gone.url();
    let weir = server(&[&gone, &b]).upstream("eject = { failures = 1 }\nretry = { on = [] }").start();
    drop(gone);
    let mut client = weir.client();
    let statuses: Vec<u16> = (0..4).map(|_| client.get("x", "/", &[]).status()).collect();
    assert!(statuses.contains(&502), "{statuses:?}");
    let said = shown(&weir, &url);
    assert!(said["failing"].as_str().is_some_and(|error| error.contains("refused")), "{said}");
    assert_eq!((said["state"].as_str(), said["share"].as_f64()), (Some("ejected"), Some(0.0)));
    assert!(shown(&weir, &b.url())["failing"].is_null());
    // Where too many are ejected all are used, and the list says that.
    let other = b.url();
    drop(b);
    until("both are ejected", || {
        weir.client().get("x", "/", &[]);
        origins(&weir, &[]).contains("too many origins are ejected: all are used")
    });
    let said = shown(&weir, &url);
    assert_eq!(
        (said["share"].as_f64(), said["reason"].as_str()),
        (Some(0.5), Some("failures in a row; used all the same"))
    );
    assert_eq!(shown(&weir, &other)["share"].as_f64(), Some(0.5));
}

#[test]
fn a_reload_under_load_keeps_the_connections_of_all_origins_but_those_that_it_changes() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let list = |weight: u32| format!("{{ url = \"{}\", weight = {weight} }}, \"{}\"", a.url(), b.url());
    let weir = server(&[]).origins(&list(1)).start();
    // One request at a time: one connection is enough for each origin.
    let load = Load::start(&weir, 1);
    load.more(500);
    let connections = [a.connections(), b.connections()];
    let changed = [
        text(&list(3), ""),
        text(&format!("{}, \"{}\"", list(3), c.url()), ""),
        text(&list(3), "first_byte = \"7s\"\nretry = { times = 2 }\nconnections = 50\nqueue = 7"),
        text(&list(2), "eject = { failures = 3 }\ndns_refresh = \"5s\"\nconnect = \"2s\""),
    ];
    for config in &changed {
        weir.rewrite_config(config);
        let reloaded = weir.reload();
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
        load.more(500);
    }
    load.end();
    assert_eq!([a.connections(), b.connections()], connections);
    assert!(c.total() > 0);
}

#[test]
fn an_origin_that_is_down_at_the_start_is_back_with_its_first_answer() {
    let at = format!("127.0.0.1:{}", weir_testkit::free_port());
    let weir = server(&[]).origins(&format!("\"http://{at}\"")).start();
    weir.await_stderr("origin is gone");
    assert!(weir.command(&["origins"]).stdout.contains("failing"));
    let listener = std::net::TcpListener::bind(&at).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        assert!(std::io::Read::read(&mut socket, &mut head).unwrap() > 0);
        std::io::Write::write_all(&mut socket, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    });
    assert_eq!(weir.get("/").text(), "hi");
    answering.join().unwrap();
    weir.await_stderr("origin is back");
    assert!(!weir.command(&["origins"]).stdout.contains("failing"));
}
