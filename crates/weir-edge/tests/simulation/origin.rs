//! The origin: the seed decides how it answers, with every fault there is.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::Instant;

use crate::wire::{Head, Wire};
use crate::world::{Kind, Sabotage, World, etag};

/// The fault of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The connection ends without a head.
    NoHead,
    StallHead,
    SlowHead,
    Garbage,
    BareLineFeed,
    TwoLengths,
    Error500,
    Error503,
    /// The connection ends in the middle of the body.
    Truncate,
    StallBody,
    /// More bytes follow than the head declares, as of a response to nobody.
    Excess,
    BadChunk,
    Interim,
    /// A 304 that nobody asked for.
    NotModified,
    SlowBody,
    HugeHead,
}

const FAULTS: &[Fault] = &[
    Fault::NoHead,
    Fault::StallHead,
    Fault::SlowHead,
    Fault::Garbage,
    Fault::BareLineFeed,
    Fault::TwoLengths,
    Fault::Error500,
    Fault::Error503,
    Fault::Truncate,
    Fault::Truncate,
    Fault::StallBody,
    Fault::Excess,
    Fault::BadChunk,
    Fault::Interim,
    Fault::NotModified,
    Fault::SlowBody,
    Fault::HugeHead,
];

impl Fault {
    fn of(world: &World) -> Fault {
        if world.below(100) < world.climate.faults_percent {
            return FAULTS[world.below(FAULTS.len() as u64) as usize];
        }
        match world.below(12) {
            0 => Fault::SlowBody,
            1 => Fault::Interim,
            _ => Fault::None,
        }
    }

    /// Whether the response can be used in spite of the fault.
    fn is_harmless(self) -> bool {
        matches!(self, Fault::None | Fault::Interim | Fault::SlowBody)
    }
}

/// Listens, with interruptions.
pub async fn run(world: Rc<World>, path: PathBuf) {
    loop {
        let listener = UnixListener::bind(&path).unwrap();
        world.is_down.set(false);
        let up = accept(&world, &listener);
        let up_ms = if world.climate.is_calm() { u64::from(u32::MAX) } else { 20_000 + world.below(200_000) };
        let _ = tokio::time::timeout(Duration::from_millis(up_ms), up).await;
        drop(listener);
        let _ = std::fs::remove_file(&path);
        world.is_down.set(true);
        world.tell(|| "origin is down".to_owned());
        world.count("origin down");
        world.pause(500, 30_000).await;
    }
}

async fn accept(world: &Rc<World>, listener: &UnixListener) {
    while let Ok((stream, _)) = listener.accept().await {
        world.stir();
        tokio::task::spawn_local(connection(world.clone(), stream));
    }
}

async fn connection(world: Rc<World>, stream: UnixStream) {
    let mut wire = Wire::new(stream);
    while let Ok(Some(request)) = wire.head().await {
        world.stir();
        if world.is_down.get() || answer(&world, &mut wire, &request).await.is_none() {
            return;
        }
        world.stir();
    }
}

/// A request as the origin reads it.
struct Asked<'a> {
    head: &'a Head,
    method: &'a str,
    path: &'a str,
    kind: Kind,
    /// The language asked for, where the object has several.
    variant: String,
}

/// Answers one request. `None` where the connection must end.
async fn answer(world: &Rc<World>, wire: &mut Wire, head: &Head) -> Option<()> {
    let mut words = head.line.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let kind = Kind::of(path);
    let variant = match kind.word {
        "lang" => head.field("accept-language").unwrap_or("none").to_owned(),
        _ => String::new(),
    };
    let asked = Asked { head, method, path, kind, variant };
    let is_plain = head.field("x-plain").is_some() && method == "GET" && head.field("if-range").is_none();
    world.tell(|| {
        format!(
            "  origin: {method} {path} {} plain={is_plain} inm={:?} range={:?}",
            asked.variant,
            head.field("if-none-match"),
            head.field("range")
        )
    });
    world.count("origin requests");
    if !is_plain {
        let unsettling = Unsettling::begin(world, path);
        let going = reply(world, wire, &asked, Fault::of(world)).await;
        drop(unsettling);
        return going.filter(|_| asked.head.field("connection") != Some("close"));
    }
    world.asked(path, &asked.variant);
    let mut fault = Fault::of(world);
    if world.climate.sabotage == Some(Sabotage::Stuck) {
        fault = Fault::StallHead;
    }
    if !matches!(fault, Fault::None | Fault::Interim) {
        world.trouble(path, &asked.variant);
    }
    let asking = Asking { world, path, variant: &asked.variant, since: Instant::now(), is_whole: false };
    let mut asking = asking;
    let going = reply(world, wire, &asked, fault).await;
    asking.is_whole = going.is_some() && fault.is_harmless();
    going
}

/// The response to this request may replace what is held.
struct Unsettling<'a> {
    world: &'a World,
    path: &'a str,
}

impl Unsettling<'_> {
    fn begin<'a>(world: &'a World, path: &'a str) -> Unsettling<'a> {
        world.unsettling(path);
        Unsettling { world, path }
    }
}

impl Drop for Unsettling<'_> {
    fn drop(&mut self) {
        self.world.unsettled(self.path);
    }
}

/// The gap is told how the answer ended, whatever the end.
struct Asking<'a> {
    world: &'a World,
    path: &'a str,
    variant: &'a str,
    since: Instant,
    is_whole: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.world.answered(self.path, self.variant, self.is_whole, self.since);
    }
}

async fn reply(world: &Rc<World>, wire: &mut Wire, asked: &Asked<'_>, fault: Fault) -> Option<()> {
    if fault != Fault::None {
        world.count(&format!("fault {fault:?}"));
        world.tell(|| format!("  origin: {fault:?} for {}", asked.path));
    }
    match fault {
        Fault::NoHead => return None,
        Fault::StallHead => tokio::time::sleep(Duration::from_secs(3600)).await,
        Fault::SlowHead => world.pause(500, 8_000).await,
        Fault::Garbage => return wire.send(b"I am a teapot\r\n\r\n").await.ok().filter(|()| false),
        Fault::Error500 => return error(wire, 500, "content-length: 6\r\n", "broken").await,
        Fault::Error503 => {
            return error(wire, 503, "content-length: 5\r\nretry-after: 1\r\n", "later").await;
        }
        Fault::NotModified if asked.kind.has_etag && asked.head.field("if-none-match").is_none() => {
            let head =
                "HTTP/1.1 304 Not Modified\r\netag: \"nobody-knows\"\r\ncache-control: max-age=60\r\n\r\n";
            return wire.send(head.as_bytes()).await.ok();
        }
        Fault::Interim => {
            wire.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n").await.ok()?;
            world.pause(0, 300).await;
        }
        _ => world.pause(0, 400).await,
    }
    if asked.method == "POST" {
        let length = asked.head.field("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = crate::wire::BodyReader::new(crate::wire::Framing::Length(length));
        while body.next(wire, 4096).await.ok()?.is_some() {}
        let version = world.change(asked.path);
        return error(wire, 200, &format!("content-length: 2\r\nx-version: {version}\r\n"), "ok").await;
    }
    representation(world, wire, asked, fault).await
}

async fn error(wire: &mut Wire, status: u16, fields: &str, body: &str) -> Option<()> {
    wire.send(format!("HTTP/1.1 {status} So\r\n{fields}\r\n{body}").as_bytes()).await.ok()
}

/// The fields that describe a representation, and the clients it may go to.
struct Told {
    name: String,
    control: String,
    status: u16,
}

/// Names the clients that may have it: names with a `#` are for one client.
fn told(world: &World, asked: &Asked<'_>) -> Told {
    let (path, kind) = (asked.path, asked.kind);
    let user = asked.head.field("authorization").map(|text| text.replace(' ', "-"));
    let private = match world.below(3) {
        0 => "private, max-age=60",
        1 => "no-store",
        _ => "no-store, max-age=60",
    };
    let is_private = match kind.word {
        "private" => true,
        "shift" => world.below(2) == 0,
        _ => false,
    };
    let control = match world.climate.sabotage {
        Some(Sabotage::Public) => "public, max-age=60".to_owned(),
        _ if is_private => private.to_owned(),
        Some(Sabotage::Immortal) => "max-age=864000".to_owned(),
        Some(Sabotage::Impatient) => "max-age=1".to_owned(),
        _ => kind.cache_control(),
    };
    let once = || format!("{path}#{}", world.once());
    match (kind.word, user) {
        ("user", Some(user)) => Told { name: format!("{}#{user}", once()), control, status: 200 },
        ("user", None) => {
            let control =
                if world.climate.sabotage == Some(Sabotage::Public) { control } else { private.to_owned() };
            Told { name: once(), control, status: 401 }
        }
        ("lang", _) => Told { name: format!("{path}~{}", asked.variant), control, status: 200 },
        ("gone", _) => Told { name: path.to_owned(), control, status: 404 },
        _ if is_private => Told { name: once(), control, status: 200 },
        _ => Told { name: path.to_owned(), control, status: 200 },
    }
}

async fn representation(world: &Rc<World>, wire: &mut Wire, asked: &Asked<'_>, fault: Fault) -> Option<()> {
    let kind = asked.kind;
    let Told { name, control, status } = told(world, asked);
    let version = world.version(asked.path);
    let tag = etag(&name, version);
    let mut fields = format!("cache-control: {control}\r\nx-name: {name}\r\nx-version: {version}\r\n");
    if kind.has_etag {
        fields += &format!("etag: {tag}\r\n");
    }
    if kind.has_date {
        fields += &format!("date: {}\r\n", httpdate::fmt_http_date(world.wall()));
    }
    if kind.word == "lang" {
        fields += "vary: accept-language\r\n";
    }
    let tags = asked.head.field("if-none-match").unwrap_or_default();
    if kind.has_etag && tags.contains(&tag) {
        return wire.send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").as_bytes()).await.ok();
    }
    let body = match world.climate.sabotage {
        Some(Sabotage::OtherBytes) => world.body(&name, version + 1),
        _ => world.body(&name, version),
    };
    let mut bytes: &[u8] = &body;
    let mut status = status;
    if let Some((start, end)) = range(asked.head, &tag, bytes.len()).filter(|_| status == 200) {
        status = 206;
        fields += &format!("content-range: bytes {start}-{}/{}\r\n", end - 1, bytes.len());
        bytes = &bytes[start..end];
    }
    let mixed = world.climate.sabotage == Some(Sabotage::MixedVersions);
    let other = world.body(&name, version + 1);
    let owned: Vec<u8>;
    if mixed && bytes.len() > 1000 && other.len() >= bytes.len() && status == 200 {
        let half = bytes.len() / 2;
        owned = [&bytes[..half], &other[half..bytes.len()]].concat();
        bytes = &owned;
    }
    send(world, wire, asked, fault, (status, fields), bytes).await
}

/// The one range that the request asks for, where its condition holds.
fn range(head: &Head, tag: &str, length: usize) -> Option<(usize, usize)> {
    if head.field("if-range").is_some_and(|condition| condition != tag) {
        return None;
    }
    let (first, last) = head.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => (first, length.min(last + 1)),
        (Ok(first), Err(_)) => (first, length),
        (Err(_), Ok(last)) => (length.saturating_sub(last), length),
        _ => return None,
    };
    (start < end).then_some((start, end))
}

async fn send(
    world: &World,
    wire: &mut Wire,
    asked: &Asked<'_>,
    fault: Fault,
    (status, mut fields): (u16, String),
    bytes: &[u8],
) -> Option<()> {
    let kind = asked.kind;
    let is_close = kind.word == "close" && status == 200;
    let is_chunked = !is_close
        && (asked.method != "HEAD" || kind.has_etag)
        && (fault == Fault::BadChunk
            || kind.word == "chunked"
            || (kind.word == "large" && world.is_one_of(2)));
    match fault {
        Fault::TwoLengths => fields += &format!("content-length: {}\r\n", bytes.len() + 1),
        Fault::HugeHead => fields += &format!("x-huge: {}\r\n", "h".repeat(100_000)),
        _ => {}
    }
    if is_close {
        fields += "connection: close\r\n";
    }
    if is_chunked {
        fields += "transfer-encoding: chunked\r\n";
    } else if !is_close || fault == Fault::TwoLengths {
        // One length alone would be that of a body which is too short, and a range of it is right.
        fields += &format!("content-length: {}\r\n", bytes.len());
    }
    let mut head = format!("HTTP/1.1 {status} So\r\n{fields}\r\n");
    if fault == Fault::BareLineFeed {
        head = head.replace("\r\n", "\n");
    }
    wire.send(head.as_bytes()).await.ok()?;
    if asked.method == "HEAD" {
        return Some(()).filter(|()| !is_close);
    }
    let breaks_at = match fault {
        // A body that ends with its connection looks the same when it is cut.
        Fault::Truncate | Fault::StallBody | Fault::BadChunk if !is_close && !bytes.is_empty() => {
            world.below(bytes.len() as u64) as usize
        }
        _ => usize::MAX,
    };
    let ends_at = match world.climate.sabotage {
        Some(Sabotage::ShortEnd) if is_chunked => bytes.len() / 2,
        _ => bytes.len(),
    };
    // In pieces of a few bytes a large body would take so long that it looks stuck.
    let piece_max = 1 + bytes.len() / 400 + world.below(150_000) as usize;
    let mut at = 0;
    while at < ends_at {
        let end = ends_at.min(at + piece_max).min(breaks_at.max(at + 1));
        piece(wire, &bytes[at..end], is_chunked).await?;
        world.stir();
        at = end;
        if at >= breaks_at {
            return broken(wire, fault).await;
        }
        match fault {
            // Excess bytes that come after the next request was sent look like its response.
            _ if at == ends_at => {}
            Fault::SlowBody => world.pause(10, 700).await,
            _ if world.is_one_of(3) => world.pause(0, 30).await,
            _ => {}
        }
    }
    if is_chunked {
        wire.send(b"0\r\n\r\n").await.ok()?;
    }
    if fault == Fault::Excess && !is_close {
        let poison = "HTTP/1.1 200 OK\r\nx-name: poison\r\nx-version: 1\r\ncontent-length: 6\r\n\r\npoison";
        wire.send(poison.as_bytes()).await.ok()?;
    }
    Some(()).filter(|()| !is_close)
}

async fn piece(wire: &mut Wire, bytes: &[u8], is_chunked: bool) -> Option<()> {
    if !is_chunked {
        return wire.send(bytes).await.ok();
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    wire.send(&chunk).await.ok()
}

async fn broken(wire: &mut Wire, fault: Fault) -> Option<()> {
    match fault {
        Fault::StallBody => tokio::time::sleep(Duration::from_secs(3600)).await,
        Fault::BadChunk => drop(wire.send(b"zz\r\n").await),
        _ => {}
    }
    None
}

/// Where the origin listens.
pub fn place(folder: &Path) -> PathBuf {
    folder.join("origin.sock")
}
