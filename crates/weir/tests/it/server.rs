//! How scenarios start a Weir.

use weir_testkit::{Origin, Setup, Weir};

/// A Weir of the binary under test that is not started yet. `WEIR_BINARY` names another build, such as the
/// release.
pub fn setup() -> Setup {
    Setup::new(binary())
}

/// The binary under test.
pub fn binary() -> String {
    std::env::var("WEIR_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_weir").to_owned())
}

/// `weir run` in front of one origin.
pub fn before(origin: &Origin) -> Weir {
    setup().run(&origin.url())
}

/// A config of one site for every host, with one upstream named `main`.
pub type Server = weir_testkit::Server<Weir>;

/// A config in front of these origins.
pub fn server(origins: &[&Origin]) -> Server {
    Server::new(binary(), origins, Setup::run_config)
}

/// What `weir list --json` has printed: the objects, and the end.
pub fn listed(printed: &str) -> (Vec<serde_json::Value>, serde_json::Value) {
    let mut lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.pop().unwrap();
    assert_eq!(end["event"], "end", "{printed}");
    (lines, end)
}
