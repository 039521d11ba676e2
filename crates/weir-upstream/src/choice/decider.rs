//! Deciders: picks that are asked before any lane is looked at, a script or a distributor. What one says is
//! used once, for the first attempt of a request. It must not wait longer than it may, and it sees of a
//! request for all only what that request itself carries.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use crate::gauges::Gauges;
use crate::health::standing::Standing;

/// A pick that is asked: `[pick.NAME]` with a script or a distributor.
pub trait Decider: Send + Sync + fmt::Debug {
    /// Its name.
    fn name(&self) -> &str;

    /// What it is.
    fn form(&self) -> DeciderForm;

    /// What it says of a request. Called on a worker: it must not block.
    ///
    /// # Cancel safety
    /// A future that is dropped has asked for nothing that others wait for.
    fn decide<'q>(&'q self, question: Question<'q>) -> Deciding<'q>;

    /// What it has said so far.
    fn snapshot(&self) -> DeciderSnapshot;
}

/// What a decider is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeciderForm {
    /// A script.
    Script,
    /// A program that is asked over the network.
    Distributor,
}

/// An answer, now or later.
pub enum Deciding<'q> {
    /// It is known.
    Now(Decision),
    /// It must be waited for.
    Later(Pin<Box<dyn Future<Output = Decision> + Send + 'q>>),
}

/// What a decider says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: the next pick decides.
    Open,
    /// This origin, by its number. If it takes no share the next pick decides.
    Origin(usize),
    /// One of these and no other one, also when the request is sent again. The next pick decides which.
    Among(Box<[usize]>),
    /// This address. Where no origin is there, it is asked all the same: the decider may name it.
    At(SocketAddr),
    /// The client gets no answer of an origin. Ignored where the answer is for all.
    Deny(Denial),
    /// It could not decide: the next pick does.
    Failed,
    /// It did not answer: a backup, else the next pick.
    Unanswered,
}

/// What a client is told that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denial {
    /// 400 to 599.
    pub status: StatusCode,
    /// Seconds until it may ask again.
    pub retry_after_s: Option<u32>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A response that others may get as well: it has no client.
    #[default]
    Fill,
    /// A response for one client.
    Pass,
}

impl Kind {
    /// `fill` or `pass`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Fill => "fill",
            Kind::Pass => "pass",
        }
    }
}

/// What is known of a request beside what the origin gets. Made where deciders are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// `http` or `https`, as the client asked.
    pub scheme: &'static str,
    /// The host that the client asked for, without a port.
    pub host: Box<str>,
    /// The site's name.
    pub site: Arc<str>,
    /// The route's name.
    pub route: Arc<str>,
    /// What it is for.
    pub kind: Kind,
    /// The client; `None` for a fill. The port is 0 where a proxy named the client without one.
    pub client: Option<SocketAddr>,
    /// The text that tells its session from others; `None` for a fill, and where there is none.
    pub session: Option<Box<str>>,
}

/// A request for which an origin is sought.
#[derive(Clone, Copy)]
pub struct Question<'q> {
    /// The request's method.
    pub method: &'q Method,
    /// Path and query, as the origin gets them.
    pub target: &'q [u8],
    /// The fields, as the origin gets them.
    pub headers: &'q HeaderMap,
    /// What is known besides.
    pub about: &'q About,
    /// Where it may go.
    pub origins: &'q dyn Origins,
}

/// The origins of an upstream at one moment, by number.
pub trait Origins: Sync {
    /// The upstream's name.
    fn upstream(&self) -> &str;

    /// How many there are, those that take no share included.
    fn count(&self) -> usize;

    /// The origin of this number.
    fn get(&self, at: usize) -> Option<OriginView<'_>>;

    /// The number of the origin at this address. Names count with the addresses that they have now.
    fn at(&self, socket: SocketAddr) -> Option<usize>;
}

/// One origin, as a decider sees it.
#[derive(Clone, Copy, Debug)]
pub struct OriginView<'q> {
    /// Its number.
    pub number: usize,
    /// Its name, as in logs: its address in the configuration.
    pub name: &'q str,
    /// Its `id`, where it has one.
    pub id: Option<&'q str>,
    /// Its share relative to the others, with its agent's factor; 1 to 1,000.
    pub weight: f64,
    /// Whether it is a backup.
    pub is_backup: bool,
    /// How it stands.
    pub standing: Standing,
    /// Whether it may get requests.
    pub takes_share: bool,
    /// Requests under way.
    pub in_flight: u32,
    /// The time to the first byte; zero where it is not known.
    pub latency: Duration,
    /// What is measured at it.
    pub gauges: &'q Arc<Gauges>,
}

/// The deciders of an upstream or a route, in order. Two are equal where they are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Deciders(Arc<[Arc<dyn Decider>]>);

impl FromIterator<Arc<dyn Decider>> for Deciders {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Decider>>>(deciders: I) -> Deciders {
        Deciders(deciders.into_iter().collect())
    }
}

impl Deref for Deciders {
    type Target = [Arc<dyn Decider>];

    fn deref(&self) -> &[Arc<dyn Decider>] {
        &self.0
    }
}

impl PartialEq for Deciders {
    fn eq(&self, other: &Deciders) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(one, two)| Arc::ptr_eq(one, two))
    }
}

/// What a decider has said so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeciderSnapshot {
    /// Its name.
    pub name: String,
    /// How often it was asked, by what came of it: words of the decider's own.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Why it does not decide now, or not by what its newest file says.
    pub trouble: Option<String>,
}
