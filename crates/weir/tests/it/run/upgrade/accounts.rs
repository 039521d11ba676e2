//! The accounts move from one process to the next under requests: everything that clients and the origin have
//! counted is counted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_testkit::{Client, Weir, until};

use super::upgraded;
use crate::operate::accounts::{Books, accounts, agree, config, origin};
use crate::server::setup;

const SITES: [&str; 2] = ["a.test", "b.test"];

/// Reads one response from the wire.
fn receive(client: &mut Client) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let more = client.read_some();
        assert!(!more.is_empty(), "it ends after {} bytes", all.len());
        all.extend_from_slice(&more);
        let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let whole = end + 4 + length.parse::<usize>().unwrap();
        assert!(all.len() <= whole, "more than was asked for");
        if all.len() == whole {
            return all;
        }
    }
}

/// Sends a request of some kind, and counts the response by its own Cache-Status.
fn ask(client: &mut Client, books: &Books, number: usize, round: usize) {
    let site = SITES[round / 6 % 2];
    let target = match round % 6 {
        0 => format!("/fresh/{number}-{round}"),
        1 => "/own".to_owned(),
        2 => format!("/private/{number}"),
        _ => format!("/fresh/{}", round % 40),
    };
    assert!(client.send_get(site, &target, &[]), "{target}: not sent");
    let all = receive(client);
    assert!(all.starts_with(b"HTTP/1.1 200"), "{target}: {}", String::from_utf8_lossy(&all[..100]));
    let text = String::from_utf8_lossy(&all);
    let status = text.lines().find(|line| line.to_lowercase().starts_with("cache-status:"));
    let is_hit = status.is_some_and(|status| status.split("; ").any(|part| part.trim() == "hit"));
    let outcome = match (round % 6, is_hit) {
        (1, false) => "local",
        (2, false) => "passes",
        (_, false) => "misses",
        (1 | 2, true) => panic!("{target} from the cache: {status:?}"),
        (_, true) => "hits",
    };
    books.add(site, "client_bytes", all.len() as u64);
    books.add(site, outcome, 1);
    books.add(site, "requests", 1);
}

/// Clients that send requests until they are stopped. One in three opens a connection for each request.
struct Asking {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Asking {
    fn start(weir: &Weir, books: &Books) -> Asking {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let addr = weir.addr();
        let client = |number: usize| {
            let (stop, done, books) = (stop.clone(), done.clone(), books.clone());
            std::thread::spawn(move || {
                let mut connection = Client::connect(addr);
                for round in number.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    ask(&mut connection, &books, number, round);
                    done.fetch_add(1, Ordering::SeqCst);
                    if number.is_multiple_of(3) {
                        connection = Client::connect(addr);
                    }
                }
            })
        };
        let clients = (0..9).map(client).collect();
        Asking { stop, done, clients }
    }

    /// Waits until `n` more requests are answered.
    fn go_on(&self, n: usize) {
        let goal = self.done.load(Ordering::SeqCst) + n;
        until("requests are answered", || {
            self.done.load(Ordering::SeqCst) >= goal || self.clients.iter().any(JoinHandle::is_finished)
        });
    }

    /// Panics if any response was not as expected.
    fn end(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        self.done.load(Ordering::SeqCst)
    }
}

#[test]
fn usage_during_an_upgrade_is_counted_once() {
    let books = Books::default();
    let origin = origin(&books);
    let mut weir = setup().run_config(&config(&origin, &SITES));
    let asking = Asking::start(&weir, &books);
    asking.go_on(300);
    for _ in 0..2 {
        upgraded(&mut weir, &[]);
        asking.go_on(300);
    }
    let done = asking.end() as u64;
    agree(&weir, &books);
    let counted = accounts(&weir);
    let sum =
        |number: &'static str| SITES.map(|site| counted[&(site.to_owned(), number)]).iter().sum::<u64>();
    assert_eq!(sum("requests"), done);
    for number in ["hits", "misses", "passes", "local", "origin_requests", "origin_bytes"] {
        assert!(sum(number) > 50, "{} {number}", sum(number));
    }
    assert!(weir.wait(Duration::from_secs(20)).is_some_and(|status| status.success()), "the first one ends");
    assert_eq!(accounts(&weir), books.all());
    weir.restart();
    assert_eq!(accounts(&weir), books.all());
    // Counting goes on from there.
    ask(&mut weir.client(), &books, 0, 0);
    agree(&weir, &books);
}
