//! A distributor that a scenario plays: it answers each question as a function says.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

/// A question, as far as scenarios look at it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: [u8; 8],
    pub(crate) is_fill: bool,
    pub(crate) policy: String,
    pub(crate) client: String,
    pub(crate) head: String,
}

impl Asked {
    /// Reads a question that is not signed, by `docs/format/distributor.md`.
    fn read(bytes: &[u8]) -> Asked {
        assert_eq!(&bytes[..3], b"WQ\x01");
        let (policy, client) = (usize::from(bytes[12]), usize::from(bytes[13]));
        let head = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
        let text = |from: usize, length: usize| String::from_utf8(bytes[from..from + length].into()).unwrap();
        Asked {
            id: bytes[4..12].try_into().unwrap(),
            is_fill: bytes[3] & 1 == 1,
            policy: text(16, policy),
            client: text(16 + policy, client),
            head: text(16 + policy + client, head),
        }
    }

    /// The bytes of an answer with an address.
    pub(crate) fn address(&self, address: SocketAddr) -> Vec<u8> {
        self.answer(1, &address.to_string())
    }

    /// The bytes of an answer.
    pub(crate) fn answer(&self, kind: u8, text: &str) -> Vec<u8> {
        [&b"WA\x01"[..], &[kind], &self.id, text.as_bytes()].concat()
    }
}

/// A distributor on a thread of its own.
pub(crate) struct Played {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    count: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Played {
    /// One that answers so.
    pub(crate) fn start(mut play: impl FnMut(&Asked) -> Vec<Vec<u8>> + Send + 'static) -> Played {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (count, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (kept, counted, ended) = (asked.clone(), count.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 65_535];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                let question = Asked::read(&bytes[..length]);
                let answers = play(&question);
                kept.lock().push(question);
                counted.fetch_add(1, Ordering::Relaxed);
                for answer in answers {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Played { address, asked, count, ends, thread: Some(thread) }
    }

    /// The configuration's line.
    pub(crate) fn url(&self) -> String {
        format!("udp://{}", self.address)
    }

    /// The questions so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    /// How many there were.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}
