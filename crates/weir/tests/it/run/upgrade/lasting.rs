//! What lasts longer than `drain` goes on after an upgrade, over both protocols and with and without TLS; a
//! stop ends it with a last word, and so does the fourth upgrade.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use weir_testkit::h2::code;
use weir_testkit::{Authority, End, Gate, Origin, Resource, Weir, is_alive, pattern, until};

use super::under_way::{Connection, connections, start};
use super::{origin, upgraded};

/// Far less than what is under way takes.
const DRAIN: &str = "drain = \"1s\"";
const LONGER_THAN_DRAIN: Duration = Duration::from_millis(2500);
const LONG: usize = 3_000_000;
/// A frame of a client: masked with zeros.
const PING: &[u8] = &[0x81, 0x84, 0, 0, 0, 0, b'p', b'i', b'n', b'g'];
/// One of a server.
const PONG: &[u8] = &[0x81, 4, b'p', b'o', b'n', b'g'];
/// A server goes away: 1001.
const GOING_AWAY: &[u8] = &[0x88, 2, 0x03, 0xe9];

/// An origin with a WebSocket, which answers each frame, an event stream and a long download.
fn lasting(gate: &Gate) -> Origin {
    let origin = origin();
    origin.on("/socket", |exchange| {
        let lines = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n";
        exchange.send(format!("HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n"));
        while !exchange.read_some().is_empty() && exchange.send(PONG) {}
        exchange.close();
    });
    origin.on("/events", |exchange| {
        let lines = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
        exchange.send(format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
        while exchange.send("9\r\ndata: x\n\n\r\n") {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    origin.put("/long", Resource::fresh(pattern(7, LONG)).body_gate(LONG / 2, gate));
    origin
}

/// A WebSocket's frame, and its answer.
fn talk(name: &str, connection: &mut Connection) {
    connection.send(PING, End::Open);
    hears(name, connection, PONG);
}

fn hears(name: &str, connection: &mut Connection, expect: &[u8]) {
    let mut heard = Vec::new();
    while heard.len() < expect.len() {
        let more = connection.read_some();
        assert!(!more.is_empty(), "{name}: it ends after {heard:?}");
        heard.extend(more);
    }
    assert_eq!(heard, expect, "{name}");
}

/// Events come, also when all that came before is read.
fn listen(name: &str, connection: &mut Connection) {
    for _ in 0..4 {
        let some = connection.read_some();
        assert!(!some.is_empty(), "{name}: the events have ended");
    }
}

/// The WebSocket is told that its server goes away, and closes. Over HTTP/2 GOAWAY names its stream as one
/// that was begun.
fn goes_away(name: &str, connection: &mut Connection) {
    hears(name, connection, GOING_AWAY);
    assert!(connection.read_some().is_empty(), "{name}: more than a last word");
    if let Connection::Http2(client, stream) = connection {
        assert!(client.is_closed(), "{name}");
        let said = client.goaway().unwrap();
        assert_eq!((said.code, said.last), (code::NO_ERROR, *stream), "{name}");
    }
}

/// The old processes that `weir status` knows.
pub(super) fn old_processes(weir: &Weir) -> Vec<Value> {
    let output = weir.command(&["status", "--json"]);
    let status: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    status["old_processes"].as_array().cloned().unwrap_or_default()
}

fn pids(weir: &Weir) -> Vec<u64> {
    old_processes(weir).iter().map(|old| old["pid"].as_u64().unwrap()).collect()
}

#[test]
fn what_lasts_longer_than_drain_goes_on_after_an_upgrade_and_is_listed() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let mut weir = start(&origin, &authority, DRAIN);
    let begun = || connections(&weir, &authority);
    let (mut chats, mut events, mut downloads) = (begun(), begun(), begun());
    chats.iter_mut().for_each(|(_, chat)| chat.begin_web_socket("/socket"));
    events.iter_mut().for_each(|(_, events)| events.begin("/events", None));
    downloads.iter_mut().for_each(|(_, download)| download.begin("/long", None));
    for (_, connection) in &mut events {
        if let Connection::Http2(client, stream) = connection {
            client.open(*stream, 1 << 20);
        }
    }
    until("all is under way", || weir.metric("weir_requests_running") == Some(12.0));
    let old = weir.pid();
    upgraded(&mut weir, &[]);
    std::thread::sleep(LONGER_THAN_DRAIN);
    assert!(weir.runs(), "the old process has time of its own: {}", weir.stderr());
    let listed = old_processes(&weir);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let of = |key: &str| listed[0][key].as_u64().unwrap_or_else(|| panic!("{key}: {listed:?}"));
    assert_eq!((of("pid"), of("connections")), (u64::from(old), 12));
    assert!(of("held_bytes") >= LONG as u64 / 2, "{listed:?}");
    assert!((3500..3600).contains(&of("ends_in_s")), "{listed:?}");
    let said = weir.command(&["status"]).stdout;
    assert!(said.contains(&format!("old process  pid {old}, replaced 20")), "{said}");
    assert!(said.contains(": 12 connections, holds ") && said.contains("ends within 59 min"), "{said}");
    chats.iter_mut().for_each(|(name, chat)| talk(name, chat));
    events.iter_mut().for_each(|(name, events)| listen(name, events));
    gate.open();
    for (name, download) in &mut downloads {
        assert!(download.answer(name) == pattern(7, LONG), "{name}");
    }
    drop((chats, events, downloads));
    assert!(weir.wait(Duration::from_secs(30)).is_some_and(|status| status.success()), "nothing is left");
    until("nobody is listed", || old_processes(&weir).is_empty());
}

#[test]
fn a_stop_ends_the_old_processes_as_well_with_a_last_word() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let mut weir = start(&origin, &authority, DRAIN);
    let begun = |weir: &Weir| {
        let mut chats = connections(weir, &authority);
        chats.iter_mut().for_each(|(_, chat)| chat.begin_web_socket("/socket"));
        chats.iter_mut().for_each(|(name, chat)| talk(name, chat));
        chats
    };
    let mut of_first = begun(&weir);
    let mut downloads = connections(&weir, &authority);
    downloads.iter_mut().for_each(|(_, download)| download.begin("/long", None));
    let second = upgraded(&mut weir, &[]);
    let mut of_second = begun(&weir);
    let third = upgraded(&mut weir, &[]);
    let mut of_third = begun(&weir);
    until("both are listed", || pids(&weir).len() == 2);
    assert!(std::process::Command::new("kill").arg(third.to_string()).status().unwrap().success());
    for (name, chat) in of_first.iter_mut().chain(&mut of_second).chain(&mut of_third) {
        goes_away(name, chat);
    }
    for (name, download) in &mut downloads {
        let whole = match download {
            Connection::Http1(client) => client.recv().map(|answer| answer.body.len()),
            Connection::Http2(client, stream) => {
                client.open(*stream, 1 << 26);
                client.recv(*stream).map(|answer| answer.body.len())
            }
        };
        assert!(whole.is_err(), "{name} took a part for whole: {whole:?}");
    }
    assert!(weir.wait(Duration::from_secs(20)).is_some(), "the first one ends");
    until("all have ended", || !is_alive(second) && !is_alive(third));
}

#[test]
fn old_processes_leave_a_log_that_was_rotated() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let log = "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"";
    let mut weir = start(&origin, &authority, &format!("{DRAIN}\n{log}"));
    let mut download = Connection::Http1(weir.client());
    download.begin("/long", None);
    origin.await_count("/long", 1);
    let (old, new) = (weir.pid(), upgraded(&mut weir, &[]));
    until("the old one is listed", || pids(&weir).len() == 1);
    let path = weir.folder().join("access.log");
    fs::rename(&path, weir.folder().join("access.log.1")).unwrap();
    assert!(std::process::Command::new("kill").args(["-USR1", &new.to_string()]).status().unwrap().success());
    until("the old one writes to the new file", || {
        let files = fs::read_dir(format!("/proc/{old}/fd")).unwrap().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|name| name == path)
    });
    gate.open();
    assert!(download.answer("download") == pattern(7, LONG));
    until("its line is there", || fs::read_to_string(&path).unwrap_or_default().contains("/long"));
}

#[test]
fn a_body_that_only_its_end_bounds_does_not_end_cleanly_at_a_stop() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let weir = start(&origin, &authority, DRAIN);
    let mut client = TcpStream::connect(weir.addr()).unwrap();
    client.write_all(b"GET /events HTTP/1.0\r\nHost: x\r\n\r\n").unwrap();
    let mut some = [0; 1000];
    assert!(client.read(&mut some).unwrap() > 0);
    weir.signal("TERM");
    let ended = loop {
        match client.read(&mut some) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(ended, Some(ErrorKind::ConnectionReset), "a part is taken for the whole");
}

#[test]
fn the_fourth_upgrade_ends_the_oldest_and_no_other() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let mut weir = start(&origin, &authority, DRAIN);
    let mut chats = Vec::new();
    let mut processes = vec![weir.pid()];
    for round in 0..4 {
        let mut chat = Connection::Http1(weir.client());
        chat.begin_web_socket("/socket");
        talk("begun", &mut chat);
        chats.push(chat);
        processes.push(upgraded(&mut weir, &[]));
        if round < 3 {
            until("all before it are listed", || pids(&weir).len() == round + 1);
        }
    }
    goes_away("the oldest", &mut chats[0]);
    assert!(weir.wait(Duration::from_secs(20)).is_some(), "the oldest ends");
    let left: Vec<u64> = processes[1..4].iter().map(|pid| u64::from(*pid)).collect();
    until("the others are listed, the oldest first", || pids(&weir) == left);
    std::thread::sleep(LONGER_THAN_DRAIN);
    chats[1..].iter_mut().for_each(|chat| talk("a younger one", chat));
    // The last ones take their time, and not that of those between.
    drop(chats.drain(1..3));
    until("those between have ended", || !is_alive(processes[1]) && !is_alive(processes[2]));
    until("one is left", || pids(&weir) == left[2..]);
    talk("the youngest", &mut chats[1]);
}

#[test]
fn a_process_in_the_middle_is_needed_by_nobody() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let post = gate.clone();
    origin.on("/page", move |exchange| {
        if exchange.request.method == "POST" {
            post.pass();
        }
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "page");
    });
    let mut weir = start(&origin, &authority, DRAIN);
    let mut chat = Connection::Http1(weir.client());
    chat.begin_web_socket("/socket");
    let mut writer = weir.client();
    writer.send("POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    origin.await_count("/page", 1);
    let middle = upgraded(&mut weir, &[]);
    upgraded(&mut weir, &[]);
    until("it has nothing left to do", || !is_alive(middle));
    talk("of the first process", &mut chat);
    let mut reader = weir.client();
    reader.get("x", "/page", &[]);
    assert!(reader.get("x", "/page", &[]).is_hit());
    gate.open();
    assert_eq!(writer.recv().unwrap().status(), 200);
    assert!(!reader.get("x", "/page", &[]).is_hit(), "the last process hears of what the first one changes");
    // Its connection has moved there.
    assert_eq!(writer.get("x", "/a", &[]).body, pattern(1, 3000));
    drop(chat);
    assert!(weir.wait(Duration::from_secs(20)).is_some());
}

#[test]
fn old_processes_end_with_the_one_that_has_taken_over_and_stand_in_no_ones_way() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let mut weir = start(&origin, &authority, "");
    let mut chats = connections(&weir, &authority);
    chats.iter_mut().for_each(|(_, chat)| chat.begin_web_socket("/socket"));
    let new = upgraded(&mut weir, &[]);
    until("the old one is listed", || pids(&weir).len() == 1);
    assert!(std::process::Command::new("kill").args(["-KILL", &new.to_string()]).status().unwrap().success());
    chats.iter_mut().for_each(|(name, chat)| goes_away(name, chat));
    assert!(weir.wait(Duration::from_secs(20)).is_some(), "nothing holds up a service manager");
    // Folder and sockets are free.
    weir.start_again();
    assert_eq!(weir.client().get("x", "/a", &[]).body, pattern(1, 3000));
}

#[test]
fn an_old_process_that_is_killed_or_hangs_is_listed_no_more_and_holds_up_no_stop() {
    let (authority, gate) = (Authority::new(), Gate::new());
    let origin = lasting(&gate);
    let mut weir = start(&origin, &authority, DRAIN);
    let begin = |weir: &Weir| {
        let mut chat = Connection::Http1(weir.client());
        chat.begin_web_socket("/socket");
        chat
    };
    let _first = begin(&weir);
    let second = upgraded(&mut weir, &[]);
    let _second = begin(&weir);
    let third = upgraded(&mut weir, &[]);
    until("both are listed", || pids(&weir).len() == 2);
    weir.signal("KILL");
    until("it is gone", || pids(&weir) == [u64::from(second)]);
    let kill = |signal: &str, pid: u32| {
        assert!(
            std::process::Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success()
        );
    };
    kill("-STOP", second);
    kill("-TERM", third);
    until("both have ended", || !is_alive(second) && !is_alive(third));
}
