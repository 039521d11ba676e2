//! `range`: many ranges a user of large objects, in all forms of RFC 9110 §14: single, suffix, open, several
//! at once, and outside; of what is held, while the object is filled, or while it changes. Each byte is
//! compared.

use serde::Deserialize;

use crate::body::Expected;
use crate::plan::StressError;
use crate::scenario::catalogue::{Lifetime, Part};
use crate::scenario::client::{Ask, Failure, Response, failure};
use crate::scenario::module::{Module, check_time, check_users};
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Stage, judge_bytes};
use crate::seeded;
use crate::tally::Fault;

/// The most ranges of one request.
const SEVERAL_MAX: usize = 6;
/// The longest of several ranges: together they are kept in memory.
const SEVERAL_BYTES_MAX: u64 = 256 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ranges {
    #[serde(default = "ten")]
    users: usize,
    /// Of each user.
    #[serde(default = "hundred")]
    ranges: usize,
    /// Goes on for so long instead.
    #[serde(default)]
    seconds: Option<f64>,
    #[serde(default = "one")]
    objects: u64,
    #[serde(default = "ten_megabytes")]
    size: Bytes,
    #[serde(default)]
    during: During,
    #[serde(default = "all")]
    forms: Vec<Form>,
    /// Bytes a second of the origin while objects are filled.
    #[serde(default = "megabytes")]
    rate: Bytes,
    /// Seconds between changes, and the lifetime of what changes.
    #[serde(default = "one_second")]
    changes_every: f64,
    #[serde(default = "sixty")]
    timeout: f64,
}

/// What happens to the objects meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum During {
    /// They are asked for as a whole before.
    #[default]
    Held,
    /// Nobody has asked for them; ranges meet a cold cache.
    Cold,
    /// A slow transfer of the whole is under way.
    Filling,
    /// The origin changes them.
    Changing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Single,
    Suffix,
    Open,
    Several,
    Outside,
}

fn ten() -> usize {
    10
}

fn hundred() -> usize {
    100
}

fn one() -> u64 {
    1
}

fn ten_megabytes() -> Bytes {
    Bytes(10_000_000)
}

fn megabytes() -> Bytes {
    Bytes(5_000_000)
}

fn one_second() -> f64 {
    1.0
}

fn sixty() -> f64 {
    60.0
}

fn all() -> Vec<Form> {
    vec![Form::Single, Form::Suffix, Form::Open, Form::Several, Form::Outside]
}

impl Module for Ranges {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        check_time("changes_every", self.changes_every)?;
        self.seconds.map_or(Ok(()), |seconds| check_time("seconds", seconds))?;
        match (self.size.0 > 0 && self.rate.0 > 0, self.forms.is_empty(), self.objects > 0 && self.ranges > 0)
        {
            (true, false, true) => Ok(()),
            _ => {
                Err("`size`, `rate`, `objects` and `ranges` are above 0, and `forms` has one or more"
                    .to_owned())
            }
        }
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let prefix = stage.cold("range");
        stage.catalogue.add(self.part(&prefix));
        let paths: Vec<String> = (0..self.objects).map(|at| format!("{prefix}{at}")).collect();
        if self.during == During::Held {
            fetch(stage, &paths, self.timeout)?;
        }
        let filling = if self.during == During::Filling { paths.len() } else { 0 };
        let (asked_before, sent_before) = stage.catalogue.totals();
        let mut measured = stage.measure(self.users + filling, |at, sheet| {
            let (stage, paths, forms) = (stage.clone(), paths.clone(), self.forms.clone());
            let (ranges, bytes, timeout) = (self.ranges, self.size.0, self.timeout);
            let (whole, end_ns) =
                ((at < filling).then_some(at), self.seconds.map(|seconds| stage.end_ns(seconds)));
            async move {
                let mut client = stage.client(timeout);
                if let Some(at) = whole {
                    // The slow transfer that the others meet.
                    let path = &paths[at];
                    let got = client.ask(&Ask::get(path.clone()), stage.expect(path)).await;
                    if let Err(failure) = got.and_then(|response| stage.judge(path, &response)) {
                        sheet.borrow_mut().fault(&failure);
                    }
                    return;
                }
                let mut rng = fastrand::Rng::with_seed(stage.seed ^ (at as u64) << 32);
                let mut left = if end_ns.is_some() { usize::MAX } else { ranges };
                while left > 0 && !stage.is_past(end_ns.unwrap_or(u64::MAX)) {
                    left -= 1;
                    let path = rng.choice(&paths).cloned().unwrap_or_default();
                    let form = *rng.choice(&forms).unwrap_or(&Form::Single);
                    let asked = Asked::make(form, bytes, &mut rng);
                    let ask = Ask::get(path.clone()).with("Range", asked.text());
                    let got = client.ask(&ask, stage.expect(&path)).await;
                    let mut sheet = sheet.borrow_mut();
                    let judged = got.and_then(|response| {
                        sheet.response(&response);
                        judge(&stage, &path, &asked, &response).map(|whole| {
                            if whole {
                                sheet.count("whole_instead", 1.0);
                            }
                        })
                    });
                    if let Err(failure) = judged {
                        sheet.fault(&failure);
                    }
                }
            }
        })?;
        measured.count("whole_instead", 0.0);
        let (asked, sent) = stage.catalogue.totals();
        measured.figure("origin_requests_per_request", ratio(asked - asked_before, measured.tally.requests));
        measured.figure("origin_bytes_per_byte", ratio(sent - sent_before, measured.tally.bytes));
        Ok(measured)
    }
}

fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}

impl Ranges {
    fn part(&self, prefix: &str) -> Part {
        let mut part = Part::new(prefix, Sizes::One(self.size.0));
        match self.during {
            During::Held | During::Cold => {}
            During::Filling => part.rate = Some(self.rate.0),
            During::Changing => {
                part.lifetime = Lifetime::Seconds(1);
                part.changes_ms = Some((self.changes_every * 1000.0).ceil() as u64);
            }
        }
        part
    }
}

/// Asks for each of `paths` once, uncounted.
pub(super) fn fetch(stage: &Stage, paths: &[String], timeout: f64) -> Result<(), StressError> {
    stage.crowd(1, |_| {
        let (stage, paths) = (stage.clone(), paths.to_vec());
        async move {
            let mut client = stage.client(timeout);
            for path in paths {
                // What is wrong with it shows when it is asked for again.
                let _ = client.ask(&Ask::get(path.clone()), stage.expect(&path)).await;
            }
        }
    })
}

/// The ranges of a request, in the order in which they were asked for.
#[derive(Debug)]
struct Asked {
    words: Vec<String>,
    /// From, and behind the last; empty where none can be satisfied.
    intervals: Vec<(u64, u64)>,
}

impl Asked {
    fn make(form: Form, bytes: u64, rng: &mut fastrand::Rng) -> Self {
        let mut piece = |most: u64| {
            let magnitude = rng.u32(0..=most.min(bytes).ilog2());
            let length = rng.u64(1..=(1 << magnitude).min(bytes));
            let start = rng.u64(0..=bytes - length);
            (start, start + length)
        };
        let (start, end) = piece(u64::MAX);
        let closed = |(start, end): (u64, u64)| format!("{start}-{}", end - 1);
        let one = |word: String, interval| Self { words: vec![word], intervals: vec![interval] };
        match form {
            Form::Single => one(closed((start, end)), (start, end)),
            Form::Suffix => one(format!("-{}", end - start), (bytes - (end - start), bytes)),
            Form::Open => one(format!("{start}-"), (start, bytes)),
            Form::Outside => Self { words: vec![format!("{}-", bytes + start)], intervals: Vec::new() },
            Form::Several => {
                let intervals: Vec<(u64, u64)> = (0..SEVERAL_MAX).map(|_| piece(SEVERAL_BYTES_MAX)).collect();
                Self { words: intervals.iter().copied().map(closed).collect(), intervals }
            }
        }
    }

    fn text(&self) -> String {
        format!("bytes={}", self.words.join(","))
    }
}

/// Judges a response to a request for ranges. Returns whether it is the whole object instead, as a server may
/// answer (RFC 9110 §14.2).
fn judge(stage: &Stage, path: &str, asked: &Asked, response: &Response) -> Result<bool, Failure> {
    let text = asked.text();
    if response.status == 200 {
        return stage.judge(path, response).map(|()| true);
    }
    if asked.intervals.is_empty() {
        return match response.status {
            416 => Ok(false),
            status => Err(failure(Fault::Status, format!("{status} instead of 416 for {text} of {path}"))),
        };
    }
    let Some(expected) = stage.expected(path, response).filter(|_| response.status == 206) else {
        return Err(failure(Fault::Status, format!("{} for {text} of {path}", response.status)));
    };
    if expected.is_old {
        return judge_bytes(path, response)
            .and(Err(failure(Fault::Old, format!("an old version of {path} for {text}"))));
    }
    let Some((start, end, whole)) = response.range else {
        return judge_several(expected, asked, response).map(|()| false);
    };
    let is_asked = match &asked.intervals[..] {
        [one] => *one == (start, end),
        several => covers(&[(start, end)], several),
    };
    let received = response.body.received;
    if !is_asked || whole != expected.bytes || received != end - start {
        let what = format!("{text} of {path} was answered {start}..{end} of {whole} with {received} bytes");
        return Err(failure(Fault::Range, what));
    }
    judge_bytes(path, response).map(|()| false)
}

/// Judges a body of several ranges (RFC 9110 §14.6). A server may join and order them as it likes; what was
/// asked for must be there.
fn judge_several(expected: Expected, asked: &Asked, response: &Response) -> Result<(), Failure> {
    let wrong = |what: &str| failure(Fault::Range, format!("several ranges, {}: {what}", asked.text()));
    let kind = response.field("content-type").unwrap_or_default();
    let boundary = kind.strip_prefix("multipart/byteranges").and_then(|rest| rest.split_once("boundary="));
    let boundary =
        boundary.map(|(_, text)| text.split(';').next().unwrap_or_default().trim().trim_matches('"'));
    let Some(boundary) = boundary.filter(|text| !text.is_empty()) else {
        return Err(wrong("206 with neither Content-Range nor a boundary"));
    };
    if !response.body.is_right() {
        return Err(wrong("more bytes than can be looked at"));
    }
    let mut sent = Vec::new();
    for piece in
        pieces(&response.body.kept, boundary).ok_or_else(|| wrong("a body without its boundaries"))?
    {
        let Some(end) = memchr::memmem::find(piece, b"\r\n\r\n") else {
            return Err(wrong("a part without a head"));
        };
        let (head, content) = (&piece[..end], &piece[end + 4..]);
        let fields = crate::head::fields(&[b"\r\n", head].concat());
        let range = fields.iter().find(|(name, _)| name == "content-range");
        let range = range.and_then(|(_, value)| crate::head::content_range(value.as_bytes()));
        match range {
            Some((start, end, whole)) if whole == expected.bytes && content.len() as u64 == end - start => {
                if let Some(at) = seeded::difference(expected.key, start, content) {
                    let what = format!("wrong bytes of a part of several ranges from byte {at} on");
                    return Err(failure(Fault::Content, what));
                }
                sent.push((start, end));
            }
            other => return Err(wrong(&format!("a part says {other:?} and has {} bytes", content.len()))),
        }
    }
    match covers(&sent, &asked.intervals) {
        true => Ok(()),
        false => Err(wrong(&format!("only {sent:?} were sent"))),
    }
}

/// The parts between the boundaries, or `None` where the last one is missing.
fn pieces<'a>(body: &'a [u8], boundary: &str) -> Option<Vec<&'a [u8]>> {
    let mark = format!("--{boundary}");
    let mut places = memchr::memmem::find_iter(body, mark.as_bytes());
    let mut from = places.next()? + mark.len();
    let mut found = Vec::new();
    for place in places {
        // The line end behind a boundary, and the one before the next belong to them.
        let piece = body.get(from..place)?;
        let piece = piece.strip_prefix(b"\r\n")?.strip_suffix(b"\r\n")?;
        found.push(piece);
        from = place + mark.len();
    }
    body[from..].starts_with(b"--").then_some(found)
}

/// Whether each byte of `wanted` is in one of `sent`.
fn covers(sent: &[(u64, u64)], wanted: &[(u64, u64)]) -> bool {
    wanted.iter().all(|(start, end)| {
        let mut at = *start;
        while at < *end {
            let next = sent.iter().filter(|(from, to)| *from <= at && at < *to).map(|(_, to)| *to).max();
            match next {
                Some(to) => at = to,
                None => return false,
            }
        }
        true
    })
}
