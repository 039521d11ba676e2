//! Events as lines of JSON, and the states that are looked at for events of volumes and origins.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::event::{Event, EventKind};
use crate::lines::{json, rfc3339};

/// Gives the state of volumes and origins: a kind, names with their values, a state, and the reason for it
/// where one is known. Called four times a second while somebody listens.
pub type States = Box<dyn Fn() -> Vec<Stand> + Send + Sync>;

/// A kind, names with their values, a state, and its reason.
type Stand = (EventKind, Vec<(&'static str, String)>, String, String);

/// The names of sites by their marks.
pub(super) type Names = Mutex<HashMap<u64, Arc<str>>>;

/// A line of JSON, and which listeners it is for.
pub(super) struct Line {
    /// The kind, as its bit.
    pub(super) kind: u32,
    /// The sites that it is about.
    pub(super) sites: Vec<Arc<str>>,
    /// With a line break.
    pub(super) json: Vec<u8>,
}

impl Line {
    pub(super) fn of(event: &Event, names: &Names) -> Line {
        let mut map = begin(event.kind.word(), event.wall);
        let site = names.lock().get(&event.site).cloned();
        if let Some(site) = &site {
            map.insert("site".to_owned(), Value::from(&**site));
        }
        let mut sites: Vec<Arc<str>> = site.into_iter().collect();
        match &event.purge {
            Some(purge) => {
                map.insert("scope".to_owned(), purge.scope.clone());
                map.insert("actor".to_owned(), Value::from(purge.actor.as_str()));
                sites.extend(purge.sites.iter().map(|site| Arc::from(site.as_str())));
            }
            None => put_key(&event.key, &mut map),
        }
        if let Some(bytes) = event.bytes {
            map.insert("body_bytes".to_owned(), Value::from(bytes));
        }
        if let Some(volume) = &event.volume {
            map.insert("volume".to_owned(), Value::from(&**volume));
        }
        if !event.why.is_empty() {
            map.insert("reason".to_owned(), Value::from(event.why));
        }
        Line::new(event.kind as u32, sites, &map)
    }

    /// That so many events could not be delivered: for every listener.
    pub(super) fn of_lost(count: u64) -> Line {
        let mut map = begin("dropped", weir_clock::now().wall);
        map.insert("count".to_owned(), Value::from(count));
        Line::new(u32::MAX, Vec::new(), &map)
    }

    fn new(kind: u32, sites: Vec<Arc<str>>, map: &Map<String, Value>) -> Line {
        let mut line = Vec::new();
        json(map, &mut line);
        Line { kind, sites, json: line }
    }
}

/// How many events of a kind a look gives; what goes beyond is told in one, with counts.
const CHANGED_MAX: usize = 100;

/// The states at the last look.
#[derive(Default)]
pub(super) struct Look {
    stood: Option<HashMap<String, String>>,
}

impl Look {
    /// An event for each state of these kinds that has changed.
    pub(super) fn changed(&mut self, states: Option<&States>, kinds: u32) -> Vec<Line> {
        let looked = EventKind::Volume as u32 | EventKind::Origin as u32;
        let Some(states) = states.filter(|_| kinds & looked != 0) else { return Vec::new() };
        let (mut stands, mut lines) = (HashMap::new(), Vec::new());
        let mut more: BTreeMap<u32, More> = BTreeMap::new();
        for (kind, names, state, why) in states() {
            let id = format!("{kind:?} {names:?}");
            let was = self.stood.as_ref().and_then(|stood| stood.get(&id));
            let has_changed = self.stood.is_some() && was != Some(&state) && kinds & kind as u32 != 0;
            let more = more.entry(kind as u32).or_insert_with(|| More::of(kind));
            if has_changed && !more.has_room() {
                more.count(&state);
            } else if has_changed {
                let mut map = begin(kind.word(), weir_clock::now().wall);
                map.extend(names.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))));
                map.insert("state".to_owned(), Value::from(state.as_str()));
                if let Some(was) = was {
                    map.insert("was".to_owned(), Value::from(was.as_str()));
                }
                if !why.is_empty() {
                    map.insert("reason".to_owned(), Value::from(why));
                }
                lines.push(Line::new(kind as u32, Vec::new(), &map));
            }
            stands.insert(id, state);
        }
        self.stood = Some(stands);
        lines.extend(more.into_values().filter_map(More::line));
        lines
    }
}

/// The states of a kind that have changed at a look.
struct More {
    kind: EventKind,
    /// Those that got an event.
    told: usize,
    /// The others by state.
    states: BTreeMap<String, u64>,
}

impl More {
    fn of(kind: EventKind) -> More {
        More { kind, told: 0, states: BTreeMap::new() }
    }

    /// Whether another one gets an event; then it counts as told.
    fn has_room(&mut self) -> bool {
        let has_room = self.told < CHANGED_MAX;
        self.told += usize::from(has_room);
        has_room
    }

    fn count(&mut self, state: &str) {
        *self.states.entry(state.to_owned()).or_default() += 1;
    }

    /// One event for all others.
    fn line(self) -> Option<Line> {
        if self.states.is_empty() {
            return None;
        }
        let mut map = begin(self.kind.word(), weir_clock::now().wall);
        map.insert("more".to_owned(), Value::from(self.states.values().sum::<u64>()));
        map.insert(
            "states".to_owned(),
            self.states.into_iter().map(|(state, count)| (state, Value::from(count))).collect(),
        );
        Some(Line::new(self.kind as u32, Vec::new(), &map))
    }
}

/// The URL of a key, and what else is in it.
fn put_key(key: &[u8], map: &mut Map<String, Value>) {
    let text = String::from_utf8_lossy(key);
    let mut parts = text.lines();
    map.insert("key".to_owned(), Value::from(parts.next().unwrap_or_default()));
    let more: Vec<Value> = parts.map(Value::from).collect();
    if !more.is_empty() {
        map.insert("key_fields".to_owned(), Value::from(more));
    }
}

fn begin(word: &str, wall: SystemTime) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("time".to_owned(), Value::from(rfc3339(wall)));
    map.insert("event".to_owned(), Value::from(word));
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_changes_at_once_are_told_with_counts() {
        let number = std::sync::atomic::AtomicU64::new(0);
        let states: States = Box::new(move || {
            let look = number.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let state = |at: u64| if look == 0 || at == 5 { "up" } else { "down" };
            let names = |at: u64| vec![("origin", at.to_string())];
            (0..1000).map(|at| (EventKind::Origin, names(at), state(at).to_owned(), String::new())).collect()
        });
        let (mut look, kinds) = (Look::default(), EventKind::Origin as u32);
        assert!(look.changed(Some(&states), kinds).is_empty(), "the first look only learns");
        let lines = look.changed(Some(&states), kinds);
        assert_eq!(lines.len(), CHANGED_MAX + 1);
        let last: Value = serde_json::from_slice(&lines[CHANGED_MAX].json).unwrap();
        assert_eq!((&last["event"], &last["more"]), (&"origin".into(), &899.into()), "{last}");
        assert_eq!(last["states"], serde_json::json!({ "down": 899 }));
        assert!(look.changed(Some(&states), kinds).is_empty());
    }
}
