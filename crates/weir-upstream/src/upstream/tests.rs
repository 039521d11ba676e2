//! What a request sees while another roster is made.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::settings::{CheckAsk, CheckSettings};
use crate::tests::scripted::{get, settings};

/// A request that looks while another roster is made sees the old one, and is woken by the new one.
#[tokio::test]
async fn what_looks_while_a_roster_is_made_waits_no_longer_than_that() {
    let mut wanted = settings(&["http://a.example".to_owned()]);
    let every = Duration::from_secs(60);
    wanted.check = Some(CheckSettings { ask: CheckAsk::Connect, every, timeout: every, rise: 1, fall: 1 });
    let upstream = Upstream::added(wanted, Adjustments::new()).unwrap();
    let request = get("/");
    let mut waiting = pin!(upstream.known_roster(&request));
    let mut look = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(look().is_pending(), "no check was made");
    let changing = upstream.said.lock();
    upstream.roster.load().members[0].origin.forget_checks();
    assert!(look().is_pending(), "nothing has made another roster yet");
    drop(changing);
    let members = upstream.roster.load().members.clone();
    upstream.renew(members);
    let Poll::Ready(roster) = look() else { panic!("it waits for a change that has been") };
    assert_eq!(roster.awaits, Awaits::Nothing);
}
