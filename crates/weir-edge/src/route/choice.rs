//! The upstream that a map chooses: the route is compiled once for each of them. What the map says is in the
//! key, so that all that is done for an object is done at the upstream that answered.

use std::collections::HashMap;

use weir_config::{Action, ResolvedRoute};
use weir_policy::value::{Style, Value};

use crate::values::OfRequest;

/// The routes to choose from.
#[derive(Debug)]
pub(crate) struct Choice<R> {
    by: Value,
    /// By the upstream's name.
    routes: HashMap<Vec<u8>, R>,
}

impl<R> Choice<R> {
    /// Compiles the routes of a choice; none where nothing is chosen.
    pub(crate) fn compile(
        resolved: &ResolvedRoute,
        mut compile: impl FnMut(&ResolvedRoute) -> R,
    ) -> Option<Box<Choice<R>>> {
        let Action::Choose { by, upstreams } = &resolved.action else { return None };
        let routes = upstreams.iter().map(|(upstream, host)| {
            let action = Action::Forward { upstream: upstream.clone(), host: host.clone() };
            let route = compile(&ResolvedRoute { action, ..resolved.clone() });
            (upstream.clone().into_bytes(), route)
        });
        Some(Box::new(Choice { by: by.clone(), routes: routes.collect() }))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &R> {
        self.routes.values()
    }

    /// The route for a request. The check of the configuration makes sure that there is one.
    pub(super) fn of(&self, known: &OfRequest<'_>) -> Option<&R> {
        self.routes.get(&self.by.render(known, Style::Plain))
    }
}
