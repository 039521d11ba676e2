//! What `weir status` says of origins.

use serde_json::Value;
use weir_testkit::Weir;

/// The upstreams.
pub(super) fn upstreams(weir: &Weir) -> Vec<Value> {
    let output = weir.command(&["status", "--json"]);
    let status: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    status["upstreams"].as_array().unwrap().clone()
}

/// The origin of this number of the first upstream.
pub(super) fn origin(weir: &Weir, number: usize) -> Value {
    upstreams(weir)[0]["origins"][number].clone()
}
