//! Random requests, and what must come of each.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_testkit::{Random, Response, Trouble};

use super::source::content;

/// Sizes where something changes: pieces, frames, windows, blocks.
const SIZES: [usize; 14] =
    [0, 1, 100, 1023, 16_383, 16_384, 16_385, 32_768, 65_535, 65_536, 65_537, 262_144, 1_000_000, 3_000_000];
/// Objects that several clients ask for.
const SHARED: u64 = 40;

/// What a request sends.
#[derive(Clone, Copy)]
pub struct Content {
    pub bytes: &'static [u8],
    /// Whether its length is declared.
    pub is_declared: bool,
    /// After how many bytes the client breaks off.
    pub torn_at: Option<usize>,
}

/// What must come of it.
#[derive(Clone, Copy)]
pub enum Expect {
    /// These bytes, whole.
    Whole(&'static [u8]),
    /// An interval of these bytes, or all of them.
    Part(&'static [u8], usize, usize),
    /// At most so many of these bytes, and no end; or an answer that says so.
    Cut(&'static [u8], usize),
    /// At most so many of these bytes, and then silence.
    Silence(&'static [u8], usize),
    /// Nothing: the client breaks off before.
    Nothing,
}

/// A request.
#[derive(Clone)]
pub struct Ask {
    pub host: &'static str,
    pub method: &'static str,
    pub target: String,
    pub fields: Vec<(&'static str, String)>,
    pub content: Option<Content>,
    pub expect: Expect,
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {} with {:?}", self.method, self.target, self.host, self.fields)?;
        if let Some(content) = self.content {
            let Content { bytes, is_declared, torn_at } = content;
            write!(f, ", {} bytes (declared: {is_declared}, torn at {torn_at:?})", bytes.len())?;
        }
        Ok(())
    }
}

impl Ask {
    /// The fields as pairs.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// All bytes that may come.
    pub fn most(&self) -> usize {
        match self.expect {
            Expect::Whole(body) => body.len(),
            Expect::Part(body, ..) => body.len(),
            Expect::Cut(_, at) | Expect::Silence(_, at) => at,
            Expect::Nothing => 0,
        }
    }

    /// The bytes that come in any case, if the client waits for them.
    pub fn least(&self) -> usize {
        match self.expect {
            Expect::Part(_, first, end) => end - first,
            _ => self.most(),
        }
    }

    /// Compares what has come of a request of a client that did not leave.
    ///
    /// # Panics
    /// It is not what must come.
    pub fn check(&self, came: Result<Response, Trouble>) {
        match (self.expect, came) {
            (Expect::Whole(body), Ok(answer)) => {
                assert_eq!(answer.status(), 200, "{self:?}: {:?}", answer.head);
                let is_head = self.method == "HEAD";
                assert!(answer.body == if is_head { &[] } else { body }, "{self:?}: other bytes");
            }
            (Expect::Part(body, first, end), Ok(answer)) => match answer.status() {
                206 => assert!(answer.body == body[first..end], "{self:?}: other bytes of a part"),
                status => assert!(status == 200 && answer.body == body, "{self:?}: {:?}", answer.head),
            },
            (Expect::Cut(body, at), Err(Trouble::Cut(part) | Trouble::Reset(_, part))) => {
                let came = part.body.len();
                assert!(came <= at && part.body == body[..came], "{self:?}: other bytes before a cut");
            }
            // What found no room is passed as it comes: what the origin leaves out is not asked for again.
            (Expect::Whole(body), Err(Trouble::Cut(part) | Trouble::Reset(_, part)))
                if self.torn_at().is_some() && part.cache_status().contains("no-room") =>
            {
                let came = part.body.len();
                let is_torn_there = Some(came) <= self.torn_at();
                assert!(is_torn_there && part.body == body[..came], "{self:?}: other bytes before a cut");
            }
            (Expect::Cut(body, at), Ok(answer)) => {
                let is_said = matches!(answer.status(), 502..=504);
                assert!(is_said && at < body.len(), "{self:?} ended: {:?}", answer.head);
            }
            (_, came) => {
                let came = came.map(|answer| (answer.head, answer.body.len()));
                panic!("{self:?}: {}", came.map_or_else(|why| why.to_string(), |got| format!("{got:?}")));
            }
        }
    }

    /// Where the origin breaks off what is asked for again.
    fn torn_at(&self) -> Option<usize> {
        self.target.strip_prefix("/mended/")?.rsplit('/').next()?.parse().ok()
    }

    /// Compares what has come before its client left.
    ///
    /// # Panics
    /// It is not the beginning of what must come.
    pub fn check_beginning(&self, status: u16, came: &[u8]) {
        let (Expect::Whole(body) | Expect::Cut(body, _) | Expect::Silence(body, _)) = self.expect else {
            return;
        };
        if status == 200 {
            assert!(body.starts_with(came), "{self:?}: other bytes at the beginning");
        }
    }
}

/// Requests by chance.
pub struct Asks {
    pub random: Random,
}

impl Asks {
    pub fn new(seed: u64) -> Asks {
        Asks { random: Random::new(seed) }
    }

    fn size(&mut self) -> usize {
        let size = *self.random.one_of(&SIZES);
        if self.random.below(3) == 0 { self.random.below(size as u64 + 1) as usize } else { size }
    }

    /// A number that no other request has.
    fn own() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::SeqCst)
    }

    /// The next request.
    pub fn draw(&mut self) -> Ask {
        match self.random.below(16) {
            0..=4 => self.kept(),
            5 => self.part(),
            6 => Ask { method: "HEAD", ..self.kept() },
            7 | 8 => {
                let (number, bytes) = (Asks::own(), self.size());
                get("sound", format!("/passed/{number}/{bytes}"), Expect::Whole(content(number, bytes)))
            }
            9 => {
                let (number, bytes, at) = self.broken();
                get("torn", format!("/mended/{number}/{bytes}/{at}"), Expect::Whole(content(number, bytes)))
            }
            10 | 11 => {
                let (number, bytes, at) = self.broken();
                get("torn", format!("/cut/{number}/{bytes}/{at}"), Expect::Cut(content(number, bytes), at))
            }
            12 => {
                let (number, bytes, at) = self.broken();
                get(
                    "torn",
                    format!("/hung/{number}/{bytes}/{at}"),
                    Expect::Silence(content(number, bytes), at),
                )
            }
            13 => self.upload("torn"),
            _ => self.upload("take"),
        }
    }

    /// One of the objects that several clients ask for.
    fn kept(&mut self) -> Ask {
        let number = self.random.below(SHARED);
        let bytes = SIZES[(number % SIZES.len() as u64) as usize];
        get("sound", format!("/kept/{number}/{bytes}"), Expect::Whole(content(number, bytes)))
    }

    fn part(&mut self) -> Ask {
        let ask = self.kept();
        let Expect::Whole(body) = ask.expect else { return ask };
        if body.is_empty() {
            return ask;
        }
        let first = self.random.below(body.len() as u64) as usize;
        let end = first + 1 + self.random.below((body.len() - first) as u64) as usize;
        let range = ("range", format!("bytes={first}-{}", end - 1));
        Ask { fields: vec![range], expect: Expect::Part(body, first, end), ..ask }
    }

    /// A number, a size, and where it breaks off.
    fn broken(&mut self) -> (u64, usize, usize) {
        let bytes = self.size().max(2);
        (Asks::own(), bytes, self.random.below(bytes as u64) as usize)
    }

    fn upload(&mut self, word: &str) -> Ask {
        let (number, bytes) = (Asks::own(), self.size());
        let answer = if self.random.below(2) == 0 { 10 } else { self.size() };
        let is_declared = self.random.below(2) == 0;
        // What is torn lacks at least its end.
        let torn_at = (word == "torn").then(|| self.random.below(bytes as u64 + 1) as usize);
        let bytes = if torn_at.is_some() { bytes + 1 } else { bytes };
        let word = if torn_at.is_none() && self.random.below(4) == 0 { "early" } else { word };
        let content = Content { bytes: content(number, bytes), is_declared, torn_at };
        let expect = match torn_at {
            Some(_) => Expect::Nothing,
            None => Expect::Whole(super::source::content(number + 1, answer)),
        };
        let fields = if is_declared { vec![("content-length", bytes.to_string())] } else { Vec::new() };
        Ask {
            method: "POST",
            fields,
            content: Some(content),
            ..get("sound", format!("/{word}/{number}/{bytes}/{answer}"), expect)
        }
    }
}

fn get(origin: &str, target: String, expect: Expect) -> Ask {
    let host = if origin == "sound" { "sound.example" } else { "torn.example" };
    Ask { host, method: "GET", target, fields: Vec::new(), content: None, expect }
}
