//! Reads Cache-Control (RFC 9111 §5.2). Malformed input never panics, and is read in the way that reuses less
//! (§4.2.1): a number that cannot be read counts as zero.

use crate::by_status::{Statuses, nearest};
use crate::request::RequestView;
use crate::rules::{CacheRules, ClientDirectives};
use http::{HeaderMap, HeaderName, StatusCode, header};
use smallvec::SmallVec;

/// What an overflowing delta-seconds stands for: 2^31 (RFC 9111 §1.2.2), in seconds.
pub const DELTA_SECONDS_MAX: u32 = 1 << 31;

/// A set of response directives without an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives(u16);

impl Directives {
    pub(crate) const NO_STORE: Directives = Directives(1);
    pub(crate) const PRIVATE: Directives = Directives(1 << 1);
    pub(crate) const PUBLIC: Directives = Directives(1 << 2);
    pub(crate) const NO_CACHE: Directives = Directives(1 << 3);
    pub(crate) const MUST_REVALIDATE: Directives = Directives(1 << 4);
    pub(crate) const PROXY_REVALIDATE: Directives = Directives(1 << 5);
    pub(crate) const MUST_UNDERSTAND: Directives = Directives(1 << 6);
    pub(crate) const IMMUTABLE: Directives = Directives(1 << 7);
    /// s-maxage, for what it says about stale responses.
    pub(crate) const S_MAXAGE: Directives = Directives(1 << 8);

    pub(crate) fn insert(&mut self, other: Directives) {
        self.0 |= other.0;
    }

    pub(crate) fn has(self, other: Directives) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The field that a response's directives came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ControlField {
    /// Cache-Control.
    #[default]
    Plain,
    /// CDN-Cache-Control.
    Cdn,
    /// Surrogate-Control.
    Surrogate,
}

/// The directives of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseControl {
    pub(crate) field: ControlField,
    pub(crate) set: Directives,
    /// Directives that the response has and the route ignores; they are not in `set`.
    pub(crate) ignored: Directives,
    pub(crate) max_age_s: Option<u32>,
    pub(crate) s_maxage_s: Option<u32>,
    pub(crate) while_revalidate_s: Option<u32>,
    pub(crate) if_error_s: Option<u32>,
    /// Fields that may not be stored: those named by `no-cache="f"` and `private="f"`.
    pub(crate) withheld: SmallVec<[HeaderName; 2]>,
}

impl ResponseControl {
    pub(crate) fn has(&self, directives: Directives) -> bool {
        self.set.has(directives)
    }

    /// Ignores some directives, where they concern the whole response. That s-maxage then does not forbid
    /// stale responses makes nothing storable, so it is not among those that are ignored.
    pub(crate) fn ignore(&mut self, these: Directives) {
        self.ignored = Directives(self.set.0 & these.0 & !Directives::S_MAXAGE.0);
        self.set = Directives(self.set.0 & !these.0);
    }

    /// Reads the Cache-Control fields of a response.
    pub(crate) fn read(headers: &HeaderMap) -> ResponseControl {
        let mut control = ResponseControl::default();
        for line in headers.get_all(header::CACHE_CONTROL) {
            each_directive(line.as_bytes(), |name, argument| control.add(name, argument));
        }
        control
    }

    /// Adds one directive. Of conflicting lifetimes the shortest counts (§4.2.1 would also allow to take the
    /// response as stale). Of a directive with and without an argument, the one without counts.
    pub(crate) fn add(&mut self, name: &[u8], argument: Option<Argument<'_>>) {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if is("max-age") {
            shortest(&mut self.max_age_s, argument);
        } else if is("s-maxage") {
            shortest(&mut self.s_maxage_s, argument);
            self.set.insert(Directives::S_MAXAGE);
        } else if is("no-store") {
            self.set.insert(Directives::NO_STORE);
        } else if is("no-cache") {
            self.withhold(argument, Directives::NO_CACHE);
        } else if is("private") {
            self.withhold(argument, Directives::PRIVATE);
        } else if is("public") {
            self.set.insert(Directives::PUBLIC);
        } else if is("must-revalidate") {
            self.set.insert(Directives::MUST_REVALIDATE);
        } else if is("proxy-revalidate") {
            self.set.insert(Directives::PROXY_REVALIDATE);
        } else if is("must-understand") {
            self.set.insert(Directives::MUST_UNDERSTAND);
        } else if is("immutable") {
            self.set.insert(Directives::IMMUTABLE);
        } else if is("stale-while-revalidate") {
            shortest(&mut self.while_revalidate_s, argument);
        } else if is("stale-if-error") {
            shortest(&mut self.if_error_s, argument);
        }
    }

    /// `no-cache` or `private`. Without an argument it concerns the whole response. So it does if the
    /// argument names no fields, or a field without which the body cannot be read. Otherwise it concerns the
    /// named fields (§5.2.2.4, §5.2.2.7).
    fn withhold(&mut self, argument: Option<Argument<'_>>, whole: Directives) {
        let named = argument.map(|argument| argument.field_names()).unwrap_or_default();
        match named {
            Some(names) if !names.is_empty() && !names.contains(&header::CONTENT_ENCODING) => {
                self.withheld.extend(names)
            }
            _ => self.set.insert(whole),
        }
    }
}

/// A directive of a response that a route may ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredDirective {
    /// no-store.
    NoStore,
    /// private, for the whole response.
    Private,
    /// no-cache, for the whole response.
    NoCache,
    /// must-revalidate and proxy-revalidate, and of s-maxage that it forbids stale responses.
    MustRevalidate,
}

/// Which directives of responses a route ignores, by status. Empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored(Vec<(Statuses, Directives)>);

impl Ignored {
    /// Adds directives for a status. Those that are given for a status first count.
    pub fn add(&mut self, of: Statuses, directives: &[IgnoredDirective]) {
        let mut set = Directives::default();
        for directive in directives {
            let bits: &[Directives] = match directive {
                IgnoredDirective::NoStore => &[Directives::NO_STORE],
                IgnoredDirective::Private => &[Directives::PRIVATE],
                IgnoredDirective::NoCache => &[Directives::NO_CACHE],
                IgnoredDirective::MustRevalidate => {
                    &[Directives::MUST_REVALIDATE, Directives::PROXY_REVALIDATE, Directives::S_MAXAGE]
                }
            };
            bits.iter().for_each(|bit| set.insert(*bit));
        }
        self.0.push((of, set));
    }

    /// Whether the route ignores none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words of what is ignored in a response with this status.
    pub fn words(&self, status: StatusCode) -> Vec<&'static str> {
        let ignored = self.of(status);
        let all = [
            (Directives::NO_STORE, "no-store"),
            (Directives::PRIVATE, "private"),
            (Directives::NO_CACHE, "no-cache"),
        ];
        all.into_iter().filter(|(directive, _)| ignored.has(*directive)).map(|(_, word)| word).collect()
    }

    /// What is ignored in a response with this status.
    pub(crate) fn of(&self, status: StatusCode) -> Directives {
        nearest(&self.0, status).map(|(_, directives)| directives).unwrap_or_default()
    }
}

/// How stale a response the client accepts (RFC 9111 §5.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxStale {
    /// However stale.
    Any,
    /// At most this many seconds.
    Seconds(u32),
}

/// The directives of a request (RFC 9111 §5.2.1). Empty if the route does not listen to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    bits: u8,
    /// `max-age`, in seconds.
    pub max_age_s: Option<u32>,
    /// `min-fresh`, in seconds.
    pub min_fresh_s: Option<u32>,
    /// `max-stale`.
    pub max_stale: Option<MaxStale>,
    /// `stale-if-error` (RFC 5861 §4), in seconds.
    pub if_error_s: Option<u32>,
}

impl RequestDirectives {
    const NO_CACHE: u8 = 1;
    const NO_STORE: u8 = 2;
    const ONLY_IF_CACHED: u8 = 4;

    /// Whether `no-cache` is there, in Cache-Control or, if that is absent, in Pragma (RFC 9111 §5.4).
    pub fn no_cache(&self) -> bool {
        self.bits & Self::NO_CACHE != 0
    }

    /// Whether `no-store` is there.
    pub fn no_store(&self) -> bool {
        self.bits & Self::NO_STORE != 0
    }

    /// Whether `only-if-cached` is there.
    pub fn only_if_cached(&self) -> bool {
        self.bits & Self::ONLY_IF_CACHED != 0
    }

    /// Reads a request's directives, if the route listens to this client.
    pub(crate) fn read(request: &RequestView<'_>, rules: &CacheRules) -> RequestDirectives {
        let mut directives = RequestDirectives::default();
        let listens = match rules.client_directives {
            ClientDirectives::Honour => true,
            ClientDirectives::Trusted => request.is_trusted,
            ClientDirectives::Ignore => false,
        };
        if !listens {
            return directives;
        }
        let mut has_control = false;
        for line in request.headers.get_all(header::CACHE_CONTROL) {
            has_control = true;
            each_directive(line.as_bytes(), |name, argument| directives.add(name, argument));
        }
        if !has_control {
            for line in request.headers.get_all(header::PRAGMA) {
                each_directive(line.as_bytes(), |name, _| {
                    if name.eq_ignore_ascii_case(b"no-cache") {
                        directives.bits |= Self::NO_CACHE;
                    }
                });
            }
        }
        directives
    }

    /// Adds one directive. A value that cannot be read counts in the way that reuses less: a max-age as zero,
    /// a max-stale or stale-if-error as absent, a min-fresh as infinite.
    fn add(&mut self, name: &[u8], argument: Option<Argument<'_>>) {
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        let seconds = argument.map(|argument| argument.seconds());
        if is("no-cache") {
            self.bits |= Self::NO_CACHE;
        } else if is("no-store") {
            self.bits |= Self::NO_STORE;
        } else if is("only-if-cached") {
            self.bits |= Self::ONLY_IF_CACHED;
        } else if is("max-age") {
            shortest(&mut self.max_age_s, argument);
        } else if is("min-fresh") {
            let wanted = seconds.flatten().unwrap_or(DELTA_SECONDS_MAX);
            self.min_fresh_s = Some(self.min_fresh_s.unwrap_or(0).max(wanted));
        } else if is("max-stale") {
            self.max_stale = match (self.max_stale, seconds) {
                (None | Some(MaxStale::Any), None) => Some(MaxStale::Any),
                (Some(MaxStale::Seconds(held)), Some(Some(said))) => Some(MaxStale::Seconds(held.min(said))),
                (_, Some(Some(said))) => Some(MaxStale::Seconds(said)),
                (held, _) => held,
            };
        } else if is("stale-if-error")
            && let Some(Some(said)) = seconds
        {
            self.if_error_s = Some(self.if_error_s.map_or(said, |held| held.min(said)));
        }
    }
}

/// The argument of a directive: a token, or what stands between the quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Argument<'a>(pub(crate) &'a [u8]);

impl Argument<'_> {
    /// delta-seconds (RFC 9111 §1.2.2): digits alone. A larger number counts as [`DELTA_SECONDS_MAX`].
    pub(crate) fn seconds(self) -> Option<u32> {
        delta_seconds(self.0)
    }

    /// A list of field names, `None` where one is not a name.
    fn field_names(self) -> Option<SmallVec<[HeaderName; 2]>> {
        let names =
            self.0.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        names.map(|name| HeaderName::from_bytes(name).ok()).collect()
    }
}

/// Digits as a number of seconds, at most [`DELTA_SECONDS_MAX`]; `None` for anything else.
pub(crate) fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut seconds = 0_u32;
    for digit in digits {
        seconds = seconds.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    }
    Some(seconds.min(DELTA_SECONDS_MAX))
}

fn shortest(held: &mut Option<u32>, argument: Option<Argument<'_>>) {
    let said = argument.and_then(Argument::seconds).unwrap_or(0);
    *held = Some(held.map_or(said, |held| held.min(said)));
}

/// Calls `visit` with each directive of a field line: its name, and its argument without the quotes.
///
/// The name is what stands before `=`, without blanks: the argument of `max-age =5` is ` =5`, which is not a
/// number. From the first quoted string without an end, quotes are bytes like any other, so that none can
/// hide the directives behind it.
pub(crate) fn each_directive<'a>(line: &'a [u8], mut visit: impl FnMut(&'a [u8], Option<Argument<'a>>)) {
    let mut rest = line;
    let mut quotes = Quotes::Count;
    while !rest.is_empty() {
        let end = directive_end(rest, &mut quotes);
        let directive = rest[..end].trim_ascii();
        rest = rest.get(end + 1..).unwrap_or_default();
        if directive.is_empty() {
            continue;
        }
        match directive.iter().position(|byte| *byte == b'=') {
            None => visit(directive, None),
            Some(at) => {
                let (name, argument) = (&directive[..at], &directive[at + 1..]);
                let argument = if name.ends_with(b" ") || name.ends_with(b"\t") {
                    Argument(&directive[at..])
                } else {
                    Argument(unquoted(argument))
                };
                visit(name.trim_ascii_end(), Some(argument));
            }
        }
    }
}

/// Whether quotes still protect commas in a line.
#[derive(PartialEq, Eq)]
enum Quotes {
    Count,
    Ignored,
}

/// Where the first directive of `rest` ends: at a comma outside of quotes, or at the end. Looks at each byte
/// at most twice, whatever the quotes.
fn directive_end(rest: &[u8], quotes: &mut Quotes) -> usize {
    let mut at = 0;
    let mut comma_in_quotes = None;
    let mut quoted = false;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'"' if *quotes == Quotes::Count => {
                quoted = !quoted;
                comma_in_quotes = None;
            }
            b'\\' if quoted => at += 1,
            b',' if !quoted => return at,
            b',' if comma_in_quotes.is_none() => comma_in_quotes = Some(at),
            _ => {}
        }
        at += 1;
    }
    if quoted {
        *quotes = Quotes::Ignored;
    }
    comma_in_quotes.unwrap_or(rest.len())
}

/// The inside of a quoted string, or the bytes as they are. Escapes are not decoded: no known directive needs
/// one.
fn unquoted(argument: &[u8]) -> &[u8] {
    match argument {
        [b'"', inside @ .., b'"'] => inside,
        _ => argument,
    }
}

#[cfg(test)]
mod tests;
