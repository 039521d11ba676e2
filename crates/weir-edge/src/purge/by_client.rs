//! `PURGE url` of a client that may purge.

use http::header::ALLOW;
use http::{HeaderValue, StatusCode};
use tokio::sync::oneshot;
use weir_clock as clock;
use weir_store::{Force, Stamp, Unwritten};

use super::{PurgeOrder, PurgeTarget, marks};
use crate::exchange::Exchange;
use crate::local::{self, Reply};
use crate::plan::Route;
use crate::response::Response;
use weir_fill::events;

/// The answer to a client that may not purge.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Purges the request's own URL, in both schemes, if the client may. Answers once the mark is durable.
pub(crate) async fn purge(exchange: &mut Exchange<'_, '_>, route: &Route) -> Response {
    if !exchange.client().is_some_and(|client| route.purgers.contains(&client)) {
        return refused(exchange);
    }
    let url = format!("{}{}", exchange.request.host.as_str(), exchange.path_and_query());
    let order = PurgeOrder { target: PurgeTarget::Url(url), force: Force::Hard };
    let marks = match marks(&exchange.running.plan, &order) {
        Ok(marks) => marks,
        Err(sentence) => {
            let reply = Reply::error(StatusCode::BAD_REQUEST, "purge-malformed", &sentence);
            return local::answer(exchange, reply);
        }
    };
    let (done, written) = oneshot::channel();
    let acknowledge = move |result: Result<Stamp, Unwritten>| drop(done.send(result));
    exchange.core.shared.store.purge(&marks, clock::now(), Box::new(acknowledge));
    events::report_purge(&exchange.core.shared.observatory.events, &format!("{:?}", order.target), "request");
    let reply = match written.await {
        Ok(Ok(stamp)) => purged(stamp),
        Ok(Err(error)) => unwritten(&error.to_string()),
        Err(_) => unwritten("the ledger's thread has ended"),
    };
    local::answer(exchange, reply)
}

fn refused(exchange: &mut Exchange<'_, '_>) -> Response {
    let text = "this client may not purge here";
    let mut reply = Reply::error(StatusCode::METHOD_NOT_ALLOWED, "purge-refused", text);
    reply.headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    local::answer(exchange, reply)
}

fn purged(stamp: Stamp) -> Reply {
    let body = format!("purged: mark {}\n", stamp.number());
    Reply::line(StatusCode::OK, "purged", body)
}

fn unwritten(why: &str) -> Reply {
    let text = format!("purged until a restart only: {why}");
    Reply::error(StatusCode::INTERNAL_SERVER_ERROR, "ledger-unwritten", &text)
}
