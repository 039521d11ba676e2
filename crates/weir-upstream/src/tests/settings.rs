//! Settings that contradict themselves.

use super::scripted::settings;
use crate::{Blame, Role, Upstream};

#[test]
fn settings_that_cannot_be() {
    let mut backups = settings(&["http://a.example"]);
    backups.origins[0].role = Role::Backup;
    let error = Upstream::new(backups).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.blame()),
        ("upstream test has no primary origin", Blame::Config)
    );
    let mut weightless = settings(&["http://a.example"]);
    weightless.origins[0].weight = 0;
    assert!(Upstream::new(weightless).is_err());
    let mut closed = settings(&["http://a.example"]);
    closed.bounds.connections_max = 0;
    assert!(Upstream::new(closed).is_err());
    let mut missing = settings(&["https://a.example"]);
    missing.tls.verify = crate::Verify::CaFile("/nonexistent/ca.pem".into());
    assert!(Upstream::new(missing).unwrap_err().to_string().starts_with("cannot read /nonexistent/ca.pem"));
}

#[test]
fn an_upstream_is_send_and_sync_and_so_are_its_futures() {
    fn check<T: Send + Sync>() {}
    fn sendable<T: Send>(_: T) {}
    check::<Upstream>();
    check::<crate::OriginBody>();
    check::<crate::OriginError>();
    let upstream = Upstream::new(settings(&["http://a.example"])).unwrap();
    sendable(upstream.send(super::scripted::get("/"), None));
    sendable(upstream.probe(None));
}
