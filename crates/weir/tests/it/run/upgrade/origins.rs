//! What a process knows of its origins goes over: agents' words, checks, and the addresses that DNS named.

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};

use weir_testkit::{Dns, Mood, Origin, free_port, get, until};

use crate::origins::changes::shown;
use crate::origins::names::{addresses, on_one_port};
use crate::server::server;

/// Agents on one port beside these origins: that of the second says `maint`, the others `ready`. Once they
/// are silent they say nothing whole. Their threads end with the process.
fn agents(all: &[Origin], silent: &Arc<AtomicBool>) -> u16 {
    let beside = |port: u16| -> Option<Vec<TcpListener>> {
        all.iter().map(|origin| TcpListener::bind(SocketAddr::new(origin.addr().ip(), port)).ok()).collect()
    };
    let listeners = (0..100).find_map(|_| beside(free_port())).unwrap();
    let port = listeners[0].local_addr().unwrap().port();
    for (number, listener) in listeners.into_iter().enumerate() {
        let silent = silent.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let line = if number == 1 { "maint # a release\n" } else { "ready 100%\n" };
                if !silent.load(Ordering::SeqCst) {
                    let _ = stream.write_all(line.as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
                }
            }
        });
    }
    port
}

#[test]
fn a_new_process_asks_no_origin_that_the_old_one_would_not_have_asked() {
    let (dns, all, silent) = (Dns::start(), on_one_port(3), Arc::new(AtomicBool::new(false)));
    let status = Arc::new(AtomicU16::new(200));
    for (number, origin) in all.iter().enumerate() {
        let status = if number == 2 { status.clone() } else { Arc::new(AtomicU16::new(200)) };
        origin.on("/up", move |exchange| {
            exchange.reply(status.load(Ordering::SeqCst), &[], "");
        });
    }
    dns.addresses("app.test", 0, &addresses(&all));
    let lines = format!(
        "resolve = \"each\"\nnameservers = [\"{}\"]\ndns_refresh = \"1s\"\nconnect = \"1s\"\n\
         agent = {{ port = {}, every = \"100ms\" }}\n\
         check = {{ path = \"/up\", every = \"500ms\", timeout = \"500ms\", rise = 1000, fall = 3 }}",
        dns.address(),
        agents(&all, &silent)
    );
    let url = format!("\"http://app.test:{}\"", all[0].addr().port());
    let mut weir = server(&[]).origins(&url).upstream(&lines).start();
    let names: Vec<String> = all.iter().map(|origin| format!("http://app.test@{}", origin.addr())).collect();
    until("the third is up", || shown(&weir, &names[2])["state"] == "ready");
    status.store(500, Ordering::SeqCst);
    let states = [("ready", 0), ("maintenance", 1), ("down", 2)];
    let stand = |weir: &weir_testkit::Weir| {
        states.iter().all(|(state, number)| shown(weir, &names[*number])["state"] == *state)
    };
    until("they stand as they are told", || stand(&weir));
    // From now on nobody tells a new process anything but the checks, which pass too seldom.
    dns.mood(Mood::Failing);
    silent.store(true, Ordering::SeqCst);
    status.store(200, Ordering::SeqCst);
    let (addr, stop, done) = (weir.addr(), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let answer = get(addr, "/x");
                    assert_eq!((answer.status(), answer.text().as_str()), (200, "1"));
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..2 {
            let upgraded = weir.upgrade(&[]);
            let before = done.load(Ordering::SeqCst);
            until("the new process answers", || done.load(Ordering::SeqCst) > before + 300);
            assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
            assert!(stand(&weir));
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!([all[1].count("/x"), all[2].count("/x")], [0, 0]);
    let of_agent = shown(&weir, &names[1])["reason"].clone();
    assert_eq!(of_agent, "its agent says: a release");
}
