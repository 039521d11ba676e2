//! Ends of a Weir that has something on a volume.

use std::time::Duration;

use weir_testkit::{Weir, until};

/// Longer than anything stored waits to be made durable, which is done twice a second.
pub const SYNCED_WITHIN: Duration = Duration::from_millis(2500);
/// Longer than a Weir takes to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until what was stored so far is on the volume and durable.
pub fn settle(weir: &Weir) {
    until("nothing is fetched", || weir.metric("weir_fills_running") == Some(0.0));
    // Gaps are not counted as fills.
    let connections = |kind: &str| weir.metric(&format!("weir_origin_connections_{kind}"));
    until("no origin is asked", || connections("open") == connections("idle"));
    let written = || weir.metric("weir_volume_written_body_bytes_total");
    let mut before = written();
    until("nothing is written", || {
        std::thread::sleep(SYNCED_WITHIN);
        let now = written();
        std::mem::replace(&mut before, now) == now
    });
}

/// Ends Weir by a signal, and starts it again with what it was started with.
pub fn restart(weir: &mut Weir, signal: &str) {
    weir.signal(signal);
    assert!(weir.wait(PATIENCE).is_some(), "{signal} does not end it");
    weir.start_again();
}
