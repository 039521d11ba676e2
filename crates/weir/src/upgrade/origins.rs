//! What is known of origins goes from the old process to the new one in a file in memory: it has no limit, is
//! written as late as can be, and a process that does not know it ignores it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use weir_upstream::{CarriedAgent, CarriedCheck, CarriedFind, CarriedOrigin, Role};

use super::message::{HandedAgent, HandedFind, HandedOrigin, HandedOrigins};
use crate::origins::{self, Changed};
use crate::wire_up::Server;

/// What a new process begins with.
#[derive(Debug, Default)]
pub(crate) struct KnownOrigins {
    /// What operators have changed; `None` where the old process says nothing of it.
    pub(crate) changed: Option<Changed>,
    pub(crate) carried: HashMap<String, Vec<CarriedOrigin>>,
}

/// An empty file.
pub(super) fn file() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("weir-origins", MemfdFlags::CLOEXEC)?))
}

/// Writes what the process knows. No origin is changed from then on.
pub(super) fn write(file: &File, server: &Server) -> io::Result<()> {
    let changed = server.origins.freeze(&server.edge);
    let states = server
        .edge
        .carried()
        .into_iter()
        .flat_map(|(upstream, all)| all.into_iter().map(move |carried| handed(&upstream, carried)));
    let handed = HandedOrigins { changes: origins::changes(&changed), states: states.collect() };
    file.write_all_at(&serde_json::to_vec(&handed)?, 0)
}

fn handed(upstream: &str, carried: CarriedOrigin) -> HandedOrigin {
    let times = carried.ejected;
    HandedOrigin {
        upstream: upstream.to_owned(),
        origin: carried.name,
        ejected_ms: times.map(|(left, _)| milliseconds(left)),
        backoff_ms: times.map(|(_, backoff)| milliseconds(backoff)),
        down: carried.is_down,
        check: carried.check.map(|check| check_word(check).to_owned()),
        agent: carried.agent.map(|agent| HandedAgent {
            order: origins::order_word(agent.order).map(str::to_owned),
            down: agent.is_down,
            percent: Some(agent.percent).filter(|percent| *percent != 100),
            connections: agent.connections,
            line: agent.line,
            reason: agent.reason,
        }),
        found: carried.found.map(|found| HandedFind {
            of: found.of,
            at: found.at.to_string(),
            weight: found.weight,
            backup: found.role.map(|role| role == Role::Backup),
            gone_ms: found.gone_for.map(milliseconds),
        }),
        latency_us: u64::try_from(carried.latency.as_micros()).ok().filter(|us| *us > 0),
    }
}

fn check_word(check: CarriedCheck) -> &'static str {
    match check {
        CarriedCheck::Assumed => "assumed",
        CarriedCheck::New => "new",
        CarriedCheck::Up => "up",
        CarriedCheck::Down => "down",
    }
}

/// What the words of another process mean; those that this one does not know mean nothing.
fn carried(state: HandedOrigin) -> CarriedOrigin {
    let backoff = state.backoff_ms.map(Duration::from_millis);
    let checks = [CarriedCheck::Assumed, CarriedCheck::New, CarriedCheck::Up, CarriedCheck::Down];
    CarriedOrigin {
        name: state.origin,
        ejected: state.ejected_ms.map(Duration::from_millis).zip(backoff),
        is_down: state.down,
        check: state.check.and_then(|word| checks.into_iter().find(|check| check_word(*check) == word)),
        agent: state.agent.map(|agent| CarriedAgent {
            order: origins::order(agent.order.as_deref()),
            is_down: agent.down,
            percent: agent.percent.unwrap_or(100),
            connections: agent.connections,
            line: agent.line,
            reason: agent.reason,
        }),
        found: state.found.and_then(|found| {
            let role = |is_backup| if is_backup { Role::Backup } else { Role::Primary };
            Some(CarriedFind {
                of: found.of,
                at: found.at.parse().ok()?,
                weight: found.weight,
                role: found.backup.map(role),
                gone_for: found.gone_ms.map(Duration::from_millis),
            })
        }),
        latency: Duration::from_micros(state.latency_us.unwrap_or(0)),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the old process knows. What cannot be read is logged, and counts as unknown.
pub(crate) fn read(file: Option<OwnedFd>) -> KnownOrigins {
    let Some(file) = file.map(File::from) else { return KnownOrigins::default() };
    let handed = content(&file).and_then(|bytes| Ok(serde_json::from_slice::<HandedOrigins>(&bytes)?));
    let handed = match handed {
        Ok(handed) => handed,
        Err(error) => {
            tracing::warn!(%error, "cannot read what the running Weir knows of origins");
            return KnownOrigins::default();
        }
    };
    let mut all: HashMap<String, Vec<CarriedOrigin>> = HashMap::new();
    for state in handed.states {
        all.entry(state.upstream.clone()).or_default().push(carried(state));
    }
    KnownOrigins { changed: Some(origins::changed(handed.changes)), carried: all }
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> KnownOrigins {
        let file = file().unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        read(Some(file.into()))
    }

    #[test]
    fn what_is_handed_over_is_what_is_known() {
        let find = CarriedFind {
            of: "http://a.test:80".to_owned(),
            at: "[::1]:80".parse().unwrap(),
            weight: Some(3),
            role: Some(Role::Backup),
            gone_for: Some(Duration::from_millis(7)),
        };
        let agent = CarriedAgent {
            order: weir_upstream::Order::Maintenance,
            is_down: true,
            percent: 50,
            connections: Some(30),
            line: "maint down 50% # disk".to_owned(),
            reason: "disk".to_owned(),
        };
        let known = CarriedOrigin {
            name: "http://a.test@[::1]:80".to_owned(),
            ejected: Some((Duration::from_millis(5), Duration::from_millis(9))),
            is_down: true,
            check: Some(CarriedCheck::Down),
            agent: Some(agent),
            found: Some(find),
            latency: Duration::from_micros(1234),
        };
        for known in [known.clone(), CarriedOrigin { name: known.name, ..CarriedOrigin::default() }] {
            let text = serde_json::to_string(&handed("main", known.clone())).unwrap();
            assert_eq!(carried(serde_json::from_str(&text).unwrap()), known);
        }
    }

    #[test]
    fn words_of_another_version_mean_nothing_and_break_nothing() {
        let known = of(r#"{"changes":[{"upstream":"main","origin":"http://a:80","order":"drain","mood":1}],
            "states":[{"upstream":"main","origin":"http://a:80","ejected_ms":5,"backoff_ms":7,"x":[]}],
            "weather":"fine"}"#);
        assert_eq!(known.changed.unwrap()["main"].len(), 1);
        let times = (Duration::from_millis(5), Duration::from_millis(7));
        assert_eq!(known.carried["main"][0].ejected, Some(times));
        assert!(of("").changed.is_none() && of("[").carried.is_empty());
        assert!(read(None).changed.is_none());
    }
}
