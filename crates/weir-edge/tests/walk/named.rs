//! What orders in words mean: for random configs, reloads, keys and orders, no request gets what it had
//! before and the words name, whatever is reloaded later, and the rest stays. Faults are planted, and must be
//! found.
//!
//! `WEIR_SEEDS=7` or `WEIR_SEEDS=100..200` runs other seeds than the usual ones.

mod configs;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_edge::{ListOrder, PurgeOrder, PurgeTarget};
use weir_observe::Count;
use weir_policy::CacheKey;
use weir_store::{Force, Mark, Scope};
use weir_testkit::Origin;

use self::configs::config;
use self::requests::{Asked, Words, universe};
use crate::kit::{Weir, setup};

const SEEDS: std::ops::Range<u64> = 1..25;
/// Orders of one seed.
const ROUNDS: usize = 8;
/// Requests of one seed.
const REQUESTS: usize = 14;

/// A fault of the program, planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A purge marks what was written, and no key that routes make of it.
    TextAlone,
    /// A purge of a URL takes its site.
    TooMuch,
    /// A reload marks nothing.
    Unmarked,
}

/// What one request was answered with: the number of the origin's answer, and whether it was a hit.
type Served = Option<(u64, bool)>;

struct World {
    weir: Weir,
    served: Arc<AtomicU64>,
    random: fastrand::Rng,
    all: Vec<Asked>,
    /// The newest answer that a request must not get any more.
    forbidden: BTreeMap<usize, u64>,
    fault: Fault,
    story: Vec<String>,
    /// Purges by clients that took more than was asked for.
    widened: u64,
    _origin: Origin,
}

/// Runs a seed. The error is what was wrong, with its story.
fn run(seed: u64, fault: Fault) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let served = Arc::new(AtomicU64::new(0));
    let origin = Origin::start();
    let counter = served.clone();
    origin.otherwise(move |exchange| {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        exchange.reply(200, &[("Cache-Control", "max-age=600")], number.to_string());
    });
    let mut texts: Vec<String> = vec![config(&mut random, &origin)];
    let weir = Weir::of_config(setup(), &texts[0]);
    let all = requests::some(&mut random, REQUESTS);
    let story = vec![texts[0].clone()];
    let forbidden = BTreeMap::new();
    let mut world = World { weir, served, random, all, forbidden, fault, story, widened: 0, _origin: origin };
    let outcome = (0..ROUNDS).try_for_each(|_| world.round(&mut texts));
    outcome.map_err(|what| format!("{}\nseed {seed}: {what}", world.story.join("\n")))
}

impl World {
    fn round(&mut self, texts: &mut Vec<String>) -> Result<(), String> {
        if self.random.u8(..3) == 0 {
            self.reload(texts);
        }
        self.ask_all()?;
        let held = self.ask_all()?;
        let words = Words::any(&mut self.random, &self.all);
        let may_go = self.named(&words);
        let named: BTreeSet<usize> = may_go.iter().copied().filter(|at| self.must_go(&words, *at)).collect();
        self.check_listed(&words, &named, &held)?;
        let Some(wider) = self.order(&words) else { return Ok(()) };
        let last = self.served.load(Ordering::SeqCst);
        self.forbidden.extend(named.iter().map(|at| (*at, last)));
        if self.random.bool() {
            self.reload(texts);
            return self.ask_all().map(drop);
        }
        let keys: Vec<Option<String>> = self.all.iter().map(|asked| self.key(asked)).collect();
        let is_wider = |at: usize| {
            let url = keys[at].as_deref().unwrap_or_default();
            wider.iter().any(|begin| url.starts_with(begin.as_str())) || words.is_text_of(url)
        };
        let now = self.ask_all()?;
        for (at, (before, now)) in held.iter().zip(&now).enumerate() {
            let Some((number, true)) = before else { continue };
            if !may_go.contains(&at) && !is_wider(at) && *now != Some((*number, true)) {
                return Err(format!("{words} took {}, which it does not name: {now:?}", self.all[at]));
            }
        }
        Ok(())
    }

    /// Puts another config in force, or one of before.
    fn reload(&mut self, texts: &mut Vec<String>) {
        let is_back = texts.len() > 1 && self.random.bool();
        let text = match is_back {
            true => texts[texts.len() - 2].clone(),
            false => config(&mut self.random, &self._origin),
        };
        let plan = self.weir.plan(&text).expect("a config");
        self.weir.inside(|alone| match self.fault {
            Fault::Unmarked => alone.reload_unmarked(plan).unwrap(),
            _ => alone.reload(plan).unwrap(),
        });
        self.story.push(format!("reload: {text}"));
        texts.push(text);
    }

    fn ask_all(&mut self) -> Result<Vec<Served>, String> {
        (0..self.all.len()).map(|at| self.ask(at)).collect()
    }

    fn ask(&mut self, at: usize) -> Result<Served, String> {
        let asked = &self.all[at];
        let answer = self.weir.send(&asked.message("GET"));
        let served = answer.text().parse().ok().map(|number| (number, answer.is_hit()));
        let served = served.filter(|_| answer.status() == 200);
        self.story.push(format!("{asked}: {served:?}"));
        match (served, self.forbidden.get(&at)) {
            (Some((number, _)), Some(forbidden)) if number <= *forbidden => {
                Err(format!("{asked} got {number}, which was purged"))
            }
            _ => Ok(served),
        }
    }

    fn key(&self, asked: &Asked) -> Option<String> {
        self.weir.key(&asked.url(), &asked.fields(), asked.client)
    }

    /// The requests that words name: for what they get, a URL that the words say could be asked for as well.
    fn named(&self, words: &Words) -> BTreeSet<usize> {
        let is_named = |asked: &Asked| {
            if let Words::Site(host) = words {
                let site = |host: &str| self.weir.inside(|alone| alone.site_of(host));
                return site(host).is_some() && site(asked.host()) == site(host);
            }
            words.names(&asked.url()) || {
                let key = self.key(asked);
                key.is_some()
                    && universe(asked, words)
                        .any(|other| words.names(&other.url()) && self.key(&other) == key)
            }
        };
        (0..self.all.len()).filter(|at| is_named(&self.all[*at])).collect()
    }

    /// Whether a request that words name must not get what it had. A POST takes what its own fields choose,
    /// and of maps with more than 64 results what they choose for it.
    fn must_go(&self, words: &Words, at: usize) -> bool {
        let Words::Post(post) = words else { return true };
        let config = self.story.iter().rev().find(|line| line.contains("[[site]]")).unwrap();
        let asked = &self.all[at];
        post.is_like(asked) && (!config.contains("{map.many}") || post.lang == asked.lang)
    }

    /// What is held of what a prefix names is listed.
    fn check_listed(&self, words: &Words, named: &BTreeSet<usize>, held: &[Served]) -> Result<(), String> {
        let Words::Prefix(prefix) = words else { return Ok(()) };
        let order = ListOrder { prefix: Some(prefix.clone()), limit: 1000, ..ListOrder::default() };
        let page = match self.weir.inside(|alone| alone.list(&order)) {
            Ok(page) => page,
            Err(why) if why.starts_with("no site has") => return Ok(()),
            Err(why) => return Err(why),
        };
        let listed: Vec<&[u8]> = page.objects.iter().map(|object| &*object.listed.key.full).collect();
        let once: BTreeSet<&&[u8]> = listed.iter().collect();
        if once.len() < listed.len() {
            return Err(format!("list {prefix} has something twice"));
        }
        let of_held = named.iter().filter(|at| matches!(held[**at], Some((_, true))));
        for at in of_held {
            let key = self.key(&self.all[*at]).unwrap();
            if !listed.contains(&key.as_bytes()) {
                return Err(format!("list {prefix} lacks {}, of {}", key, self.all[*at]));
            }
        }
        Ok(())
    }

    /// Carries an order out; none where it is refused. Returns how what begins that goes as well.
    fn order(&mut self, words: &Words) -> Option<Vec<String>> {
        let target = match words {
            Words::Url(url) => PurgeTarget::Url(url.clone()),
            Words::Prefix(prefix) => PurgeTarget::Prefix(prefix.clone()),
            Words::Site(host) => PurgeTarget::Site(self.weir.inside(|alone| alone.site_of(host))?),
            Words::Post(asked) => {
                let before = self.served.load(Ordering::SeqCst);
                self.weir.send(&asked.message("POST"));
                self.story.push(format!("{words}"));
                // What the origin has not answered changes nothing.
                let has_come = self.served.load(Ordering::SeqCst) > before;
                return has_come.then(Vec::new);
            }
        };
        if let Some(message) = words.by_client().filter(|_| self.fault == Fault::None && self.random.bool()) {
            return self.order_by_client(&message);
        }
        let force = if self.random.u8(..4) == 0 { Force::Lifetime(Duration::ZERO) } else { Force::Hard };
        let order = PurgeOrder { target, force };
        let ordered = match (self.fault, words.text()) {
            (Fault::TextAlone, Some((text, is_prefix))) => self.mark(&of_text(&text, is_prefix)),
            (Fault::TooMuch, Some(_)) => self.mark(&[Scope::All]),
            _ => self.weir.inside(|alone| alone.order(&[order])),
        };
        self.story.push(format!("{words} {force:?}: {ordered:?}"));
        ordered.ok()
    }

    /// The same by a client; it learns that more went, and not what.
    fn order_by_client(&mut self, message: &str) -> Option<Vec<String>> {
        let answer = self.weir.send(message);
        let result = answer.header("cache-purge-result").unwrap_or_default();
        self.story.push(format!("{message}: {} {result}", answer.status()));
        let is_wider = self.weir.snapshot().counts[Count::PurgesWidened] > self.widened;
        self.widened += u64::from(is_wider);
        (answer.status() == 200).then(|| if is_wider { vec!["http".to_owned()] } else { Vec::new() })
    }

    fn mark(&self, scopes: &[Scope]) -> Result<Vec<String>, String> {
        let marks: Vec<Mark> = scopes.iter().map(|scope| Mark::hard(*scope)).collect();
        self.weir.inside(|alone| alone.mark(&marks));
        Ok(Vec::new())
    }
}

/// What is marked where a text is taken as it is.
fn of_text(text: &str, is_prefix: bool) -> Vec<Scope> {
    let all = match text.contains("://") {
        true => vec![text.to_owned()],
        false => ["http", "https"].map(|scheme| format!("{scheme}://{text}")).to_vec(),
    };
    // Of any site.
    let site = 0;
    let scope = |text: String| match is_prefix {
        true => Scope::prefix(site, &text),
        false => Scope::Url { site, digest: CacheKey::new(text.into()).digest },
    };
    all.into_iter().map(scope).collect()
}

fn seeds() -> Vec<u64> {
    let Ok(text) = std::env::var("WEIR_SEEDS") else { return SEEDS.collect() };
    match text.split_once("..") {
        Some((begin, end)) => (begin.parse().unwrap()..end.parse().unwrap()).collect(),
        None => vec![text.parse().unwrap()],
    }
}

#[test]
fn what_words_name_goes_and_the_rest_stays() {
    for seed in seeds() {
        if let Err(why) = run(seed, Fault::None) {
            panic!("{why}\n(again: WEIR_SEEDS={seed} cargo test -p weir-edge --test walk named)");
        }
    }
}

#[test]
fn planted_faults_are_found() {
    for fault in [Fault::TextAlone, Fault::TooMuch, Fault::Unmarked] {
        assert!(SEEDS.into_iter().any(|seed| run(seed, fault).is_err()), "{fault:?} is not found");
    }
}
