//! The clients: plain, conditional, partial, slow, leaving, authenticated, reloading, changing. They check
//! every byte that they get.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use crate::wire::{BodyReader, Framing, Head, Wire};
use crate::world::{Kind, Sabotage, World, etag};

/// A slow client rests each time it has received so many bytes.
const REST_EVERY_BYTES: usize = 32 << 10;

/// Longer than anything takes that is not stuck.
const PATIENCE: Duration = Duration::from_secs(400);
/// The tolerance for a response's way and the simulation's clock.
const SLACK: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Plain,
    Conditional,
    Range,
    Slow,
    LeaveEarly,
    LeaveLate,
    Authenticated,
    Reload,
    NoStore,
    OnlyIfCached,
    Head,
    Change,
}

const WISHES: &[Wish] = &[
    Wish::Plain,
    Wish::Plain,
    Wish::Plain,
    Wish::Plain,
    Wish::Plain,
    Wish::Plain,
    Wish::Conditional,
    Wish::Conditional,
    Wish::Range,
    Wish::Range,
    Wish::Slow,
    Wish::LeaveEarly,
    Wish::LeaveLate,
    Wish::Authenticated,
    Wish::Reload,
    Wish::NoStore,
    Wish::OnlyIfCached,
    Wish::Head,
    Wish::Change,
];

pub struct Client {
    pub number: u64,
    pub world: Rc<World>,
    pub door: PathBuf,
    pub wire: Option<Wire>,
    /// The last entity tag of each object.
    pub tags: HashMap<String, String>,
}

/// One request under way.
struct Request {
    wish: Wish,
    path: String,
    kind: Kind,
    asked: Instant,
    language: &'static str,
    user: Option<String>,
    /// The entity tag it is conditional on.
    tag: Option<String>,
    range: Option<String>,
}

/// A response's body as it came.
enum Came {
    Whole(Vec<u8>),
    Cut(Vec<u8>),
    Left,
}

impl Client {
    /// Runs until the client's requests are done.
    pub async fn live(mut self) {
        self.world.pause(0, 2000).await;
        for _ in 0..self.world.climate.steps {
            if self.world.what_is_wrong().is_some() {
                return;
            }
            self.world.count("steps");
            let request = self.request();
            let what = format!("client {}: {:?} {}", self.number, request.wish, request.path);
            self.world.tell(|| what.clone());
            let patience = match self.world.climate.sabotage {
                Some(Sabotage::Stuck) => PATIENCE / 100,
                _ => PATIENCE,
            };
            if timeout(patience, self.step(request)).await.is_err() {
                self.world.wrong(format!("{what}: stuck for {patience:?}"));
            }
            self.world.tell(|| format!("{what}: done"));
            match self.world.below(6) {
                0 => self.world.pause(1_000, 20_000).await,
                1 | 2 => self.world.pause(0, 1_000).await,
                _ => {}
            }
            if self.world.is_one_of(8) {
                self.wire = None;
            }
        }
    }

    fn request(&self) -> Request {
        let world = &self.world;
        let path = world.path();
        let kind = Kind::of(&path);
        let wish = WISHES[world.below(WISHES.len() as u64) as usize];
        let is_known = wish == Wish::Authenticated || (kind.word == "user" && world.is_one_of(2));
        let user = is_known.then(|| format!("user {}", self.number));
        let tag = match wish {
            Wish::Conditional => self.tags.get(&path).cloned(),
            _ => None,
        };
        let range = (wish == Wish::Range).then(|| {
            let start = world.below(3) * world.below(if kind.word == "large" { 1_500_000 } else { 40_000 });
            match world.below(6) {
                0 => format!("-{}", 1 + world.below(90_000)),
                1 => format!("{start}-"),
                _ => format!("{start}-{}", start + world.below(100_000)),
            }
        });
        let language = ["de", "en", "fr"][world.below(3) as usize];
        Request { wish, path, kind, asked: Instant::now(), language, user, tag, range }
    }

    async fn step(&mut self, mut request: Request) {
        let Some(mut wire) = self.connect().await else { return };
        request.asked = Instant::now();
        let is_reused = self.wire.is_none();
        if wire.send(request.print().as_bytes()).await.is_err() {
            return self.world.count("connection gone");
        }
        self.world.stir();
        if request.wish == Wish::LeaveEarly {
            self.world.pause(0, 300).await;
            return self.world.count("left early");
        }
        let head = loop {
            match wire.head().await {
                Ok(Some(head)) if (100..200).contains(&head.status()) => self.world.stir(),
                Ok(Some(head)) => break head,
                Ok(None) => return self.world.count(if is_reused { "idle closed" } else { "closed" }),
                Err(_) => return self.failed(&request, "no whole head"),
            }
        };
        self.world.stir();
        self.world.tell(|| format!("client {}: {} {:?}", self.number, head.line, head.field("cache-status")));
        let came = self.body(&request, &head, &mut wire).await;
        self.judge(&request, &head, came, wire).await;
    }

    async fn connect(&mut self) -> Option<Wire> {
        if let Some(wire) = self.wire.take() {
            return Some(wire);
        }
        match UnixStream::connect(&self.door).await {
            Ok(stream) => Some(Wire::new(stream)),
            Err(error) => {
                self.world.wrong(format!("cannot connect: {error}"));
                None
            }
        }
    }

    /// What may happen while something is at fault, and never otherwise.
    fn failed(&self, request: &Request, what: &str) {
        self.world.count(what);
        let climate = self.world.climate;
        if climate.is_calm() && climate.is_roomy() && climate.sabotage.is_none() {
            self.world
                .wrong(format!("{:?} {}: {what}, and nothing was at fault", request.wish, request.path));
        }
    }

    async fn body(&self, request: &Request, head: &Head, wire: &mut Wire) -> Came {
        let mut bytes = Vec::new();
        if request.wish == Wish::Head || matches!(head.status(), 204 | 304) {
            return Came::Whole(bytes);
        }
        let length = head.field("content-length").and_then(|length| length.parse().ok());
        let framing = match (length, head.field("transfer-encoding")) {
            (_, Some("chunked")) => Framing::Chunked,
            (Some(length), _) => Framing::Length(length),
            _ => Framing::Close,
        };
        if framing == Framing::Close {
            self.world.wrong(format!("{}: a body without framing", request.path));
        }
        let mut reader = BodyReader::new(framing);
        let is_slow = request.wish == Wish::Slow;
        let leaves_at = match request.wish {
            Wish::LeaveLate => self.world.below(200_000) as usize,
            _ => usize::MAX,
        };
        let mut rests_at = 0;
        loop {
            let max = if is_slow { 64 << 10 } else { 1 << 20 };
            match reader.next(wire, max).await {
                Ok(Some(piece)) => bytes.extend_from_slice(&piece),
                Ok(None) => return Came::Whole(bytes),
                Err(_) => return Came::Cut(bytes),
            }
            self.world.stir();
            if bytes.len() >= leaves_at {
                return Came::Left;
            }
            if is_slow && bytes.len() >= rests_at {
                // Not after each piece, since chunks may be short.
                rests_at = bytes.len() + REST_EVERY_BYTES;
                self.world.pause(10, 2_500).await;
            }
        }
    }

    async fn judge(&mut self, request: &Request, head: &Head, came: Came, wire: Wire) {
        let world = self.world.clone();
        let status = head.status();
        world.count(&format!("status {status}"));
        let (bytes, is_whole) = match came {
            Came::Whole(bytes) => (bytes, true),
            Came::Cut(bytes) => {
                self.failed(request, "cut");
                (bytes, false)
            }
            Came::Left => return world.count("left"),
        };
        if is_whole && head.field("connection") != Some("close") {
            self.wire = Some(wire);
        }
        if let Some(how) = head.field("cache-status") {
            let word = if how.contains("hit") { "hits" } else { "forwarded" };
            world.count(word);
            if how.contains("collapsed") {
                world.count("collapsed");
            }
        } else {
            world.wrong(format!("{}: no Cache-Status", request.path));
        }
        match status {
            500 | 502 | 503 => self.failed(request, "server error"),
            504 if request.wish == Wish::OnlyIfCached => {}
            504 => self.failed(request, "gateway timeout"),
            304 => self.unchanged(request, head),
            416 if request.wish == Wish::Range => {}
            200 if request.wish == Wish::Change => {
                if let Some(version) = head.field("x-version").and_then(|text| text.parse().ok()) {
                    world.acknowledged(&request.path, version);
                }
            }
            200 | 206 | 401 | 404 => self.representation(request, head, &bytes, is_whole),
            _ => world.wrong(format!("{}: {}", request.path, head.line)),
        }
    }

    fn unchanged(&self, request: &Request, head: &Head) {
        // Past the cache the origin's statement goes through unchanged, this one too.
        if head.field("etag") == Some("\"nobody-knows\"") {
            return self.world.count("304 that nobody asked for");
        }
        if request.tag.is_none() || head.field("etag") != request.tag.as_deref() {
            self.world.wrong(format!("{}: 304 for {:?}: {head:?}", request.path, request.tag));
        }
    }

    fn representation(&mut self, request: &Request, head: &Head, bytes: &[u8], is_whole: bool) {
        let world = self.world.clone();
        let path = &request.path;
        let name = head.field("x-name").unwrap_or_default().to_owned();
        let version = head.field("x-version").and_then(|text| text.parse().ok()).unwrap_or(0);
        self.check_name(request, head, &name);
        if name.contains('#') && !world.is_first_to_see(&name) {
            world.wrong(format!("{path}: {name} reached a second client: {head:?}"));
        }
        let after = match request.wish {
            Wish::Reload => Duration::ZERO,
            _ => request.kind.bound(),
        };
        world.check_version(path, version, request.asked, after + SLACK);
        if head.field("cache-status").is_some_and(|said| said.contains("stale-if-unreachable")) {
            world.count("stale while unreachable");
        }
        if request.kind.has_etag {
            let tag = etag(&name, version);
            if head.field("etag") != Some(&tag) {
                world.wrong(format!("{path}: entity tag {:?} with version {version}", head.field("etag")));
            }
            self.tags.insert(path.clone(), tag);
        }
        if request.wish == Wish::Head {
            return;
        }
        let whole = world.body(&name, version);
        let Some((start, end)) = interval(head, whole.len()) else {
            return world.wrong(format!(
                "{path}: {:?} of {} bytes",
                head.field("content-range"),
                whole.len()
            ));
        };
        let expected = &whole[start..end];
        if is_whole && bytes.len() != expected.len() {
            return world.wrong(format!(
                "{path}: {name} version {version} ended clean after {} of {} bytes: {head:?}",
                bytes.len(),
                expected.len()
            ));
        }
        if !expected.starts_with(bytes) {
            let at = bytes.iter().zip(expected).take_while(|(one, other)| one == other).count();
            let around = String::from_utf8_lossy(&bytes[at.saturating_sub(64)..bytes.len().min(at + 64)]);
            world.wrong(format!("{path}: {name} version {version} has other bytes at {at}: {around:?}"));
        }
    }

    fn check_name(&self, request: &Request, head: &Head, name: &str) {
        let (path, kind) = (&request.path, request.kind);
        let own = request.user.as_ref().map(|user| user.replace(' ', "-"));
        let is_right = match (kind.word, name.split_once('#')) {
            ("lang", _) => name == format!("{path}~{}", request.language),
            ("user", Some((of, whose))) => {
                let user = whose.split_once('#').map(|(_, user)| user.to_owned());
                of == path && user == own && (user.is_some() || head.status() == 401)
            }
            ("private", Some((of, _))) => of == path,
            ("shift", Some((of, _))) => of == path,
            ("user" | "private", None) => false,
            _ => name == path,
        };
        if !is_right {
            self.world.wrong(format!("{path}: got {name:?}: {head:?}"));
        }
        if request.wish != Wish::Range && head.status() == 206 {
            self.world.wrong(format!("{path}: a part that nobody asked for"));
        }
    }
}

/// The interval of the whole that a response holds.
fn interval(head: &Head, length: usize) -> Option<(usize, usize)> {
    if head.status() != 206 {
        return Some((0, length));
    }
    let (span, total) = head.field("content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let (start, end) = (first.parse().ok()?, last.parse::<usize>().ok()? + 1);
    (total.parse() == Ok(length) && start < end && end <= length).then_some((start, end))
}

impl Request {
    fn print(&self) -> String {
        let method = match self.wish {
            Wish::Head => "HEAD",
            Wish::Change => "POST",
            _ => "GET",
        };
        let mut text = format!("{method} {} HTTP/1.1\r\nhost: simulated.example\r\n", self.path);
        let mut field = |name: &str, value: &str| text += &format!("{name}: {value}\r\n");
        if self.kind.word == "lang" {
            field("accept-language", self.language);
        }
        if let Some(user) = &self.user {
            field("authorization", user);
        }
        if let Some(tag) = &self.tag {
            field("if-none-match", tag);
        }
        if let Some(range) = &self.range {
            field("range", &format!("bytes={range}"));
        }
        match self.wish {
            Wish::Reload => field("cache-control", "no-cache"),
            Wish::NoStore => field("cache-control", "no-store"),
            Wish::OnlyIfCached => field("cache-control", "only-if-cached"),
            Wish::Change => field("content-length", "4"),
            Wish::Plain | Wish::Conditional | Wish::Slow if self.user.is_none() => field("x-plain", "1"),
            _ => {}
        }
        text += "\r\n";
        if self.wish == Wish::Change {
            text += "more";
        }
        text
    }
}
