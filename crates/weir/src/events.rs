//! Events as the configuration asks for them, and the states of volumes and origins for their readers.

use std::sync::{Arc, Weak};

use weir_config::model;
use weir_observe::{EventKind, EventSettings, EventTarget};
use weir_upstream::Standing;

use crate::wire_up::Server;

/// The delivery of events that a configuration asks for; `None` without events.
pub(crate) fn settings(events: &model::Events) -> Option<EventSettings> {
    let target = match (&events.file, &events.socket) {
        (Some(file), _) => EventTarget::File(file.0.clone()),
        (None, Some(socket)) => EventTarget::Socket(socket.0.clone()),
        (None, None) => return None,
    };
    let all = [
        (model::EventKind::Stored, EventKind::Stored),
        (model::EventKind::Revalidated, EventKind::Revalidated),
        (model::EventKind::Evicted, EventKind::Evicted),
        (model::EventKind::Expired, EventKind::Expired),
        (model::EventKind::Purged, EventKind::Purged),
        (model::EventKind::Volume, EventKind::Volume),
        (model::EventKind::Origin, EventKind::Origin),
        (model::EventKind::Certificate, EventKind::Certificate),
        (model::EventKind::Retained, EventKind::Retained),
    ];
    let wanted = all.iter().filter(|(kind, _)| events.kinds.is_empty() || events.kinds.contains(kind));
    let kinds = wanted.fold(0, |kinds, (_, kind)| kinds | *kind as u32);
    let buffer = usize::try_from(events.buffer.get()).unwrap_or(usize::MAX);
    Some(EventSettings { target, buffer, kinds })
}

/// Gives the events the states of volumes and origins.
pub(crate) fn watch(server: &Arc<Server>) {
    let weak = Arc::downgrade(server);
    server.observatory.events.watch(Box::new(move || states(&weak)));
}

type State = (EventKind, Vec<(&'static str, String)>, String, String);

fn states(server: &Weak<Server>) -> Vec<State> {
    let Some(server) = server.upgrade() else { return Vec::new() };
    let mut states: Vec<State> = Vec::new();
    for volume in server.edge.store().volumes() {
        let state = format!("{:?}", volume.state).to_lowercase();
        states.push((EventKind::Volume, vec![("volume", volume.name.to_string())], state, String::new()));
    }
    for upstream in server.edge.upstreams() {
        let (state, why) = match upstream.is_panicking {
            true => ("panic", "too many origins are ejected: all are used"),
            false => ("calm", ""),
        };
        let names = vec![("upstream", upstream.name.clone())];
        states.push((EventKind::Origin, names, state.to_owned(), why.to_owned()));
        for origin in upstream.origins {
            let is_empty = origin.in_flight == 0 && origin.streams == 0;
            let state = match origin.standing {
                Standing::Ready => "up",
                Standing::Draining if is_empty => "empty",
                standing => standing.word(),
            };
            let names = vec![("upstream", upstream.name.clone()), ("origin", origin.name)];
            states.push((EventKind::Origin, names, state.to_owned(), origin.why));
        }
    }
    states
}
