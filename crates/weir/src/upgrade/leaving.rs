//! The rest of the life of a process that another has replaced: it gives its cache back, says what it still
//! holds, and ends once its requests have, its time is over, or it is told to.
//!
//! It ends at once where the process that has taken over is gone: nobody takes its connections and marks any
//! more, and a service manager starts nothing again while it lives.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::message::{Holds, Message};
use super::old::{NewProcess, Told, Upgrader};
use crate::process::{Signals, Wish};
use crate::wire_up::FAREWELL_PATIENCE;

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(250);
/// What has not changed is said again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(5);

/// How many signals make a replaced process end before its requests have finished.
const SIGNALS_TO_END_AT_ONCE: usize = 2;

/// Until when this process may live, and what it has said.
struct Leaving {
    until: Instant,
    /// The process that has taken over is gone.
    is_alone: bool,
    said: Option<(Holds, Instant)>,
}

impl Leaving {
    fn end_within(&mut self, most: Duration) {
        self.until = self.until.min(weir_clock::mono() + most);
    }

    fn is_over(&self) -> bool {
        self.is_alone || weir_clock::mono() >= self.until
    }

    /// Says what is held, if that is news.
    fn say(&mut self, connections: usize, upgrader: &Upgrader) {
        let new_process = upgrader.new_process.lock().clone();
        let Some(NewProcess { link, .. }) = new_process.filter(|new| new.level > 0) else { return };
        let now = weir_clock::mono();
        let left = self.until.saturating_duration_since(now);
        let holds = Holds {
            connections: connections as u64,
            bytes: upgrader.server.edge.store().lower_ceiling(),
            ends_in_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        };
        let is_known = self.said.is_some_and(|(said, at)| {
            let until = at + Duration::from_millis(said.ends_in_ms);
            let is_sooner = self.until + LOOK < until;
            (said.connections, said.bytes) == (holds.connections, holds.bytes)
                && !is_sooner
                && now < at + SAY_AGAIN
        });
        // Where the other is busy it hears it later.
        if !is_known && link.say_now(&Message::Holds(holds)).is_ok() {
            self.said = Some((holds, now));
        }
    }
}

/// Lets the requests under way finish, and ends.
pub(crate) async fn leave(upgrader: &Arc<Upgrader>, mut signals: Signals) -> ExitCode {
    let server = &upgrader.server;
    let patience = server.upgrade_patience();
    tracing::info!("replaced: requests under way have {} s", patience.as_secs());
    let until = weir_clock::mono() + patience;
    let mut leaving = Leaving { until, is_alone: false, said: None };
    let giving = Arc::clone(server);
    // It does not panic, and nobody ends it.
    let _ = tokio::task::spawn_blocking(move || giving.give_back()).await;
    leaving.say(server.edge.connections(), upgrader);
    let handing = Arc::clone(upgrader);
    let handing = tokio::task::spawn_blocking(move || {
        handing.hand_on_others();
        handing.hand_over_volumes();
    });
    let mut told = upgrader.told.lock().take();
    let (mut looks, mut signals_left) = (tokio::time::interval(LOOK), SIGNALS_TO_END_AT_ONCE);
    loop {
        tokio::select! {
            _ = looks.tick() => {
                let connections = server.edge.connections();
                leaving.say(connections, upgrader);
                let is_done = connections == 0 && server.before.is_empty();
                if handing.is_finished() && (is_done || leaving.is_over()) {
                    break;
                }
            }
            told = next(&mut told), if !leaving.is_alone => match told {
                Some(Told::EndWithin(most)) => leaving.end_within(most),
                Some(Told::ReopenLogs) => server.reopen_logs(),
                None => {
                    tracing::warn!("the process that has taken over is gone: this one ends");
                    leaving.is_alone = true;
                }
            },
            wish = signals.next() => match wish {
                // All processes of a service may get one that is meant for the new one.
                Wish::End if signals_left > 1 => {
                    signals_left -= 1;
                    leaving.end_within(server.patience());
                }
                Wish::End => return ExitCode::FAILURE,
                Wish::ReopenLogs => server.reopen_logs(),
                Wish::Reload | Wish::Upgrade => {}
            },
        }
    }
    if server.edge.connections() == 0 {
        return ExitCode::SUCCESS;
    }
    tracing::info!(connections = server.edge.connections(), "what is still under way is ended");
    let ending = Arc::clone(server);
    let mut ended = tokio::task::spawn_blocking(move || ending.edge.end_requests(FAREWELL_PATIENCE));
    loop {
        tokio::select! {
            _ = &mut ended => return ExitCode::SUCCESS,
            wish = signals.next() => if wish == Wish::End { return ExitCode::FAILURE },
        }
    }
}

/// What the new process says next; `None` once it has gone.
async fn next(told: &mut Option<tokio::sync::mpsc::UnboundedReceiver<Told>>) -> Option<Told> {
    match told {
        Some(told) => told.recv().await,
        None => None,
    }
}
