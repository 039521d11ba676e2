//! `origins` and each origin. A list is numbers into the row; what chooses from it takes those that are up,
//! primaries before backups, and `()` where there is none.

use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::texts::text;
use crate::asked::Row;
use crate::frame::{self, Frame, refusal};
use crate::phrases;

type Said<T> = Result<T, Box<EvalAltResult>>;

/// Origins of the row, by number.
#[derive(Clone, Debug)]
pub(crate) enum OriginList {
    /// All of them.
    All,
    /// Some, in the order of their numbers.
    Some(SmallVec<[u32; 8]>),
}

/// One origin of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(pub(crate) usize);

impl OriginList {
    pub(crate) fn numbers(&self, row: &dyn Row) -> impl Iterator<Item = usize> {
        let (all, some) = match self {
            OriginList::All => (0..row.count(), [].iter()),
            OriginList::Some(some) => (0..0, some.iter()),
        };
        all.chain(some.map(|number| *number as usize))
    }

    fn count(&self, row: &dyn Row) -> usize {
        match self {
            OriginList::All => row.count(),
            OriginList::Some(some) => some.len(),
        }
    }

    fn get(&self, at: i64, row: &dyn Row) -> Option<Origin> {
        let count = self.count(row);
        let at = match usize::try_from(at) {
            Ok(at) => at,
            // From the end, as in the language's lists.
            Err(_) => count.checked_sub(usize::try_from(at.checked_neg()?).ok()?)?,
        };
        match self {
            OriginList::All => (at < count).then_some(Origin(at)),
            OriginList::Some(some) => some.get(at).map(|number| Origin(*number as usize)),
        }
    }

    fn of(numbers: impl Iterator<Item = usize>) -> OriginList {
        OriginList::Some(numbers.map(|number| number as u32).collect())
    }

    /// Those that are up: the primaries, or the backups where no primary is.
    fn usable(&self, row: &dyn Row) -> SmallVec<[u32; 16]> {
        let up = |is_backup: bool| {
            let numbers = self.numbers(row);
            numbers.filter(move |at| row.is_up(*at) && row.is_backup(*at) == is_backup)
        };
        let primaries: SmallVec<[u32; 16]> = up(false).map(|number| number as u32).collect();
        if primaries.is_empty() { up(true).map(|number| number as u32).collect() } else { primaries }
    }
}

impl IntoIterator for OriginList {
    type Item = Origin;
    type IntoIter = std::vec::IntoIter<Origin>;

    fn into_iter(self) -> Self::IntoIter {
        let all = frame::with(|frame| self.numbers(frame.row).map(Origin).collect::<Vec<_>>());
        all.unwrap_or_default().into_iter()
    }
}

/// The facts of one origin, for conditions.
pub(crate) struct FactsOf<'f, 'q> {
    pub(crate) frame: &'f Frame<'q>,
    pub(crate) at: usize,
}

impl crate::condition::Facts for FactsOf<'_, '_> {
    fn metric(&self, name: &str) -> Option<f64> {
        self.frame.row.metric(self.at, name, self.frame.now)
    }

    fn age(&self, name: &str) -> Option<f64> {
        self.frame.row.age_s(self.at, name, self.frame.now)
    }

    fn number(&self, of: crate::condition::Number) -> f64 {
        use crate::condition::Number;
        match of {
            Number::InFlight => f64::from(self.frame.row.in_flight(self.at)),
            Number::Latency => self.frame.row.latency_ms(self.at),
            Number::Weight => self.frame.row.weight(self.at),
        }
    }

    fn text(&self, of: crate::condition::Text) -> &str {
        use crate::condition::Text;
        match of {
            Text::Name => self.frame.row.name(self.at),
            Text::Id => self.frame.row.id(self.at).unwrap_or_default(),
            Text::Standing => self.frame.row.standing(self.at),
        }
    }

    fn flag(&self, of: crate::condition::Flag) -> bool {
        use crate::condition::Flag;
        match of {
            Flag::Up => self.frame.row.is_up(self.at),
            Flag::Backup => self.frame.row.is_backup(self.at),
        }
    }
}

pub(super) fn register(engine: &mut Engine) {
    engine
        .register_type_with_name::<OriginList>("origins")
        .register_iterator::<OriginList>()
        .register_get("len", |list: &mut OriginList| length(list))
        .register_fn("len", |list: &mut OriginList| length(list))
        .register_get("is_empty", |list: &mut OriginList| length(list).map(|length| length == 0))
        .register_fn("is_empty", |list: &mut OriginList| length(list).map(|length| length == 0))
        .register_indexer_get(|list: &mut OriginList, at: i64| -> Said<Dynamic> {
            frame::with(|frame| optional(list.get(at, frame.row)))
        })
        .register_fn("up", |list: &mut OriginList| {
            frame::with(|frame| OriginList::Some(list.usable(frame.row).into_iter().collect()))
        })
        .register_fn("where", chosen_where)
        .register_fn("least", least)
        .register_fn("hashed", hashed)
        .register_fn("hashed", hashed_few)
        .register_fn("hashed_part", hashed_part)
        .register_fn("drawn", |list: &mut OriginList| {
            frame::with(|frame| optional(drawn(list, frame, |at| frame.row.weight(at))))
        })
        .register_fn("drawn", drawn_by)
        .register_fn("named", named);
    register_origin(engine);
}

fn register_origin(engine: &mut Engine) {
    engine
        .register_type_with_name::<Origin>("origin")
        .register_fn("==", |one: &mut Origin, other: Origin| *one == other)
        .register_fn("!=", |one: &mut Origin, other: Origin| *one != other)
        .register_fn("to_string", |of: &mut Origin| origin(of, |row, at| row.name(at).to_owned()))
        .register_get("name", |of: &mut Origin| origin(of, |row, at| text(row.name(at).as_bytes())))
        .register_get("id", |of: &mut Origin| {
            origin(of, |row, at| row.id(at).map_or(Dynamic::UNIT, |id| id.into()))
        })
        .register_get("up", |of: &mut Origin| origin(of, |row, at| row.is_up(at)))
        .register_get("backup", |of: &mut Origin| origin(of, |row, at| row.is_backup(at)))
        .register_get("standing", |of: &mut Origin| {
            origin(of, |row, at| ImmutableString::from(row.standing(at)))
        })
        .register_get("weight", |of: &mut Origin| origin(of, |row, at| row.weight(at)))
        .register_get("in_flight", |of: &mut Origin| origin(of, |row, at| i64::from(row.in_flight(at))))
        .register_get("latency", |of: &mut Origin| origin(of, |row, at| row.latency_ms(at)))
        .register_fn("metric", |of: &mut Origin, name: &str| -> Said<Dynamic> {
            frame::with(|frame| number(frame.row.metric(of.0, name, frame.now)))
        })
        .register_fn("age", |of: &mut Origin, name: &str| -> Said<Dynamic> {
            frame::with(|frame| number(frame.row.age_s(of.0, name, frame.now)))
        });
}

fn origin<T>(of: &Origin, ask: impl FnOnce(&dyn Row, usize) -> T) -> Said<T> {
    frame::with(|frame| ask(frame.row, of.0))
}

fn number(value: Option<f64>) -> Dynamic {
    value.map_or(Dynamic::UNIT, Dynamic::from_float)
}

fn optional(origin: Option<Origin>) -> Dynamic {
    origin.map_or(Dynamic::UNIT, Dynamic::from)
}

fn length(list: &OriginList) -> Said<i64> {
    frame::with(|frame| list.count(frame.row) as i64)
}

/// Those of which a condition holds, up or not.
fn chosen_where(list: &mut OriginList, condition: &str) -> Said<OriginList> {
    let condition = phrases::condition(condition).map_err(refusal)?;
    frame::with(|frame| {
        let holds = |at: &usize| condition.holds(&FactsOf { frame, at: *at });
        OriginList::of(list.numbers(frame.row).filter(holds))
    })
}

/// The one with the least of a measure; of several one that is drawn. One whose measure is missing is none.
fn least(list: &mut OriginList, measure: &str) -> Said<Dynamic> {
    let measure = phrases::measure(measure).map_err(refusal)?;
    frame::with(|frame| {
        let mut least: Option<(f64, usize)> = None;
        let mut alike = 0;
        for at in list.usable(frame.row) {
            let at = at as usize;
            let Some(found) = measure.of(&FactsOf { frame, at }) else { continue };
            match least {
                Some((lowest, _)) if found > lowest => {}
                Some((lowest, _)) if found == lowest => {
                    alike += 1;
                    // Each of those that are alike is taken equally often.
                    if frame.draw() % alike == 0 {
                        least = Some((found, at));
                    }
                }
                _ => (least, alike) = (Some((found, at)), 1),
            }
        }
        optional(least.map(|(_, at)| Origin(at)))
    })
}

/// The same one for the same text, by weight (weighted rendezvous hashing, Schindelhauer and Schomaker 2005).
fn hashed(list: &mut OriginList, of: Dynamic) -> Said<Dynamic> {
    let Some(of) = hashable(of)? else { return Ok(Dynamic::UNIT) };
    frame::with(|frame| {
        let scored = scored(list, frame, &of);
        let best = scored.into_iter().max_by(|one, other| one.0.total_cmp(&other.0));
        optional(best.map(|(_, at)| Origin(at)))
    })
}

/// The same few for the same text: the one that [`hashed`] gives, and those that would be it without it.
fn hashed_few(list: &mut OriginList, of: Dynamic, count: i64) -> Said<OriginList> {
    let Some(of) = hashable(of)? else { return Ok(OriginList::of(std::iter::empty())) };
    let count = usize::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| refusal("`hashed` gives one origin or more"))?;
    frame::with(|frame| {
        let mut scored = scored(list, frame, &of);
        scored.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        let mut numbers: SmallVec<[u32; 8]> =
            scored.into_iter().take(count).map(|(_, at)| at as u32).collect();
        numbers.sort_unstable();
        OriginList::Some(numbers)
    })
}

/// A number of at least 0 and less than 1, the same one for the same text. Of nothing there is none.
fn hashed_part(of: Dynamic) -> Said<Dynamic> {
    let part =
        |of: ImmutableString| (xxh3_64_with_seed(of.as_bytes(), 0) >> 11) as f64 / (1_u64 << 53) as f64;
    Ok(hashable(of)?.map_or(Dynamic::UNIT, |of| part(of).into()))
}

/// The text that a hash is of. Of nothing there is none.
fn hashable(of: Dynamic) -> Said<Option<ImmutableString>> {
    if of.is_unit() {
        return Ok(None);
    }
    if let Ok(number) = of.as_int() {
        return Ok(Some(number.to_string().into()));
    }
    of.into_immutable_string().map(Some).map_err(|kind| refusal(format!("{kind} cannot be hashed")))
}

fn scored(list: &OriginList, frame: &Frame<'_>, of: &str) -> SmallVec<[(f64, usize); 16]> {
    let seed = xxh3_64_with_seed(of.as_bytes(), 0);
    let score = |at: usize| {
        let point = xxh3_64_with_seed(frame.row.name(at).as_bytes(), seed);
        let fraction = ((point >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -frame.row.weight(at) / fraction.ln()
    };
    list.usable(frame.row).into_iter().map(|at| (score(at as usize), at as usize)).collect()
}

/// One at random, each as often as its measure says, times its weight.
fn drawn_by(list: &mut OriginList, measure: &str) -> Said<Dynamic> {
    let measure = phrases::measure(measure).map_err(refusal)?;
    frame::with(|frame| {
        let share = |at| measure.of(&FactsOf { frame, at }).unwrap_or_default() * frame.row.weight(at);
        optional(drawn(list, frame, share))
    })
}

fn drawn(list: &OriginList, frame: &Frame<'_>, share: impl Fn(usize) -> f64) -> Option<Origin> {
    let shares = list.usable(frame.row).into_iter().map(|at| (at as usize, share(at as usize)));
    let shares: SmallVec<[(usize, f64); 16]> = shares.filter(|(_, share)| *share > 0.0).collect();
    let mut left = shares.iter().map(|(_, share)| share).sum::<f64>() * frame.fraction();
    let found = shares.iter().find(|(_, share)| {
        left -= share;
        left < 0.0
    });
    found.or(shares.last()).map(|(at, _)| Origin(*at))
}

/// The one of this URL, as in the configuration, or of this `id`.
fn named(list: &mut OriginList, name: &str) -> Said<Dynamic> {
    frame::with(|frame| {
        let wanted = name.trim_end_matches('/');
        let is = |at: &usize| frame.row.id(*at) == Some(name) || is_name(frame.row.name(*at), wanted);
        optional(list.numbers(frame.row).find(is).map(Origin))
    })
}

/// Whether a URL is the name of an origin, which has its port in any case.
fn is_name(name: &str, wanted: &str) -> bool {
    let rest = name.strip_prefix(wanted);
    rest.is_some_and(|rest| match wanted.split_once("://") {
        Some(("http", _)) => rest.is_empty() || rest == ":80",
        Some(("https", _)) => rest.is_empty() || rest == ":443",
        _ => rest.is_empty(),
    })
}
