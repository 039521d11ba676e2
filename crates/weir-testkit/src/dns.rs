//! A name server that answers by a script, over UDP and TCP (RFC 1035), and lies when it is told to.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The longest answer over UDP.
const UDP_BYTES_MAX: usize = 512;

/// The most aliases that are followed for the client.
const ALIASES_MAX: usize = 8;

/// A record of a name.
#[derive(Clone, Debug)]
pub enum Record {
    /// An A or AAAA record.
    Address(IpAddr),
    /// A CNAME record.
    Alias(String),
    /// An SRV record: priority, weight, port and target.
    Service(u16, u16, u16, String),
}

/// How the server answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// As its records say.
    #[default]
    Honest,
    /// There is no such name.
    NoName,
    /// The name has no records.
    Empty,
    /// The server has failed.
    Failing,
    /// It says nothing.
    Silent,
    /// Bytes that are no answer.
    Garbage,
}

/// A scripted name server.
pub struct Dns {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Default)]
struct Shared {
    records: Mutex<HashMap<String, (u32, Vec<Record>)>>,
    mood: Mutex<Mood>,
    /// A name of which nothing is said.
    silent: Mutex<Option<String>>,
    asked: AtomicUsize,
    over_tcp: AtomicUsize,
    stopped: AtomicBool,
}

impl Dns {
    /// A server on a port of 127.0.0.1.
    ///
    /// # Panics
    /// No port is free for UDP and TCP.
    pub fn start() -> Dns {
        let (tcp, udp) = (0..100)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
                let udp = UdpSocket::bind(tcp.local_addr().ok()?).ok()?;
                Some((tcp, udp))
            })
            .unwrap_or_else(|| panic!("no port is free for UDP and TCP"));
        let (shared, address) = (Arc::new(Shared::default()), tcp.local_addr().unwrap());
        let inner = shared.clone();
        std::thread::spawn(move || {
            let mut question = [0; 4096];
            while let Ok((length, from)) = udp.recv_from(&mut question) {
                if inner.stopped.load(Ordering::SeqCst) {
                    return;
                }
                if let Some(answer) = inner.answer(&question[..length], UDP_BYTES_MAX) {
                    let _ = udp.send_to(&answer, from);
                }
            }
        });
        let inner = shared.clone();
        std::thread::spawn(move || {
            for stream in tcp.incoming() {
                if inner.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), inner) = (stream, inner.clone()) else { continue };
                std::thread::spawn(move || inner.serve(stream));
            }
        });
        Dns { shared, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives a name records, in place of those that it had, with a TTL in seconds.
    pub fn put(&self, name: &str, ttl: u32, records: &[Record]) {
        self.shared.records.lock().unwrap().insert(name.to_owned(), (ttl, records.to_vec()));
    }

    /// Gives a name these addresses.
    pub fn addresses(&self, name: &str, ttl: u32, addresses: &[SocketAddr]) {
        let records: Vec<Record> = addresses.iter().map(|address| Record::Address(address.ip())).collect();
        self.put(name, ttl, &records);
    }

    /// Changes how it answers.
    pub fn mood(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// Says nothing of this name from now on.
    pub fn silence(&self, name: &str) {
        *self.shared.silent.lock().unwrap() = Some(name.to_owned());
    }

    /// How many questions it was asked.
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// How many of them came over TCP.
    pub fn asked_over_tcp(&self) -> usize {
        self.shared.over_tcp.load(Ordering::SeqCst)
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Ok(socket) = UdpSocket::bind("127.0.0.1:0") {
            let _ = socket.send_to(&[0], self.address);
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut question).is_err() {
                return;
            }
            self.over_tcp.fetch_add(1, Ordering::SeqCst);
            let Some(answer) = self.answer(&question, usize::from(u16::MAX)) else { return };
            let length = u16::try_from(answer.len()).unwrap_or(u16::MAX).to_be_bytes();
            if stream.write_all(&[&length[..], &answer].concat()).is_err() {
                return;
            }
        }
    }

    /// The answer to a question; `None` where nothing is said.
    fn answer(&self, question: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        let (name, end) = name_of(question, 12)?;
        let kind = u16::from_be_bytes([*question.get(end)?, *question.get(end + 1)?]);
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.silent.lock().unwrap().as_ref() == Some(&name) {
            return None;
        }
        let code: u8 = match *self.mood.lock().unwrap() {
            Mood::Silent => return None,
            Mood::Garbage => return Some([&question[..2], &[0xff; 30]].concat()),
            Mood::Failing => 2,
            Mood::NoName => 3,
            Mood::Empty | Mood::Honest => 0,
        };
        let is_honest = *self.mood.lock().unwrap() == Mood::Honest;
        let records = self.records.lock().unwrap();
        let known = records.get(&name).filter(|_| is_honest);
        let mut parts = Vec::new();
        // As a resolver does that follows aliases for its client.
        let chain = known.into_iter().flat_map(|known| followed(&records, known));
        for (owner, ttl, record) in chain {
            let (of, data): (u8, Vec<u8>) = match record {
                Record::Address(IpAddr::V4(ip)) => (1, ip.octets().to_vec()),
                Record::Address(IpAddr::V6(ip)) => (28, ip.octets().to_vec()),
                Record::Alias(target) => (5, bytes_of(target)),
                Record::Service(priority, weight, port, target) => {
                    let numbers = [priority.to_be_bytes(), weight.to_be_bytes(), port.to_be_bytes()];
                    (33, [numbers.concat(), bytes_of(target)].concat())
                }
            };
            if u16::from(of) == kind || of == 5 {
                let length = u16::try_from(data.len()).unwrap_or(0);
                let head = [&[0, of, 0, 1][..], &ttl.to_be_bytes(), &length.to_be_bytes()].concat();
                // The first owner is the name that was asked for.
                let owner = owner.map_or_else(|| vec![0xc0, 12], bytes_of);
                parts.push([owner, head, data].concat());
            }
        }
        let whole = end + 4 + parts.iter().map(Vec::len).sum::<usize>();
        let is_cut = whole > bytes_max;
        if is_cut {
            parts.clear();
        }
        let code = if known.is_none() && is_honest { 3 } else { code };
        let flags = [0x81 | (u8::from(is_cut) << 1) | 4, 0x80 | code];
        let count = u16::try_from(parts.len()).unwrap_or(u16::MAX).to_be_bytes();
        let head = [&question[..2], &flags, &[0, 1], &count, &[0, 0, 0, 0]].concat();
        Some([head, question.get(12..end + 4)?.to_vec(), parts.concat()].concat())
    }
}

/// The records of a name (owner, TTL, record), and of the names that it is an alias for.
fn followed<'r>(
    records: &'r HashMap<String, (u32, Vec<Record>)>,
    first: &'r (u32, Vec<Record>),
) -> Vec<(Option<&'r str>, u32, &'r Record)> {
    let mut all = Vec::new();
    let mut next = Some((None, first));
    while let Some((owner, (ttl, of_name))) = next.take() {
        for record in of_name {
            all.push((owner, *ttl, record));
            if let Record::Alias(target) = record
                && all.len() < ALIASES_MAX
            {
                next = records.get(target).map(|known| (Some(target.as_str()), known));
            }
        }
    }
    all
}

/// The name at a place, in lower case, and where it ends.
fn name_of(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
}

fn bytes_of(name: &str) -> Vec<u8> {
    let label = |label: &str| [&[u8::try_from(label.len()).unwrap_or(0)], label.as_bytes()].concat();
    let labels = name.split('.').filter(|text| !text.is_empty()).map(label);
    [labels.collect::<Vec<_>>().concat(), vec![0]].concat()
}
