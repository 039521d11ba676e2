//! A build that lacks a feature says so, and refuses what needs it before anything has changed. Not in usual
//! builds: `cargo test -p weir --no-default-features --test it -- run::lacking`, or with some of the
//! features.

use weir_testkit::Origin;

use crate::server::server;

/// An origin with one page that may be kept.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.otherwise(|exchange| {
        exchange.reply(200, &[("Cache-Control", "max-age=600")], "page");
    });
    origin
}

/// A configuration that needs what this build lacks is refused by everything that takes one, and what runs
/// goes on with all that it has.
#[cfg(any(not(feature = "dns"), not(feature = "script")))]
fn is_refused(wanting: impl Fn(crate::server::Server) -> crate::server::Server, line: &str, lack: &str) {
    let origin = origin();
    let good = server(&[&origin]);
    let mut weir = good.start();
    let mut kept = weir.client();
    kept.get("x", "/a", &[]);
    let (pid, bad) = (weir.main_pid(), wanting(server(&[&origin])).text());
    let path = weir.rewrite_config(&bad).display().to_string();
    let error = format!("error: {lack}\n");
    let is_told = |said: &str| said.contains(lack) && said.contains(line) && said.contains("^^^");
    let checked = weir.command(&["check", &path]);
    assert!(checked.code == Some(1) && checked.stderr.starts_with(&error), "{checked:?}");
    assert!(is_told(&checked.stderr), "{}", checked.stderr);
    let checked = weir.command(&["check", &path, "--json"]);
    assert!(
        checked.code == Some(1) && checked.stdout.contains(&format!("\"mistake\": \"{lack}\"")),
        "{checked:?}"
    );
    let reloaded = weir.reload();
    assert!(reloaded.code == Some(1) && is_told(&reloaded.stderr), "{reloaded:?}");
    assert!(kept.get("x", "/a", &[]).is_hit());
    let upgraded = weir.upgrade(&[]);
    assert!(upgraded.code == Some(1) && is_told(&upgraded.stderr), "{upgraded:?}");
    assert_eq!(weir.main_pid(), pid);
    // The ledger has not been handed over, nor has the connection.
    assert!(kept.get("x", "/a", &[]).is_hit());
    let purged = weir.command(&["purge", "--all"]);
    assert_eq!(purged.code, Some(0), "{purged:?}");
    assert!(!kept.get("x", "/a", &[]).is_hit());
    let said = crate::server::setup().try_run_config(&bad).map(|_| ()).unwrap_err();
    assert!(is_told(&said), "{said}");
    weir.rewrite_config(&good.text());
    let upgraded = weir.upgrade(&[]);
    assert_eq!(upgraded.code, Some(0), "{upgraded:?}");
}

#[cfg(not(feature = "dns"))]
#[test]
fn names_that_are_several_origins_are_refused_at_their_line() {
    let line = "resolve = \"each\"";
    let lack = "this program was built without DNS lookups of its own: `make build`";
    is_refused(|server| server.upstream(line), line, lack);
}

#[cfg(not(feature = "script"))]
#[test]
fn scripts_are_refused_at_their_line() {
    // Any file that is there: it is not read.
    let line = "script = \"weir.toml\"";
    let lack = "this program was built without scripts: `make build`";
    is_refused(|server| server.more(&format!("[pick.mine]\n{line}")), line, lack);
    for words in [&["picks"][..], &["picks", "test", "pick.rhai", "--request", "GET https://x/"]] {
        let done = crate::server::setup().command(words);
        assert!(done.code == Some(1) && done.stderr.contains(lack), "{done:?}");
    }
}

#[cfg(not(feature = "screen"))]
#[test]
fn weir_top_prints_once_what_the_screen_would_show() {
    let origin = origin();
    let weir = server(&[&origin]).start();
    weir.get("/a");
    let top = format!("{} top --state {}", crate::server::binary(), weir.state().display());
    let done = std::process::Command::new("script").args(["-qec", &top, "/dev/null"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let lack = "weir: this program was built without a screen: `make build`; as with --once:";
    assert!(done.status.success() && said.contains(lack) && said.contains("/a"), "{said}");
}
