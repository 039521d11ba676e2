//! What `weir distributor` serves: the policies of a configuration, as answers to questions. Upstreams are
//! tended as in `weir run`, but nothing is sent to their origins save checks.

mod admin;
mod policy;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_config::Loaded;
use weir_config::model::{Config, DistributorServer};
use weir_distributor::format::{self, Answer, Question};
use weir_distributor::serve::{Answerer, Server, Terms};
use weir_distributor::{Place, Seldom};
use weir_edge::plan::WrittenPicks;
use weir_metrics::Collector;
use weir_upstream::{Adjustments, Decider, DeciderForm, Upstream};

use crate::distributors;
use crate::metrics;
use crate::written_picks::Maker;
pub(crate) use admin::serve as serve_admin;
use policy::{Policies, Policy};

/// A distributor under way.
pub(crate) struct Answering {
    server: Server,
    maker: Maker,
    /// Reads metrics, for the picks that go by them.
    collector: Collector,
    runtime: Handle,
    /// What is in force.
    upstreams: Mutex<HashMap<String, Arc<Upstream>>>,
    listen: Vec<Place>,
}

/// What is made of a configuration.
struct Made {
    upstreams: HashMap<String, Arc<Upstream>>,
    terms: Terms,
}

impl Answering {
    /// Listens and answers, on so many threads. `runtime` tends the upstreams.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub(crate) fn start(loaded: &Loaded, threads: usize, runtime: Handle) -> anyhow::Result<Answering> {
        let settings = settings(&loaded.config)?;
        let maker = Maker::default();
        let made = make(&loaded.config, &maker, &HashMap::new())?;
        tend(&made.upstreams, &HashMap::new(), &runtime);
        let collector = Collector::start().context("cannot start the thread of metrics")?;
        metrics::configure_for(&collector, loaded, made.upstreams.values().cloned().collect());
        let listen: Vec<Place> = settings.listen.iter().map(distributors::place).collect();
        let server = Server::start(&listen, threads, made.terms).map_err(|(place, error)| {
            anyhow::Error::new(error).context(format!("cannot listen at {place}"))
        })?;
        Ok(Answering { server, maker, collector, runtime, upstreams: Mutex::new(made.upstreams), listen })
    }

    /// Puts another configuration in force. Warnings.
    ///
    /// # Errors
    /// Why it cannot be used; then nothing has changed.
    pub(crate) fn reload(&self, loaded: &Loaded) -> anyhow::Result<Vec<String>> {
        let settings = settings(&loaded.config)?;
        let mut upstreams = self.upstreams.lock();
        let made = make(&loaded.config, &self.maker, &upstreams)?;
        tend(&made.upstreams, &upstreams, &self.runtime);
        metrics::configure_for(&self.collector, loaded, made.upstreams.values().cloned().collect());
        self.server.change(made.terms);
        *upstreams = made.upstreams;
        let listen: Vec<Place> = settings.listen.iter().map(distributors::place).collect();
        let is_other = listen != self.listen;
        let warning = "[distributor] listen has changed and needs a restart; the old places stay";
        Ok(is_other.then(|| warning.to_owned()).into_iter().collect())
    }

    /// Where it listens.
    pub(crate) fn listening(&self) -> String {
        self.server.listening().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

fn settings(config: &Config) -> anyhow::Result<&DistributorServer> {
    let missing =
        "there is no [distributor]; add one: [distributor] with listen = [\"udp://127.0.0.1:10010\"]";
    config.distributor.as_ref().context(missing)
}

/// Makes all of a configuration; upstreams that are there already are succeeded.
fn make(config: &Config, maker: &Maker, before: &HashMap<String, Arc<Upstream>>) -> anyhow::Result<Made> {
    let settings = settings(config)?;
    let WrittenPicks(all) = maker.make(config).map_err(anyhow::Error::msg)?;
    // A question is answered at once: what would ask elsewhere decides nothing here.
    let is_at_once = |decider: &Arc<dyn Decider>| decider.form() == DeciderForm::Script;
    let written = WrittenPicks(all.into_iter().filter(|(_, decider)| is_at_once(decider)).collect());
    let mut upstreams = HashMap::new();
    for settings in written.upstreams(config) {
        let name = settings.name.clone();
        let upstream = match before.get(&name) {
            Some(old) => Upstream::succeed(old, settings),
            None => Upstream::adjusted(settings, Adjustments::new()),
        };
        upstreams.insert(name.clone(), upstream.with_context(|| format!("[upstream.{name}]"))?);
    }
    let policies = policies(config, settings, &written, &upstreams)?;
    let keys = distributors::keys(settings.key_file.as_ref()).map_err(anyhow::Error::msg)?;
    let allow = match &settings.allow {
        Some(list) => distributors::networks(list),
        None => [IpAddr::from([127, 0, 0, 0]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)]
            .into_iter()
            .filter_map(|ip| ipnet::IpNet::new(ip, if ip.is_ipv4() { 8 } else { 128 }).ok())
            .collect(),
    };
    let unknown = Seldom::new();
    let answer: Answerer = Arc::new(move |question: &Question<'_>| answer(&policies, &unknown, question));
    let form = distributors::form(settings.form);
    let terms = Terms { keys: format::Keys::of(&keys), form, allow, rate: settings.rate, answer };
    Ok(Made { upstreams, terms })
}

/// The policies: those of `[distributor.policy]`, and each upstream under its own name.
fn policies(
    config: &Config,
    settings: &DistributorServer,
    written: &WrittenPicks,
    upstreams: &HashMap<String, Arc<Upstream>>,
) -> anyhow::Result<Policies> {
    let mut policies = Policies::new();
    for (name, upstream) in &config.upstream {
        let Some(made) = upstreams.get(name) else { continue };
        policies.insert(name.clone(), Policy::new(made.clone(), written.of_rule(&upstream.pick, config)));
    }
    for (name, rule) in &settings.policy {
        let Some((made, upstream)) = upstreams.get(&rule.upstream).zip(config.upstream.get(&rule.upstream))
        else {
            bail!("[distributor.policy.{name}] names the unknown upstream {}", rule.upstream);
        };
        let pick = rule.pick.as_ref().unwrap_or(&upstream.pick);
        policies.insert(name.clone(), Policy::new(made.clone(), written.of_rule(pick, config)));
    }
    Ok(policies)
}

fn answer(policies: &Policies, unknown: &Seldom, question: &Question<'_>) -> Answer {
    match policies.get(question.policy) {
        Some(policy) => policy.answer(question),
        None => {
            if unknown.is_due() {
                let mut known: Vec<&str> = policies.keys().map(String::as_str).collect();
                known.sort_unstable();
                // The name is a stranger's: escaped, and a question bounds it.
                tracing::warn!(policy = ?question.policy, ?known, "a question names an unknown policy");
            }
            Answer::Nothing
        }
    }
}

/// Tends what is new. What it takes the place of ends by itself.
fn tend(
    upstreams: &HashMap<String, Arc<Upstream>>,
    before: &HashMap<String, Arc<Upstream>>,
    runtime: &Handle,
) {
    for (name, upstream) in upstreams {
        runtime.spawn(upstream.tend());
        runtime.spawn(upstream.watch(Arc::new(|_| None)));
        if !upstream.is_checked() && !before.contains_key(name) {
            let upstream = upstream.clone();
            runtime.spawn(async move { upstream.probe(None).await });
        }
    }
}
