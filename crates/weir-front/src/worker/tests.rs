//! A worker whose connections are no streams of bytes: the service answers, and clients by script take it.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode};
use weir_observe::{Observatory, Observer};
use weir_wire::{Limits, RequestReader};

use super::*;
use crate::limits::ClientLimits;
use crate::listen::{Clients, Trusted, seats};
use crate::message::{Done, End, Fields, Head, Late, PeerInfo, Refused, Request, Response, Trust};
use crate::out::testing::{Kind, Lies, Records, Scribed, Script, Scripted, Slow, Step};
use crate::out::{Extent, Sending};

/// Answers each request with the same body.
struct Answers {
    observer: Observer,
    clients: Arc<Clients>,
    script: Script,
    record: Records,
    done: RefCell<Vec<Done>>,
}

struct NoFields;

impl Late for NoFields {
    fn write(&self, _: &mut impl Fields) {}
}

impl Answers {
    fn answer(&self, status: StatusCode) -> Response<Answers> {
        Response {
            head: Head::Made(status, Box::new(HeaderMap::new())),
            late: NoFields,
            length: Some(self.script.bytes as u64),
            body: self.script.begin(&self.record),
            pace: None,
            upload: None,
            switch: None,
            must_close: false,
        }
    }
}

impl Service for Answers {
    type Plan = ();
    type Body = Scribed;
    type Pace = Slow;
    type Late = NoFields;
    type Note<'c> = &'c Request;

    fn plan(&self) {}

    fn begin<'c>(&'c self, (): &'c (), request: &'c mut Request) -> &'c Request {
        request
    }

    async fn call<'c>(
        &'c self,
        _: &mut &'c Request,
        _: &mut dyn crate::message::Client,
    ) -> Response<Answers> {
        self.answer(StatusCode::OK)
    }

    fn done(&self, _: &Request, done: &Done) {
        self.done.borrow_mut().push(*done);
    }

    fn named(&self, _: &Request) -> Option<Client> {
        None
    }

    fn refuse(&self, _: &Refused) -> Response<Answers> {
        self.answer(StatusCode::BAD_REQUEST)
    }

    fn refused(&self, _: &Refused, _: Peer, _: &Done) {}

    fn limits(&self) -> Arc<ClientLimits> {
        Arc::default()
    }

    fn trusted(&self) -> Arc<Trusted> {
        Arc::default()
    }

    fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    fn observer(&self) -> &Observer {
        &self.observer
    }

    fn charge_piece(&self, _: Option<Client>) -> Option<Box<dyn Any>> {
        None
    }

    fn is_draining(&self) -> bool {
        false
    }
}

/// A connection that has a request for each script, and rests then.
struct Scripts(Vec<(Kind, Vec<Step>)>, Records);

impl Scripts {
    async fn serve<S: Service>(
        self,
        worker: Rc<Worker<S>>,
        peer: Peer,
        state: Rc<ConnectionState>,
    ) -> Option<Box<Departure>> {
        let service = worker.service();
        let peer = Rc::new(PeerInfo::new(peer, Trust::Untrusted, service.limits(), None));
        for (kind, steps) in self.0 {
            worker.set_idle(&state, None);
            state.set_used();
            let mut text = BytesMut::from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = RequestReader::new(Limits::default()).read(&mut text).unwrap().unwrap();
            let mut request = Request::of_head(head, Rc::clone(&peer), clock::now());
            let plan = service.plan();
            let mut note = service.begin(&plan, &mut request);
            let mut sink = Scripted::new(kind, &steps, &self.1);
            let Response { head, length, mut body, mut pace, mut upload, .. } =
                service.call(&mut note, &mut sink).await;
            let status = head.status();
            let extent = Extent::choose(false, status.unwrap(), length);
            let mut sending = Sending::new(sink, extent, &mut body, &mut pace, &mut upload);
            let end = sending.rest().await;
            let done = Done { status, sent: sending.finish(end), ended: clock::mono() };
            service.done(note, &done);
            self.1.borrow_mut().closed = None;
            worker.set_idle(&state, Some(clock::mono()));
        }
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_need_not_be_a_stream_of_bytes() {
    let observatory = Observatory::start(1, &[]).unwrap();
    let record = Records::default();
    let service = Rc::new(Answers {
        observer: observatory.observer(0),
        clients: Arc::default(),
        script: Script::new(Lies::AtHand(10_000), 200_000),
        record: Rc::clone(&record),
        done: RefCell::default(),
    });
    let worker = Rc::new(Worker::new(Rc::clone(&service), Handshakes::new(0, Certificates::default())));
    let (held, seat) = (Rc::new(watch::Sender::new(0)), seats(1).remove(0));
    let takes = || vec![Step::Takes(10_000), Step::Rests(500)];
    let scripts = vec![(Kind::Window, takes()), (Kind::Socket, vec![]), (Kind::Chunks, takes())];
    let carrier = Scripts(scripts, Rc::clone(&record));
    let arrival = Arrival { carrier, peer: Peer::Itself, listener: 0, held: seat.hold(0), tried: 0 };
    let worked = async {
        receive(&worker, &held, arrival, |worker, scripts: Scripts, peer, state| {
            scripts.serve(worker, peer, state)
        });
        tokio::time::sleep(Duration::from_secs(2)).await;
        let sent = |done: &Done| (done.sent.end, done.sent.body_bytes);
        assert_eq!(service.done.borrow().iter().map(sent).collect::<Vec<_>>(), [(End::Whole, 200_000); 3]);
        assert_eq!(record.borrow().let_go.len(), 2);
        assert_eq!((*held.borrow(), seat.held()), (1, 1));
        // Its worker ends it as any other.
        worker.close_idle(false);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!((*held.borrow(), seat.held()), (0, 0));
    };
    LocalSet::new().run_until(worked).await;
}
