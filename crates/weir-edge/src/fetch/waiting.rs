//! Waiting for the head of a fill, which this request leads or joined. Its interim responses go to
//! the lead (RFC 9110 §15.2).

use std::time::Instant;

use tokio::sync::mpsc;
use weir_upstream::{Interim, Whose};

use crate::exchange::Exchange;
use crate::pass;
use weir_fill::task::Led;
use weir_fill::{FillHead, ReaderGuard};
use weir_front::{Client, message};

/// How waiting for a head ended.
pub(super) enum Waited {
    Head(FillHead),
    Late,
    Gone,
}

/// Waits for the head until the given time, or for as long as its fill does.
pub(super) async fn wait_head(
    client: &mut dyn Client,
    guard: &ReaderGuard,
    until: Option<Instant>,
) -> Waited {
    tokio::select! {
        biased;
        head = guard.fill().wait_head(guard.core()) => Waited::Head(head),
        () = passed_by(until) => Waited::Late,
        () = message::gone(client) => Waited::Gone,
    }
}

/// Drives the fill up to its head, until the given time. Interim responses go to the client as they come.
pub(super) async fn lead_head(
    exchange: &mut Exchange<'_, '_>,
    guard: &ReaderGuard,
    (led, interims): (&mut Led, &mut mpsc::UnboundedReceiver<Box<Interim>>),
    until: Option<Instant>,
) -> Waited {
    let mut late = std::pin::pin!(passed_by(until));
    let mut waited = None;
    loop {
        // An interim and a final head may arrive in one piece: they are read in order.
        while let Ok(interim) = interims.try_recv() {
            if pass::send_interim(exchange, &interim, Whose::Nobody).is_err() {
                return Waited::Gone;
            }
        }
        if let Some(waited) = waited {
            return waited;
        }
        tokio::select! {
            biased;
            head = led.head(guard.fill(), guard.core()) => waited = Some(Waited::Head(head)),
            Some(interim) = interims.recv() => {
                if pass::send_interim(exchange, &interim, Whose::Nobody).is_err() {
                    return Waited::Gone;
                }
            }
            () = &mut late => return Waited::Late,
            () = message::gone(&mut *exchange.client) => return Waited::Gone,
        }
    }
}

/// Ends at that time; never without one.
async fn passed_by(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        None => std::future::pending().await,
    }
}
