//! The objects of these scenarios' origin, the clients, and what they may get.
//!
//! Every body belongs to a number and a version, and differs from all others at each position. A purge first
//! raises the version, so that a response after its acknowledgement can be told from one before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use weir_testkit::{Address, Client, Origin, Random, Request, Response, Trouble, Weir, pattern};

/// All is well: every request is answered whole.
pub const WELL: u8 = 0;
/// The drive fails: a body may break off.
pub const AILING: u8 = 1;
/// Weir is being killed: no answer need come.
pub const KILLED: u8 = 2;

/// All bodies are pieces of this, each from another position on.
static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(7, NOISE_BYTES));
const NOISE_BYTES: usize = 12 << 20;
const BODY_BYTES_MAX: usize = 8 << 20;

/// The objects of an origin.
pub struct Stock {
    lengths: Vec<usize>,
    /// The version that the origin sends.
    current: Vec<AtomicU64>,
    /// The oldest version that may still be served.
    oldest: Vec<AtomicU64>,
    /// The oldest version that may be served after a restart.
    oldest_later: Vec<AtomicU64>,
    /// The version and the time of each object's last whole response from the origin.
    complete: Mutex<HashMap<usize, (u64, Instant)>>,
    /// How many bodies broke off without a fault.
    broken: AtomicUsize,
    /// How many bodies broke off while the drive failed.
    cut: AtomicUsize,
    is_without_power: AtomicBool,
}

/// How many objects were found again, and how many had to be.
#[derive(Debug, Default, Clone, Copy)]
pub struct Kept {
    pub kept: usize,
    pub wanted: usize,
}

impl Stock {
    /// `count` objects whose lengths repeat.
    pub fn new(lengths: &[usize], count: usize) -> Arc<Stock> {
        assert!(lengths.iter().all(|length| *length <= BODY_BYTES_MAX));
        let numbers = |from| (0..count).map(|_| AtomicU64::new(from)).collect();
        Arc::new(Stock {
            lengths: lengths.iter().copied().cycle().take(count).collect(),
            current: numbers(1),
            oldest: numbers(1),
            oldest_later: numbers(1),
            complete: Mutex::default(),
            broken: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            is_without_power: AtomicBool::new(false),
        })
    }

    /// An origin that sends them, fresh for an hour, the longer ones in pieces.
    pub fn origin(self: &Arc<Stock>) -> Origin {
        let origin = Origin::start();
        let stock = Arc::clone(self);
        origin.otherwise(move |exchange| {
            let number: usize = exchange.request.target.trim_start_matches('/').parse().unwrap();
            let version = stock.current[number].load(Ordering::SeqCst);
            let body = stock.body(number, version);
            let (status, start, end) = wanted(exchange.request, version, body.len());
            let range = match status {
                206 => format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, body.len()),
                _ => String::new(),
            };
            exchange.send(format!(
                "HTTP/1.1 {status} OK\r\nContent-Length: {}\r\n{range}Cache-Control: max-age=3600\r\n\
                 ETag: \"{version}\"\r\nX-Version: {version}\r\nSurrogate-Key: tag{}\r\n\r\n",
                end - start,
                number % TAGS
            ));
            for piece in body[start..end].chunks(128 << 10) {
                if !exchange.send(piece) {
                    return exchange.close();
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        origin
    }

    pub fn count(&self) -> usize {
        self.lengths.len()
    }

    /// How many bodies broke off while all was well: the one that is being read may be dropped for room.
    pub fn broken(&self) -> usize {
        self.broken.load(Ordering::SeqCst)
    }

    /// How many bodies broke off while the drive failed.
    pub fn cut(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }

    /// The origin's bytes of a version.
    pub fn body(&self, number: usize, version: u64) -> &'static [u8] {
        // No two of them begin at the same position for as long as any scenario runs, and short ones of one
        // version lie apart.
        let from = (number * 174_763 + version as usize * 104_729) % (NOISE_BYTES - BODY_BYTES_MAX);
        &NOISE[from..from + self.lengths[number]]
    }

    /// The oldest version that may be served to a request that begins now.
    pub fn oldest(&self, number: usize) -> u64 {
        self.oldest[number].load(Ordering::SeqCst)
    }

    /// Panics unless a response, as far as it has come, is of a version that may be served, byte for byte.
    pub fn judge(&self, number: usize, oldest: u64, found: &Response, is_whole: bool) -> u64 {
        assert_eq!(found.status(), 200, "object {number}: {:?}", found.head);
        let version = found.header("x-version").and_then(|text| text.parse().ok()).unwrap_or(0);
        let newest = self.current[number].load(Ordering::SeqCst);
        assert!(
            (oldest..=newest).contains(&version),
            "object {number}: version {version} of {oldest}..={newest} {:?}",
            found.head
        );
        let body = self.body(number, version);
        let is_length = found.header("content-length").is_some_and(|text| text == body.len().to_string());
        assert!(is_length, "object {number}: {:?}", found.head);
        assert!(!is_whole || found.body.len() == body.len(), "object {number} ends clean and short");
        let is_right = body.get(..found.body.len()) == Some(&found.body[..]);
        let wrong = || found.body.iter().zip(body).position(|(came, sent)| came != sent);
        assert!(is_right, "object {number}, version {version}: wrong from byte {:?} on", wrong());
        version
    }

    /// Raises the versions of these objects. Pass the result to [`Stock::purged`].
    fn raise(&self, numbers: &[usize]) -> Vec<(usize, u64)> {
        let next = |number: &usize| (*number, self.current[*number].fetch_add(1, Ordering::SeqCst) + 1);
        numbers.iter().map(next).collect()
    }

    /// Notes that the purge of these was acknowledged. The system may tell a Weir without its drive that all
    /// is written when nothing is. Such an acknowledgement holds for this process alone.
    fn purged(&self, raised: &[(usize, u64)]) {
        for (number, version) in raised {
            self.oldest[*number].fetch_max(*version, Ordering::SeqCst);
            if !self.is_without_power.load(Ordering::SeqCst) {
                self.oldest_later[*number].fetch_max(*version, Ordering::SeqCst);
            }
        }
    }

    fn note_complete(&self, number: usize, version: u64) {
        self.complete.lock().unwrap().insert(number, (version, Instant::now()));
    }

    /// The power is about to be cut: acknowledgements from now on do not outlive the process.
    pub fn before_power_cut(&self, stage: &AtomicU8) {
        stage.store(AILING, Ordering::SeqCst);
        self.is_without_power.store(true, Ordering::SeqCst);
    }

    /// Requests everything from a restarted Weir and judges it. Counts how much of what was complete
    /// `settled` before `end` is there, among the newest `newest_bytes`, since older objects may have made
    /// room.
    pub fn audit(&self, weir: &Weir, end: Instant, settled: Duration, newest_bytes: usize) -> Kept {
        let mut complete: Vec<(usize, u64, Instant)> = self
            .complete
            .lock()
            .unwrap()
            .iter()
            .map(|(number, (version, at))| (*number, *version, *at))
            .collect();
        complete.sort_by_key(|(_, _, at)| std::cmp::Reverse(*at));
        self.is_without_power.store(false, Ordering::SeqCst);
        for (now, later) in self.oldest.iter().zip(&self.oldest_later) {
            now.store(later.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let mut held: HashMap<usize, u64> = HashMap::new();
        let mut client = weir.client();
        for number in 0..self.count() {
            let oldest = self.oldest(number);
            let path = format!("/{number}");
            let found = client.get("localhost", &path, &[("Cache-Control", "only-if-cached")]);
            if found.status() != 504 {
                assert!(found.is_hit(), "object {number}: {:?}", found.head);
                held.insert(number, self.judge(number, oldest, &found, true));
            }
        }
        let mut report = Kept::default();
        let mut bytes = 0;
        for (number, version, at) in complete {
            bytes += self.lengths[number];
            let is_current = self.current[number].load(Ordering::SeqCst) == version;
            let is_held = held.get(&number) == Some(&version);
            if is_current && bytes <= newest_bytes && at + settled <= end {
                report.wanted += 1;
                report.kept += usize::from(is_held);
                if !is_held {
                    let (length, before) = (self.lengths[number], end - at);
                    println!(
                        "lost: {length} bytes, complete {before:?} before, {bytes} of {newest_bytes} ago"
                    );
                }
            }
            if !is_held {
                self.complete.lock().unwrap().remove(&number);
            }
        }
        report
    }

    /// Requests and purges at random until `stage` is [`KILLED`], and judges every response.
    pub fn load(&self, weir: &Weir, stage: &AtomicU8, purge: impl Fn(&str) -> bool, seed: u64) {
        let mut random = Random::new(seed);
        while stage.load(Ordering::SeqCst) != KILLED {
            let number = random.below(self.count() as u64) as usize;
            match random.below(1200) {
                0 => {
                    let tag = number % TAGS;
                    let all: Vec<usize> = (tag..self.count()).step_by(TAGS).collect();
                    let raised = self.raise(&all);
                    if purge(&format!("tag{tag}")) {
                        self.purged(&raised);
                    } else {
                        assert_ne!(stage.load(Ordering::SeqCst), WELL, "a purge by tag is refused");
                    }
                }
                1..=12 => self.purge_url(weir, stage, number),
                _ => self.ask(weir, stage, number),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn purge_url(&self, weir: &Weir, stage: &AtomicU8, number: usize) {
        let raised = self.raise(&[number]);
        let was = stage.load(Ordering::SeqCst);
        let answer = connect(weir).map(|mut client| {
            client.send(format!("PURGE /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            client.recv()
        });
        match answer {
            Some(Ok(answer)) if answer.status() == 200 => self.purged(&raised),
            other => {
                let is = stage.load(Ordering::SeqCst);
                assert!(was != WELL || is != WELL, "a purge is answered by {other:?}");
            }
        }
    }

    /// Requests an object and judges the response. A body from the origin is noted as complete.
    pub fn ask(&self, weir: &Weir, stage: &AtomicU8, number: usize) {
        let oldest = self.oldest(number);
        let answer = connect(weir).map(|mut client| {
            client.send_get("localhost", &format!("/{number}"), &[]);
            client.recv()
        });
        match answer {
            Some(Ok(found)) => {
                let version = self.judge(number, oldest, &found, true);
                if !found.is_hit() {
                    self.note_complete(number, version);
                }
            }
            Some(Err(Trouble::Cut(found))) => {
                let count = match stage.load(Ordering::SeqCst) {
                    WELL => &self.broken,
                    _ => &self.cut,
                };
                count.fetch_add(1, Ordering::SeqCst);
                self.judge(number, oldest, &found, false);
            }
            other => {
                let stage = stage.load(Ordering::SeqCst);
                assert_eq!(stage, KILLED, "object {number} is answered by {other:?}");
            }
        }
    }
}

/// The status and the part of a body for a request: one range, if it is still of that version.
fn wanted(request: &Request, version: u64, length: usize) -> (u16, usize, usize) {
    let range = request.header("range");
    let bounds = range.as_deref().and_then(|value| value.strip_prefix("bytes=")?.split_once('-'));
    let is_current = request.header("if-range").is_none_or(|tag| tag == format!("\"{version}\""));
    let Some((first, last)) = bounds.filter(|_| is_current) else { return (200, 0, length) };
    let start = first.parse().unwrap_or(length);
    let end = last.parse().map_or(length, |last: usize| length.min(last + 1));
    if start < end { (206, start, end) } else { (200, 0, length) }
}

/// The number of tags that the objects share.
const TAGS: usize = 8;

fn connect(weir: &Weir) -> Option<Client> {
    Address::Tcp(weir.addr()).connect().ok().map(Client::over)
}

impl std::ops::AddAssign for Kept {
    fn add_assign(&mut self, more: Kept) {
        self.kept += more.kept;
        self.wanted += more.wanted;
    }
}

impl Kept {
    /// Panics if less than 99 % was kept, or if too little was requested to tell.
    pub fn assert_enough(self) {
        assert!(self.wanted >= 100, "{self:?}");
        assert!(self.kept * 100 >= self.wanted * 99, "{self:?}");
    }
}
