//! A thousand clients for one cold object: one origin request, equal bytes for all, bounded memory.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use weir_testkit::{Origin, Resource, pattern};

use crate::server::before;

const CLIENTS: usize = 1000;

/// All clients request it at once, and every byte is compared with the origin's. Returns by how many bytes
/// Weir has grown.
fn crowd(size: usize) -> u64 {
    let body: Arc<[u8]> = pattern(7, size).into();
    let origin = Origin::start();
    origin.put("/big", Resource::fresh(&body).etag("\"1\""));
    let weir = before(&origin);
    let resting = weir.rss();
    let begun = Instant::now();
    let together = Arc::new(Barrier::new(CLIENTS));
    let readers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (body, together, addr) = (body.clone(), together.clone(), weir.addr());
            let read = move || {
                together.wait();
                let mut client = weir_testkit::Client::connect(addr);
                client.send_get("localhost", "/big", &[]);
                let (mut at, mut equal) = (0, true);
                let answer = client.recv_into(&mut |piece| {
                    equal &= body.get(at..at + piece.len()) == Some(piece);
                    at += piece.len();
                });
                answer.map(|_| equal && at == body.len()).map_err(|why| why.to_string())
            };
            std::thread::Builder::new().stack_size(256 * 1024).spawn(read).unwrap()
        })
        .collect();
    for (number, reader) in readers.into_iter().enumerate() {
        assert_eq!(reader.join().unwrap(), Ok(true), "client {number}");
    }
    let asked: Vec<String> = origin
        .requests("/big")
        .iter()
        .map(|asked| String::from_utf8_lossy(&asked.raw).into_owned())
        .collect();
    assert_eq!(asked.len(), 1, "{asked:#?}");
    let grown = weir.rss_peak().saturating_sub(resting);
    println!("{CLIENTS} clients, {size} bytes each: {:?}, grown by {} MiB", begun.elapsed(), grown >> 20);
    grown
}

#[test]
fn a_thousand_clients_share_one_request() {
    let size = std::env::var("WEIR_CROWD_BYTES").ok().and_then(|size| size.parse().ok()).unwrap_or(4 << 20);
    let grown = crowd(size);
    assert!(grown < 400 << 20, "grew by {grown} bytes");
}
