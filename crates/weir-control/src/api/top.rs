//! The operation that shows what is asked for most, once or each second.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{MissedTickBehavior, interval};
use weir_observe::plain_json;

use super::live;
use crate::answer::{self, Refusal, Waiting};
use crate::call::{Call, Caller};
use crate::control::Control;
use crate::query::{self, TopWanted};
use crate::streams::Sending;
use crate::top::Top;

/// Between two lines of a stream.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What is asked for most now; as a stream, each second.
pub(super) fn show(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let wanted = query::read_top(&call.query).map_err(Refusal::unfit)?;
        let sites = live::sites(&control, &call, wanted.site.as_deref())?;
        let asked = Asked { control: control.clone(), caller: call.caller.clone(), wanted, sites };
        let Some(form) = call.form else {
            return Ok(answer::ok(&asked.now().await?));
        };
        let (sending, stream) = control.open_stream(&call.caller, form)?;
        tokio::spawn(asked.follow(sending));
        Ok(answer::stream(stream))
    })
}

/// A question, and its caller.
#[derive(Clone)]
struct Asked {
    control: Arc<Control>,
    caller: Caller,
    wanted: TopWanted,
    sites: Option<Vec<String>>,
}

impl Asked {
    /// The answer, worked out beside the runtime.
    async fn now(&self) -> Result<Top, Refusal> {
        let own = self.clone();
        tokio::task::spawn_blocking(move || own.worked_out()).await.map_err(|error| {
            let message = format!("the lists could not be read: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "lists", message)
        })
    }

    fn worked_out(self) -> Top {
        let Asked { control, caller, wanted, sites } = self;
        let mut top = Top::of(control.observatory(), &wanted, sites);
        top.jobs = control.jobs().list(&caller);
        if caller.sites.is_none() {
            top.volumes = control.inventory().volumes;
        }
        top
    }

    /// Sends an answer each second, until nobody reads.
    async fn follow(self, mut sending: Sending) {
        let mut each = interval(LINE_EVERY);
        each.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            each.tick().await;
            let Ok(top) = self.now().await else { return };
            if !sending.put(&plain_json(&top).unwrap_or_default()) {
                return;
            }
        }
    }
}
