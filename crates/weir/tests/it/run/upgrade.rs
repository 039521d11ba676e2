//! A new process takes over from the running one: no connection is refused, reset or closed, nothing that was
//! purged comes back, and a new process that does not start changes nothing.

mod accounts;
mod killed;
mod lasting;
mod memory;
mod origins;
mod secured;
mod under_way;
mod versions;
mod volumes;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_testkit::{Address, Client, Gate, Origin, Resource, Weir, pattern, until};

use crate::server::{before, server, setup};

/// How clients use their connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// One connection for all requests. If it is closed, that is a failure.
    Kept,
    /// One connection for each request.
    New,
}

/// Clients that send requests and check every byte until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn start(weir: &Weir, kept: usize, new: usize) -> Load {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let addr = weir.addr();
        let client = |number: usize| {
            let (stop, done) = (stop.clone(), done.clone());
            let manner = if number < kept { Manner::Kept } else { Manner::New };
            std::thread::spawn(move || {
                let mut failures = Vec::new();
                let mut connection = Client::connect(addr);
                for round in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let target = match round % 3 {
                        0 => format!("/miss?{number}-{round}"),
                        _ => format!("/hit?{}", round % 20),
                    };
                    if !connection.send_get("x", &target, &[]) {
                        failures.push(format!("{target}: not sent"));
                        break;
                    }
                    match connection.recv() {
                        Ok(answer) if answer.status() == 200 && answer.body == pattern(1, 3000) => {
                            done.fetch_add(1, Ordering::SeqCst);
                            if answer.header("connection").as_deref() == Some("close") {
                                failures.push(format!("{target}: the connection is closed"));
                            }
                        }
                        Ok(answer) => failures.push(format!("{target}: {:?}", answer.head)),
                        Err(why) => {
                            failures.push(format!("{target}: {why}"));
                            break;
                        }
                    }
                    if manner == Manner::New {
                        connection = Client::connect(addr);
                    }
                }
                failures
            })
        };
        let clients = (0..kept + new).map(client).collect();
        Load { stop, done, clients }
    }

    /// Waits until `n` more requests are answered.
    fn go_on(&self, n: usize) {
        let goal = self.done.load(Ordering::SeqCst) + n;
        until("requests are answered", || {
            self.done.load(Ordering::SeqCst) >= goal || self.clients.iter().all(JoinHandle::is_finished)
        });
    }

    /// Ends it; no request may have failed.
    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        let failures: Vec<String> =
            self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let (done, some) = (self.done.load(Ordering::SeqCst), &failures[..failures.len().min(5)]);
        assert!(failures.is_empty(), "{} of {done} failed: {some:?}", failures.len());
    }
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], pattern(1, 3000));
    });
    origin
}

/// Upgrades, and checks that another process is in charge.
fn upgraded(weir: &mut Weir, args: &[&str]) -> u32 {
    let old = weir.main_pid();
    let output = weir.upgrade(args);
    assert_eq!(output.code, Some(0), "{output:?}\n{}", weir.stderr());
    let new = weir.main_pid();
    assert_ne!(old, new, "{output:?}");
    assert!(output.stdout.contains(&format!("(pid {new})")), "{output:?}");
    new
}

/// A program that starts the Weir under test with other arguments.
fn program(weir: &Weir, name: &str, script: &str) -> String {
    let path: PathBuf = weir.folder().join(name);
    weir_testkit::program(&path, script);
    path.display().to_string()
}

fn binary() -> String {
    std::env::var("WEIR_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_weir").to_owned())
}

#[test]
fn no_request_fails_while_one_process_follows_another() {
    let origin = origin();
    let mut weir = server(&[&origin]).start_in(setup());
    let config = weir.folder().join("weir.toml").display().to_string();
    let load = Load::start(&weir, 12, 6);
    load.go_on(200);
    for workers in [4, 1, 3, 2] {
        let script = format!("exec {} run --config {config} --workers {workers}", binary());
        let program = program(&weir, "next", &script);
        upgraded(&mut weir, &["--program", &program]);
        until("the new process has its workers", || {
            weir.command(&["status", "--json"]).stdout.contains(&format!("\"workers\": {workers}"))
        });
        load.go_on(300);
    }
    upgraded(&mut weir, &[]);
    load.go_on(300);
    load.end();
    assert!(weir.wait(Duration::from_secs(20)).is_some_and(|status| status.success()), "the first one ends");
}

#[test]
fn a_kept_connection_is_answered_by_the_new_process() {
    let origin = origin();
    let mut weir = server(&[&origin]).start_in(setup());
    let mut idle = weir.client();
    assert_eq!(idle.get("x", "/a", &[]).status(), 200);
    let mut begun = weir.client();
    begun.send("GET /a HTTP/1.1\r\nHo");
    let mut fresh = weir.client();
    upgraded(&mut weir, &[]);
    assert!(weir.wait(Duration::from_secs(20)).is_some(), "the old process has nothing left to do");
    let before = origin.count("/a");
    for client in [&mut idle, &mut fresh] {
        assert_eq!(client.get("x", "/a", &[]).body, pattern(1, 3000));
        assert_eq!(client.get("x", "/a", &[]).status(), 200, "it goes on");
    }
    begun.send("st: x\r\n\r\n");
    assert_eq!(begun.recv().unwrap().body, pattern(1, 3000));
    assert_eq!(origin.count("/a"), before + 1, "the new process fetches it once");
}

#[test]
fn a_long_download_ends_on_the_old_process() {
    let origin = origin();
    let gate = Gate::new();
    origin.put("/long", Resource::fresh(pattern(7, 3_000_000)).body_gate(1_000_000, &gate));
    let mut weir = server(&[&origin]).start_in(setup());
    let mut client = weir.client();
    client.send_get("x", "/long", &[]);
    origin.await_count("/long", 1);
    upgraded(&mut weir, &[]);
    upgraded(&mut weir, &[]);
    assert!(weir.runs(), "the first process has a reader left");
    gate.open();
    let answer = client.recv().unwrap();
    assert!(answer.body == pattern(7, 3_000_000), "{} bytes", answer.body.len());
    assert_eq!(client.get("x", "/a", &[]).status(), 200, "and its connection goes on in the last process");
    assert!(weir.wait(Duration::from_secs(20)).is_some_and(|status| status.success()));
}

#[test]
fn a_signal_upgrades_as_well() {
    let origin = origin();
    let mut weir = before(&origin);
    let old = weir.main_pid();
    weir.signal("USR2");
    until("a new process is in charge", || weir.main_pid() != old);
    weir.await_stderr("taken over from the old process");
    assert_eq!(weir.get("/a").body, pattern(1, 3000));
}

#[test]
fn a_process_that_does_not_come_up_changes_nothing() {
    let origin = origin();
    let mut weir = server(&[&origin]).start_in(setup());
    let config = weir.folder().join("weir.toml").display().to_string();
    let pid = weir.main_pid();
    assert_eq!(weir.get("/a").status(), 200);
    let mut kept = weir.client();
    kept.get("x", "/a", &[]);
    let load = Load::start(&weir, 4, 2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    let good = std::fs::read_to_string(&config).unwrap();
    let exec = format!("exec {} run --config", binary());
    let occupied = weir.folder().join("occupied.toml");
    std::fs::write(&occupied, format!("{good}\n[[listen]]\naddress = \"{at}\"\n")).unwrap();
    let mistaken = weir.folder().join("mistaken.toml");
    std::fs::write(&mistaken, good.replace("origins", "orgins")).unwrap();
    let moved = weir.folder().join("moved.toml");
    std::fs::write(&moved, format!("{good}\n[state]\npath = \"{}/other\"\n", weir.folder().display()))
        .unwrap();
    let tries = [
        ("exit 3".to_owned(), "exit status: 3"),
        ("kill -9 $$".to_owned(), "signal: 9"),
        (format!("{exec} {}", mistaken.display()), "did you mean `origins`"),
        // It fails after the ledger was handed over.
        (format!("{exec} {}", occupied.display()), &at.to_string()),
        (format!("{exec} {}", moved.display()), "state folder"),
        (format!("{exec} {config} --no-such-flag"), "exit status: 2"),
    ];
    for (script, expect) in &tries {
        let program = program(&weir, "next", script);
        let output = weir.upgrade(&["--program", &program]);
        assert_eq!(output.code, Some(1), "{script}: {output:?}");
        assert!(output.stderr.contains(expect), "{script}: {output:?}");
        assert_eq!(weir.main_pid(), pid, "{script}");
        load.go_on(50);
        // The old process has the ledger, and can write it.
        let purged = weir.command(&["purge", "--all"]);
        assert_eq!(purged.code, Some(0), "{script}: {purged:?}");
    }
    let output = weir.upgrade(&["--program", "/no/such/program"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    load.end();
    assert_eq!(kept.get("x", "/a", &[]).status(), 200);
    assert!(weir.runs());
    // A process that does start still can take over.
    upgraded(&mut weir, &[]);
    assert_eq!(kept.get("x", "/a", &[]).status(), 200);
}

#[test]
fn invalidations_through_the_old_process_hold_in_the_new_one() {
    let origin = origin();
    let gate = Gate::new();
    let held = gate.clone();
    origin.on("/page", move |exchange| {
        if exchange.request.method == "POST" {
            held.pass();
        }
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "page");
    });
    let mut weir = server(&[&origin]).start_in(setup());
    let mut writer = weir.client();
    writer.send("POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    origin.await_count("/page", 1);
    upgraded(&mut weir, &[]);
    let mut reader = weir.client();
    reader.get("x", "/page", &[]);
    assert!(reader.get("x", "/page", &[]).is_hit(), "the new process has it");
    gate.open();
    assert_eq!(writer.recv().unwrap().status(), 200);
    let after = reader.get("x", "/page", &[]);
    assert!(!after.is_hit(), "{}", after.cache_status());
}

#[test]
fn unix_sockets_and_announced_clients_move_as_well() {
    let origin = origin();
    origin.echo("/echo", &[]);
    let setup = setup();
    let socket = setup.folder().join("weir.sock");
    let admin = setup.folder().join("admin.sock");
    let unix = format!("[[listen]]\naddress = \"unix:{}\"\n", socket.display());
    let text = server(&[&origin]).more(&unix).text();
    let listen = "address = \"{listen}\"";
    let text = text.replace(listen, &format!("{listen}\nproxy_protocol = \"v1\""));
    let text = text.replace("listen = \"{admin}\"", &format!("listen = \"unix:{}\"", admin.display()));
    let mut weir = setup.run_config(&text);
    let mut announced = weir.client();
    announced.send("PROXY TCP4 203.0.113.7 192.0.2.1 5555 80\r\n");
    assert!(announced.get("x", "/echo", &[]).text().contains("203.0.113.7"));
    let mut local = Client::connect(Address::Unix(socket.clone()));
    assert_eq!(local.get("x", "/a", &[]).status(), 200);
    upgraded(&mut weir, &[]);
    assert!(weir.wait(Duration::from_secs(20)).is_some());
    let echoed = announced.get("x", "/echo", &[]).text();
    assert!(echoed.contains("203.0.113.7"), "{echoed}");
    assert_eq!(local.get("x", "/a", &[]).status(), 200);
    assert_eq!(
        weir_testkit::get(Address::Unix(socket.clone()), "/a").status(),
        200,
        "the file is still there"
    );
    assert_eq!(weir_testkit::get(Address::Unix(admin.clone()), "/health/ready").status(), 200);
    let pid = weir.main_pid().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    until("the last process takes the file away", || !socket.exists());
}

#[test]
fn a_kept_connection_keeps_the_port_that_it_came_to() {
    let (outer, inner) = (origin(), Origin::start());
    inner.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "no-store")], "inner");
    });
    let port = weir_testkit::free_port();
    let more = format!(
        "[[listen]]\naddress = \"127.0.0.1:{port}\"\n[upstream.inner]\norigins = [\"{}\"]\n",
        inner.url()
    );
    let site = format!("[[site.route]]\nport = {port}\nupstream = \"inner\"\n");
    let mut weir = server(&[&outer]).site(&site).more(&more).start();
    let mut at = weir.addr();
    at.set_port(port);
    let mut client = weir_testkit::Client::connect(at);
    assert_eq!(client.get("localhost", "/a", &[]).text(), "inner");
    upgraded(&mut weir, &[]);
    assert_eq!(client.get("localhost", "/a", &[]).text(), "inner");
}
