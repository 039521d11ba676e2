//! The line of an agent: what HAProxy reads from an `agent-check` (its "agent-check" keyword, and
//! `tcpcheck_agent_expect_payload` in its `tcpcheck.c`). Pure.
//!
//! The line ends with the first CR or LF. Words are separated by blanks, tabs and commas, and may have any
//! case. Of several words of one kind the last counts. A word that begins with `#` begins the reason.

use crate::health::standing::Order;

/// The longest line that is read. HAProxy reads as much by default (`tune.bufsize`).
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024;
/// The most of a line, or of its reason, that is kept.
const KEPT_BYTES_MAX: usize = 120;
/// The largest factor, in percent: as HAProxy's.
pub(crate) const PERCENT_MAX: u32 = 25_600;
/// The most connections.
const CONNECTIONS_MAX: u32 = 65_535;

/// What was received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The line goes on.
    More,
    /// It never ends as a line does.
    Broken,
    /// A whole line.
    Line(Words),
}

/// What a line says. What it does not say stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// `NN%`: the factor on the weight.
    pub(crate) percent: Option<u32>,
    /// `maxconn:N`; 0 for what is configured.
    pub(crate) connections: Option<u32>,
    /// `ready`, `drain`, `maint`.
    pub(crate) order: Option<Order>,
    /// `up`; or `down`, `fail`, `stopped`.
    pub(crate) is_up: Option<bool>,
    /// What follows the `#`, as visible ASCII; empty without one.
    pub(crate) reason: String,
    /// The line as visible ASCII.
    pub(crate) line: String,
    /// The first word that means nothing; empty where all do.
    pub(crate) unknown: String,
}

/// Reads what an agent has sent. `is_ended`: no more will come.
pub(crate) fn read(received: &[u8], is_ended: bool) -> Reading {
    let end = received.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 0));
    match end {
        Some(at) if received[at] != 0 && at <= LINE_BYTES_MAX => Reading::Line(words(&received[..at])),
        None if !is_ended && received.len() <= LINE_BYTES_MAX => Reading::More,
        _ => Reading::Broken,
    }
}

fn words(line: &[u8]) -> Words {
    let mut said = Words { line: visible(line), ..Words::default() };
    let (mut percent, mut connections) = (None, None);
    let mut rest = line;
    while let Some(at) = rest.iter().position(|byte| !is_blank(*byte)) {
        rest = &rest[at..];
        if rest[0] == b'#' {
            said.reason = visible(rest[1..].trim_ascii());
            break;
        }
        let end = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        match word.to_ascii_lowercase().as_slice() {
            b"up" => said.is_up = Some(true),
            b"down" | b"fail" | b"stopped" => said.is_up = Some(false),
            b"ready" => said.order = Some(Order::Ready),
            b"drain" => said.order = Some(Order::Drain),
            b"maint" => said.order = Some(Order::Maintenance),
            lower if word[0].is_ascii_digit() && word.contains(&b'%') => {
                percent = Some((lower.strip_suffix(b"%").and_then(number), word));
            }
            lower => match lower.strip_prefix(b"maxconn:") {
                Some(digits) => {
                    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
                    connections = Some((number(digits), word));
                }
                None => said.wonder(word),
            },
        }
    }
    // The last word of a kind counts, also where it makes no sense.
    for (value, word, bound, into) in
        [(percent, PERCENT_MAX, &mut said.percent), (connections, CONNECTIONS_MAX, &mut said.connections)]
            .into_iter()
            .filter_map(|(last, bound, into)| last.map(|(value, word)| (value, word, bound, into)))
    {
        match value {
            Some(value) => *into = Some(u32::try_from(value).unwrap_or(bound).min(bound)),
            None if said.unknown.is_empty() => said.unknown = visible(word),
            None => {}
        }
    }
    said
}

impl Words {
    fn wonder(&mut self, word: &[u8]) {
        if self.unknown.is_empty() {
            self.unknown = visible(word);
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',')
}

/// Digits as a number; one that is too large is the largest.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    is_number.then(|| digits.iter().fold(0, add))
}

/// Text of an agent for logs: its beginning, with `?` for what is not visible ASCII.
fn visible(text: &[u8]) -> String {
    let shown = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' };
    text.iter().take(KEPT_BYTES_MAX).map(shown).collect()
}
