//! Origins between the control plane and the edge: what is listed, changed and kept of them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_config::nearest;
use weir_control::{
    KeptOrigins, OriginAct, OriginChange, OriginChanged, OriginOrder, OriginRefusal, OriginShown, OriginsOf,
};
use weir_edge::{Edge, OriginError};
use weir_upstream::affinity::suffix::is_node;
use weir_upstream::{
    Adjustment, Adjustments, AgentSnapshot, Change, ChangeError, CheckSnapshot, Order, OriginListed, Role,
    name_of,
};

/// What operators have changed, by upstream.
pub(crate) type Changed = HashMap<String, Adjustments>;

/// What is kept of changes of origins.
pub(crate) struct Origins {
    file: KeptOrigins,
    /// Held while an origin is changed.
    kept: Mutex<Changed>,
    /// Whether an upgrade has taken down what is changed.
    is_frozen: AtomicBool,
}

impl Origins {
    /// Reads what is kept in a state folder. Blocks.
    pub(crate) fn open(state: &Path) -> Origins {
        let (file, changes) = KeptOrigins::open(state);
        Origins { file, kept: Mutex::new(changed(changes)), is_frozen: AtomicBool::new(false) }
    }

    /// What is kept.
    pub(crate) fn kept(&self) -> Changed {
        self.kept.lock().clone()
    }

    /// What operators have changed. Nothing is changed from then on.
    pub(crate) fn freeze(&self, edge: &Edge) -> Changed {
        let _kept = self.kept.lock();
        self.is_frozen.store(true, Ordering::SeqCst);
        edge.adjustments()
    }

    /// Takes changes again after [`Origins::freeze`].
    pub(crate) fn thaw(&self) {
        self.is_frozen.store(false, Ordering::SeqCst);
    }

    /// The origins of each upstream.
    pub(crate) fn list(&self, edge: &Edge) -> Vec<OriginsOf> {
        let (kept, now) = (self.kept.lock().clone(), edge.adjustments());
        let all = edge.origins().into_iter().map(|upstream| {
            let is_kept = |origin: &str| {
                let of = |all: &Changed| all.get(&upstream.name).and_then(|all| all.get(origin)).cloned();
                of(&now).is_some() && of(&now) == of(&kept)
            };
            let shown = |origin: &OriginListed| shown(origin, is_kept(&origin.name));
            OriginsOf {
                origins: upstream.origins.iter().map(shown).collect(),
                upstream: upstream.name.clone(),
                panic: upstream.is_panicking,
            }
        });
        all.collect()
    }

    /// Changes an origin, and keeps that where it is to be kept. Blocks.
    pub(crate) fn change(&self, edge: &Edge, order: &OriginOrder) -> Result<OriginChanged, OriginRefusal> {
        let mut kept = self.kept.lock();
        if self.is_frozen.load(Ordering::SeqCst) {
            let why = "an upgrade is under way; order it again once it is done".to_owned();
            return Err(OriginRefusal::Contradiction(why));
        }
        let OriginOrder { upstream, origin, keep, .. } = order;
        let is_kept = |name: &String| kept.get(upstream).is_some_and(|all| all.contains_key(name));
        let name = match edge.change_origin(upstream, origin, wanted(order)?) {
            Ok(name) => name,
            // It is gone already, and would return with a restart.
            Err(OriginError::Change(ChangeError::Unknown { .. }) | OriginError::NoUpstream { .. })
                if *keep && order.act.ends() && is_kept(&name_of(origin)) =>
            {
                name_of(origin)
            }
            Err(error) => return Err(refusal(error)),
        };
        let now = edge.adjustments();
        let now = now.get(upstream).and_then(|all| all.get(&name)).cloned();
        let before = kept.get(upstream).and_then(|all| all.get(&name)).cloned();
        let mut warnings = Vec::new();
        if *keep {
            let mut next = kept.clone();
            let of_upstream = next.entry(upstream.clone()).or_default();
            match now {
                Some(now) => drop(of_upstream.insert(name.clone(), now)),
                None => drop(of_upstream.remove(&name)),
            }
            self.file.replace(changes(&next)).map_err(OriginRefusal::Unkept)?;
            *kept = next;
        } else if before.is_some() && before != now {
            warnings.push(format!(
                "an earlier change of {name} is kept and returns with a restart; --keep ends that"
            ));
        }
        drop(kept);
        let listed = self.list(edge).into_iter().find(|all| all.upstream == *upstream).unwrap_or_default();
        if !listed.origins.iter().any(|origin| origin.state == "ready") {
            warnings.push(format!("no origin of {upstream} takes its share of the requests now"));
        }
        // A name may stand for several addresses; then no single one is shown.
        let origin = listed.origins.into_iter().find(|shown| shown.origin == name);
        Ok(OriginChanged { upstream: upstream.clone(), origin, warnings })
    }
}

fn wanted(order: &OriginOrder) -> Result<Change, OriginRefusal> {
    Ok(match order.act {
        OriginAct::Add => {
            let (weight, role) = (order.weight, order.backup.then_some(Role::Backup));
            Change::Add { weight, role, id: order.id.clone() }
        }
        OriginAct::Drain => Change::Order(Order::Drain),
        OriginAct::Ready => Change::Order(Order::Ready),
        OriginAct::Maint => Change::Order(Order::Maintenance),
        OriginAct::Remove => Change::Remove,
        OriginAct::Forget => Change::Forget,
        OriginAct::Weight => Change::Weight(
            order.weight.ok_or_else(|| OriginRefusal::Unfit("name the new weight".to_owned()))?,
        ),
    })
}

fn refusal(error: OriginError) -> OriginRefusal {
    let message = error.to_string();
    match error {
        OriginError::NoUpstream { name, known } => unknown(message, &name, &known),
        OriginError::Change(ChangeError::Unknown { origin, known, .. }) => unknown(message, &origin, &known),
        OriginError::Change(ChangeError::Address(_)) => OriginRefusal::Unfit(message),
        OriginError::Change(ChangeError::Contradiction(_)) => OriginRefusal::Contradiction(message),
    }
}

/// A refusal that names what was probably meant, or all that there is.
fn unknown(message: String, word: &str, known: &[String]) -> OriginRefusal {
    const SHOWN_MAX: usize = 8;
    let help = match nearest(word, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => String::new(),
        None if known.len() <= SHOWN_MAX => format!("there are {}", known.join(", ")),
        None => "see `weir origins` for their names".to_owned(),
    };
    OriginRefusal::Unknown { message, help }
}

fn shown(listed: &OriginListed, kept: bool) -> OriginShown {
    let OriginListed { name, id, weight, role, share, is_empty, differences, reason, .. } = listed.clone();
    let shown = OriginShown {
        origin: name,
        of: listed.of.clone(),
        id,
        state: "removed".to_owned(),
        reason,
        share,
        weight,
        backup: role == Role::Backup,
        empty: is_empty,
        differences,
        failing: listed.failing.clone(),
        last_session_ago_s: listed.unfollowed.map(|ago| ago.as_secs()),
        kept,
        ..OriginShown::default()
    };
    let Some(now) = listed.snapshot.clone() else { return shown };
    OriginShown {
        state: now.standing.word().to_owned(),
        in_flight: now.in_flight,
        streams: now.streams,
        requests: now.requests,
        latency_ms: Some(now.latency.as_secs_f64() * 1000.0).filter(|ms| *ms > 0.0),
        failures: now.failures,
        check: now.check.map(|check| check_said(&check)),
        agent: now.agent.and_then(|agent| agent_said(&agent)),
        ..shown
    }
}

/// What the agent of an origin changes; `None` where it changes nothing.
fn agent_said(agent: &AgentSnapshot) -> Option<String> {
    let mut said = Vec::new();
    said.extend((agent.percent != 100).then(|| format!("{}%", agent.percent)));
    said.extend(agent.connections.map(|connections| format!("maxconn {connections}")));
    said.extend(agent.is_gone.then(|| "says nothing now".to_owned()));
    (!said.is_empty()).then(|| said.join(", "))
}

/// What the checks of an origin say.
fn check_said(check: &CheckSnapshot) -> String {
    let took = check.last.as_ref().map(|last| format!(" in {:.1} ms", last.took.as_secs_f64() * 1000.0));
    format!(
        "checks: {}{}, {} of {} failed",
        check.state,
        took.unwrap_or_default(),
        check.failed,
        check.passed + check.failed
    )
}

/// Changes as they are kept and handed over.
pub(crate) fn changes(all: &Changed) -> Vec<OriginChange> {
    let of = |upstream: &String, origin: &String, adjustment: &Adjustment| OriginChange {
        upstream: upstream.clone(),
        origin: origin.clone(),
        added: adjustment.added.map(|role| match role {
            Role::Primary => "primary".to_owned(),
            Role::Backup => "backup".to_owned(),
        }),
        id: adjustment.id.clone(),
        removed: adjustment.is_removed,
        weight: adjustment.weight,
        order: order_word(adjustment.order).map(str::to_owned),
    };
    let mut flat: Vec<OriginChange> = all
        .iter()
        .flat_map(|(upstream, all)| all.iter().map(|(origin, adjustment)| of(upstream, origin, adjustment)))
        .collect();
    flat.sort_by(|one, other| (&one.upstream, &one.origin).cmp(&(&other.upstream, &other.origin)));
    flat
}

/// The word of an order; `None` where there is none.
pub(crate) fn order_word(order: Order) -> Option<&'static str> {
    match order {
        Order::Ready => None,
        Order::Drain => Some("drain"),
        Order::Maintenance => Some("maint"),
    }
}

/// The order of a word.
pub(crate) fn order(word: Option<&str>) -> Order {
    match word {
        Some("drain") => Order::Drain,
        Some("maint") => Order::Maintenance,
        _ => Order::Ready,
    }
}

/// The changes that were kept or handed over. Words that this program does not know change nothing.
pub(crate) fn changed(changes: Vec<OriginChange>) -> Changed {
    let mut all = Changed::new();
    for change in changes {
        let adjustment = Adjustment {
            added: change.added.map(|role| if role == "backup" { Role::Backup } else { Role::Primary }),
            id: change.id.filter(|id| is_node(id)),
            is_removed: change.removed,
            weight: change.weight.filter(|weight| (1..=1000).contains(weight)),
            order: order(change.order.as_deref()),
        };
        if adjustment != Adjustment::default() {
            all.entry(change.upstream).or_default().insert(change.origin, adjustment);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let all = [
            Adjustment { added: Some(Role::Backup), weight: Some(3), ..Adjustment::default() },
            Adjustment { added: Some(Role::Primary), id: Some("n1".to_owned()), ..Adjustment::default() },
            Adjustment { is_removed: true, ..Adjustment::default() },
            Adjustment { order: Order::Drain, ..Adjustment::default() },
            Adjustment { order: Order::Maintenance, weight: Some(1000), ..Adjustment::default() },
        ];
        let of_main = all.into_iter().enumerate().map(|(number, all)| (format!("http://o{number}:80"), all));
        let all = Changed::from([("main".to_owned(), of_main.collect())]);
        assert_eq!(changed(changes(&all)), all);
        let foreign =
            OriginChange { weight: Some(0), order: Some("dance".to_owned()), ..OriginChange::default() };
        assert_eq!(changed(vec![foreign]), Changed::new());
    }
}
