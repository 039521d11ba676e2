//! Origins whose answers change, and crowds of clients that ask them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_testkit::{Client, Origin, Response, Weir, until};

use crate::origins::changes::{origins, shown};
use crate::server::server;

/// An origin that answers its name, with the status and after the pause that it is told.
pub(super) struct Moody {
    pub(super) origin: Origin,
    status: Arc<AtomicU16>,
    pause_ms: Arc<AtomicU64>,
}

impl Moody {
    /// It is well. To what is below `/bad/` it always answers 500.
    pub(super) fn new(name: &'static str) -> Moody {
        let moody = Moody { origin: Origin::start(), status: Arc::default(), pause_ms: Arc::default() };
        moody.says(200);
        let (status, pause_ms) = (moody.status.clone(), moody.pause_ms.clone());
        moody.origin.otherwise(move |exchange| {
            exchange.body();
            std::thread::sleep(Duration::from_millis(pause_ms.load(Ordering::SeqCst)));
            let is_bad = exchange.request.path().starts_with("/bad/");
            let status = if is_bad { 500 } else { status.load(Ordering::SeqCst) };
            exchange.reply(status, &[("Cache-Control", "no-store")], name);
        });
        moody
    }

    /// The status from now on.
    pub(super) fn says(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// The time that it takes from now on.
    pub(super) fn pauses(&self, ms: u64) {
        self.pause_ms.store(ms, Ordering::SeqCst);
    }

    pub(super) fn total(&self) -> usize {
        self.origin.total()
    }

    pub(super) fn url(&self) -> String {
        self.origin.url()
    }

    /// How it stands, as `weir origins` says.
    pub(super) fn state(&self, weir: &Weir) -> String {
        shown(weir, &self.url())["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Why.
    pub(super) fn reason(&self, weir: &Weir) -> String {
        shown(weir, &self.url())["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// How often it was ejected for this cause.
    pub(super) fn ejections(&self, weir: &Weir, cause: &str) -> f64 {
        let labels = format!("{{upstream=\"main\",origin=\"{}\",cause=\"{cause}\"}}", self.url());
        weir.metric(&format!("weir_origin_ejections_total{labels}")).unwrap()
    }

    /// Whether an event has told that it is ejected.
    pub(super) fn is_told_ejected(&self, weir: &Weir) -> bool {
        events(weir).iter().any(|event| event["origin"] == self.url() && event["state"] == "ejected")
    }

    /// Whether an event has told that it is back.
    pub(super) fn is_told_back(&self, weir: &Weir) -> bool {
        let is_it = |event: &Value| event["state"] == "up" && event["was"] == "ejected";
        events(weir).iter().any(|event| event["origin"] == self.url() && is_it(event))
    }

    /// Waits until events are told of it: the first look at all states gives none.
    pub(super) fn await_events(&self, weir: &Weir) {
        let mut is_drained = false;
        let mut toggle = || {
            let act = if is_drained { "ready" } else { "drain" };
            is_drained = !is_drained;
            origins(weir, &[act, "main", &self.url()]);
            is_drained
        };
        let mut was_drained = false;
        until("events are told", || {
            was_drained = toggle();
            std::thread::sleep(Duration::from_millis(300));
            !events(weir).is_empty()
        });
        if was_drained {
            toggle();
        }
        until("it is up again", || events(weir).last().is_some_and(|event| event["state"] == "up"));
    }
}

/// A Weir in front of these origins, which writes events.
pub(super) fn before(origins: &[&Moody], lines: &str) -> Weir {
    let all: Vec<&Origin> = origins.iter().map(|moody| &moody.origin).collect();
    let events = "[events]\nfile = \"{folder}/events.json\"\nkinds = [\"origin\"]\n";
    server(&all).upstream(lines).more(events).start()
}

/// The events so far.
pub(super) fn events(weir: &Weir) -> Vec<Value> {
    let text = std::fs::read_to_string(weir.folder().join("events.json")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The value of a metric of the upstream.
pub(super) fn metric(weir: &Weir, name: &str) -> f64 {
    weir.metric(&format!("{name}{{upstream=\"main\"}}")).unwrap()
}

/// Clients that ask one after another, each once and for a URL of its own.
pub(super) struct Crowd {
    client: Client,
    asked: u32,
}

impl Crowd {
    pub(super) fn of(weir: &Weir) -> Crowd {
        Crowd { client: weir.client(), asked: 0 }
    }

    /// The next client asks.
    pub(super) fn ask(&mut self) -> Response {
        self.asked += 1;
        let [_, _, high, low] = self.asked.to_be_bytes();
        let (client, path) = (format!("10.7.{high}.{low}"), format!("/{}", self.asked));
        self.ask_as(&client, &path)
    }

    /// This client asks for this path.
    pub(super) fn ask_as(&mut self, client: &str, path: &str) -> Response {
        self.client.get("x", path, &[("X-Forwarded-For", client)])
    }

    /// The names that answer so many clients, sorted.
    pub(super) fn answers(&mut self, n: usize) -> String {
        let mut texts: Vec<String> = (0..n).map(|_| self.ask().text()).collect();
        texts.sort();
        texts.concat()
    }
}
