//! What a rule of `rewrite` may make of a URL, or of all that begin with a text, for any client: maps have
//! few results, each of which gives a target; what fields, cookies or addresses choose is known up to there.
//! Pure.

use weir_config::value::{Below, Capture, Captured};
use weir_policy::value::{Known, Part, Style, Value, What};
use weir_policy::{Beginning, KeyRules, beginnings, has_dot_segment};

use super::target::{KeyPath, Whose, finish, has_query, trimmed};
use crate::values::OfRequest;

/// The most targets that results of maps make of one URL.
pub(crate) const COMBINATIONS_MAX: usize = 64;

/// How much is known of the URL.
#[derive(Clone, Copy)]
pub(in crate::route) enum Extent<'a> {
    /// All of it.
    Url,
    /// Its path, by what rules the query counts, and how the query begins.
    Path { key: &'a KeyRules, query: &'a str },
    /// How its path begins.
    Begin,
}

/// What is known of the captures of a rule.
pub(in crate::route) enum Captures<'a> {
    All(Captured<'a>),
    Below(&'a Below<'a>),
}

/// What is asked for.
pub(in crate::route) struct Asked<'a> {
    pub(in crate::route) captures: Captures<'a>,
    pub(in crate::route) known: &'a OfRequest<'a>,
    pub(in crate::route) extent: Extent<'a>,
    pub(in crate::route) whose: Whose,
}

/// What is known of what a placeholder stands for.
enum Knowledge<'a> {
    All,
    /// How it begins; it is the rest of the path, whatever that is.
    Rest,
    Begins,
    OneOf(Vec<Option<&'a str>>),
    Nothing,
}

impl<'a> Asked<'a> {
    fn knowledge(&self, what: &What) -> Knowledge<'a> {
        match what {
            What::Map(name) => {
                let Some(map) = self.known.route.maps.and_then(|maps| maps.get(name)) else {
                    return Knowledge::All;
                };
                let mut sources = map.of.placeholders();
                match sources.all(|source| matches!(self.of_url(&source.what), Some(Knowledge::All))) {
                    true => Knowledge::All,
                    false => Knowledge::OneOf(map.results()),
                }
            }
            what => self.of_url(what).unwrap_or(match self.whose {
                Whose::All => Knowledge::Nothing,
                Whose::Alike => Knowledge::All,
            }),
        }
    }

    /// The same of what the URL says; none for anything else.
    fn of_url(&self, what: &What) -> Option<Knowledge<'a>> {
        Some(match (what, self.extent) {
            (What::Capture(number), _) => match &self.captures {
                Captures::All(_) => Knowledge::All,
                Captures::Below(below) => match below.capture(*number) {
                    Capture::Whole(_) => Knowledge::All,
                    Capture::Rest(_) => Knowledge::Rest,
                    Capture::Begins(_) => Knowledge::Begins,
                    Capture::Unknown => Knowledge::Nothing,
                },
            },
            (What::Scheme | What::Host | What::Hostname | What::Port | What::Method, _)
            | (What::Site | What::Route | What::Upstream, _)
            | (What::Path, Extent::Url | Extent::Path { .. })
            | (What::Query | What::Uri | What::QueryOf(_), Extent::Url) => Knowledge::All,
            (What::Path | What::Uri, Extent::Begin) => Knowledge::Rest,
            (What::Query | What::Uri | What::QueryOf(_), _) => Knowledge::Nothing,
            _ => return None,
        })
    }
}

/// A target, as far as it is known.
struct Cut<'a> {
    /// So many pieces of it.
    pieces: usize,
    /// The maps among them, with all their results.
    maps: Vec<(&'a str, Vec<Option<&'a str>>)>,
    end: End,
}

/// How what is known of a target ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is all of it.
    Whole,
    /// What follows is the rest of the path alone.
    Rest,
    /// Anything may follow.
    Open,
}

impl<'a> Cut<'a> {
    fn of(to: &'a Value, asked: &Asked<'a>) -> Cut<'a> {
        let mut cut = Cut { pieces: to.parts().len(), maps: Vec::new(), end: End::Whole };
        let mut combinations = 1_usize;
        for (at, part) in to.parts().iter().enumerate() {
            let Part::Of(placeholder) = part else { continue };
            let (pieces, end) = match (asked.knowledge(&placeholder.what), &placeholder.what) {
                (Knowledge::All, _) => continue,
                (Knowledge::OneOf(results), What::Map(name)) => {
                    let is_chosen = cut.maps.iter().any(|(chosen, _)| chosen == name);
                    let more = combinations.saturating_mul(results.len());
                    if !is_chosen && more <= COMBINATIONS_MAX {
                        combinations = more;
                        cut.maps.push((name, results));
                        continue;
                    }
                    if is_chosen || asked.whose == Whose::Alike {
                        continue;
                    }
                    (at, End::Open)
                }
                (Knowledge::Rest | Knowledge::Begins, _) if placeholder.is_filtered() => (at, End::Open),
                (Knowledge::Rest, _) if at + 1 == to.parts().len() => (at + 1, End::Rest),
                (Knowledge::Rest | Knowledge::Begins, _) => (at + 1, End::Open),
                (Knowledge::OneOf(_) | Knowledge::Nothing, _) => (at, End::Open),
            };
            (cut.pieces, cut.end) = (pieces, end);
            break;
        }
        cut
    }

    /// Each choice of one result of each map.
    fn combinations(&self) -> impl Iterator<Item = Vec<(&'a str, Option<&'a str>)>> {
        let count: usize = self.maps.iter().map(|(_, results)| results.len()).product();
        (0..count).map(|mut number| {
            let mut choose = |(name, results): &(&'a str, Vec<Option<&'a str>>)| {
                let result = results[number % results.len()];
                number /= results.len();
                (*name, result)
            };
            self.maps.iter().map(&mut choose).collect()
        })
    }
}

/// One choice of results.
struct Chosen<'a> {
    maps: Vec<(&'a str, Option<&'a str>)>,
    asked: &'a Asked<'a>,
}

impl Known for Chosen<'_> {
    fn write(&self, what: &What, out: &mut Vec<u8>) -> bool {
        let found: Option<&[u8]> = match (what, &self.asked.captures) {
            (What::Capture(number), Captures::All(captured)) => captured.get(*number),
            (What::Capture(number), Captures::Below(below)) => match below.capture(*number) {
                Capture::Whole(text) | Capture::Rest(text) | Capture::Begins(text) => Some(text.as_bytes()),
                Capture::Unknown => None,
            },
            (What::Map(name), _) => match self.maps.iter().find(|(chosen, _)| chosen == name) {
                Some((_, result)) => result.map(str::as_bytes),
                None => return self.asked.known.write(what, out),
            },
            _ => return self.asked.known.write(what, out),
        };
        out.extend_from_slice(found.unwrap_or_default());
        found.is_some()
    }
}

/// What a rule makes of what is asked for. Targets with dot segments are none: such requests are refused.
pub(in crate::route) fn outcomes(to: &Value, asked: &Asked<'_>) -> Vec<KeyPath> {
    let cut = Cut::of(to, asked);
    let known = to.first(cut.pieces);
    let mut all: Vec<KeyPath> = Vec::new();
    for maps in cut.combinations() {
        // Invariant: what is rendered for a path consists of visible ASCII.
        let text = String::from_utf8(known.render(&Chosen { maps, asked }, Style::Path)).unwrap_or_default();
        let found = match cut.end {
            End::Whole => whole(to, text, asked),
            end => open(&known, text, end),
        };
        all.extend(found.into_iter().filter(|target| !all.contains(target)).collect::<Vec<_>>());
    }
    all
}

fn whole(to: &Value, text: String, asked: &Asked<'_>) -> Vec<KeyPath> {
    let path = text.split('?').next().unwrap_or_default();
    let exact = |text| vec![KeyPath::exact(Beginning::Whole(text))];
    match asked.extent {
        Extent::Url => {
            let query = asked.known.view.path_and_query.split_once('?').map(|(_, query)| query);
            finish(to, text.into_bytes(), query).map(exact).unwrap_or_default()
        }
        _ if has_dot_segment(path) => Vec::new(),
        _ if has_query(to) => finish(to, text.into_bytes(), None).map(exact).unwrap_or_default(),
        Extent::Path { key, query } => {
            let found = beginnings(key, &text, query);
            found.all.into_iter().map(|text| KeyPath { text, is_wider: found.is_wider }).collect()
        }
        Extent::Begin => {
            let queries = KeyPath::exact(Beginning::Open(format!("{text}?")));
            vec![KeyPath::exact(Beginning::Whole(text)), queries]
        }
    }
}

/// What begins so. Where nothing follows, a rule takes what separates it away.
fn open(known: &Value, text: String, end: End) -> Vec<KeyPath> {
    let is_wider = end != End::Rest;
    let trimmed = trimmed(&text);
    let bare = (has_query(known) && trimmed.len() < text.len())
        .then(|| KeyPath { text: Beginning::Whole(trimmed.to_owned()), is_wider });
    bare.into_iter().chain([KeyPath { text: Beginning::Open(text), is_wider }]).collect()
}
