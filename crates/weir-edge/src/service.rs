//! The data plane as connections call it.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use weir_front::listen::{Clients, Peer, Trusted};
use weir_front::{Client, ClientLimits, Done, Refused, Request, Service};
use weir_observe::Observer;
use weir_wire::{Scheme, Target};

use crate::core::{Core, HeldPlan};
use crate::debug::Shown;
use crate::deliver::source::Source;
use crate::exchange::Note;
use crate::late::Late;
use crate::limit::Pace;
use crate::response::Response;
use crate::shared::Shared;
use crate::transform::client::client_of;
use crate::transform::request::scheme;
use crate::{debug, local, secured, walk, warm};

/// The core of a worker, whose ring it answers. It must be called within that worker's runtime.
pub(crate) fn of_worker(number: usize, shared: Arc<Shared>) -> Rc<Core> {
    let bells = shared.bells.clone();
    tokio::task::spawn_local(async move { bells.answer(number).await });
    let core = Rc::new(Core::new(number, shared));
    tokio::task::spawn_local(warm::attend(core.clone()));
    core
}

/// Makes a request ready for the walk. What its response shows of it.
pub(crate) fn prepare(plan: &HeldPlan, request: &mut Request) -> Shown {
    // The key and the variant are made from the fields that the origin gets.
    weir_policy::strip_named(&mut request.headers);
    let shown = debug::take(plan, request);
    secured::client_certificate(&plan.plan, request);
    if request.host.port().is_some() {
        let is_https = scheme(&request.headers, request.peer.trust, request.peer.scheme) == "https";
        let scheme = if is_https { Scheme::Https } else { Scheme::Http };
        request.host = std::mem::take(&mut request.host).under(scheme);
    }
    if let Target::Path(path) = &request.target
        && let Some(path) = path.without_dots()
    {
        request.target = Target::Path(path);
    }
    shown
}

impl Service for Core {
    type Plan = HeldPlan;
    type Body = Source;
    type Pace = Pace;
    type Late = Late;
    type Note<'c> = Note<'c>;

    fn plan(&self) -> HeldPlan {
        self.running()
    }

    fn begin<'c>(&'c self, plan: &'c HeldPlan, request: &'c mut Request) -> Note<'c> {
        let shown = prepare(plan, request);
        Note::begin(self, plan, request, shown)
    }

    async fn call<'c>(&'c self, note: &mut Note<'c>, client: &mut dyn Client) -> Response {
        walk::walk(note, client).await
    }

    fn done(&self, note: Note<'_>, done: &Done) {
        note.finish(done);
    }

    fn named(&self, request: &Request) -> Option<weir_share::Client> {
        let trusted = self.trusted();
        let client = client_of(request.peer.peer, &trusted, &request.headers)?;
        client.sharer().filter(|_| !trusted.contains(&client))
    }

    fn refuse(&self, why: &Refused) -> Response {
        self.observer.counters().request_begun();
        local::refuse(self, why)
    }

    fn refused(&self, why: &Refused, peer: Peer, done: &Done) {
        local::note_refusal(self, why, peer, done);
    }

    fn limits(&self) -> Arc<ClientLimits> {
        self.shared.running.load().limits.clone()
    }

    fn trusted(&self) -> Arc<Trusted> {
        self.shared.running.load().trusted.clone()
    }

    fn clients(&self) -> &Arc<Clients> {
        &self.shared.clients
    }

    fn observer(&self) -> &Observer {
        &self.observer
    }

    fn charge_piece(&self, client: Option<weir_share::Client>) -> Option<Box<dyn Any>> {
        let piece = self.shared.beside.take(client, &self.shared.store)?;
        Some(Box::new(piece))
    }

    fn settle(&self) -> bool {
        self.shared.store.settle()
    }

    fn is_draining(&self) -> bool {
        self.shared.is_draining()
    }
}
