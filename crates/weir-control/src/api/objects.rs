//! The operation that lists what is cached: at once, or as a stream that tells its progress first. It works
//! on a thread of its own, of low priority.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};
use weir_observe::plain_json;

use super::views::own_site;
use crate::answer::{self, Refusal, Waiting};
use crate::call::{Call, Caller};
use crate::control::Control;
use crate::data_plane::{ListOrder, Listing};
use crate::jobs::beside;
use crate::progress::{Ends, Progress};
use crate::query;
use crate::streams::Sending;
use crate::turns::{Kind, Turn};

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// A refusal that comes so soon is an answer of its own, and no line of a stream.
const REFUSED_WITHIN: Duration = Duration::from_millis(200);
/// The nice value of the thread: requests go first where both share a core.
const NICENESS: i32 = 10;

/// The place that is no volume.
const MEMORY: &str = "memory";

type Found = Result<Listing, String>;

/// What is cached; as a stream, lines of progress, then a line for each object, then the end.
pub(super) fn list(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let order = ordered(&control, &call)?;
        let progress = Arc::new(Progress::default());
        let mut found = begin(&control, &call.caller, order, &progress).await?;
        let Some(form) = call.form else {
            let found = found.await.unwrap_or_else(gone).map_err(Refusal::unfit)?;
            // Ten thousand objects are long to write.
            return beside(Turn::default(), move || answer::ok(&found)).await;
        };
        let at_once = timeout(REFUSED_WITHIN, &mut found).await.ok();
        let at_once = at_once.map(|found| found.unwrap_or_else(gone)).transpose().map_err(Refusal::unfit)?;
        let (sending, stream) = control.open_stream(&call.caller, form)?;
        tokio::spawn(follow(sending, progress, found, at_once));
        Ok(answer::stream(stream))
    })
}

fn gone(_: oneshot::error::RecvError) -> Found {
    Err("the search has panicked: see the log of the program".to_owned())
}

/// What the caller asks for, of its sites alone.
fn ordered(control: &Control, call: &Call) -> Result<ListOrder, Refusal> {
    let mut order = query::read(&call.query).map_err(Refusal::unfit)?;
    if call.caller.sites.is_some() {
        order.site = Some(own_site(control, &call.caller, order.site.as_deref())?);
        if let Some(prefix) = &order.prefix {
            call.caller.check_site(control.site_of_url(prefix).as_deref())?;
        }
        // What the whole Weir is made of is none of its business, so that it cannot name it either.
        if order.place.as_deref().is_some_and(|place| place != MEMORY) {
            return Err(Refusal::unfit("for a token of some sites the place is `memory`: leave others out"));
        }
    }
    Ok(order)
}

/// Begins the search, once it is the caller's turn.
async fn begin(
    control: &Arc<Control>,
    caller: &Caller,
    order: ListOrder,
    progress: &Arc<Progress>,
) -> Result<oneshot::Receiver<Found>, Refusal> {
    let turn = control.searches().take(caller.door, Kind::Done, &caller.identity).await?;
    let (say, found) = oneshot::channel();
    let (own, progress, is_limited) = (control.clone(), progress.clone(), caller.sites.is_some());
    let work = move || {
        let _turn = turn;
        // If the kernel refuses, both share the core.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let mut listing = own.list(&order, &progress);
        if let (Ok(listing), true) = (&mut listing, is_limited) {
            // What the whole Weir is made of is none of its business.
            listing.objects.iter_mut().for_each(|object| object.volume_name = None);
        }
        let _ = say.send(listing);
    };
    match std::thread::Builder::new().name("weir-search".to_owned()).spawn(work) {
        Ok(_) => Ok(found),
        Err(error) => {
            let message = format!("no thread for the search: {error}");
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
        }
    }
}

/// Sends the progress until the search has ended, then what it found. Ends the search if nobody reads.
async fn follow(
    mut sending: Sending,
    progress: Arc<Progress>,
    mut found: oneshot::Receiver<Found>,
    at_once: Option<Listing>,
) {
    let mut each = interval(PROGRESS_EVERY);
    each.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let found = match at_once {
        Some(listing) => Ok(listing),
        None => loop {
            tokio::select! {
                found = &mut found => break found.unwrap_or_else(gone),
                _ = each.tick() => {
                    let (done, total) = progress.now();
                    if !sending.put(&line(&json!({ "event": "progress", "done": done, "total": total }))) {
                        return progress.end(Ends::Cancelled);
                    }
                }
            }
        },
    };
    let (objects, end) = match found {
        Ok(Listing { objects, next, sum, walked }) => {
            (objects, json!({ "event": "end", "next": next, "sum": sum, "walked": walked }))
        }
        Err(message) => (Vec::new(), json!({ "event": "failed", "message": message })),
    };
    sending.put_all(objects.iter().map(line).chain([line(&end)])).await;
}

fn line(value: &impl Serialize) -> Vec<u8> {
    plain_json(value).unwrap_or_default()
}
