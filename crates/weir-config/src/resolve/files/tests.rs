//! Which route serves files, and which mistakes and warnings there are about it.

use crate::sample::{good, sentences};
use crate::{Action, value::Fallback};

const HEAD: &str = "[upstream.app]\norigins = [\"http://app\"]\n";

#[test]
fn the_nearest_of_root_and_upstream_counts() {
    let text = format!(
        "{HEAD}[defaults]\nroot = \"/\"\nfiles = {{ listing = true, index = [\"a.html\"] }}\n\
         [[site]]\nhosts = [\"a\"]\nfiles = {{ hidden = true }}\n\
         [[site.route]]\nprefix = \"/app/\"\nupstream = \"app\"\n\
         [[site.route]]\nprefix = \"/both/\"\nupstream = \"app\"\nroot = \"/\"\nfallback = \"upstream\"\n\
         [[site.route]]\nprefix = \"/one/\"\nfallback = \"/index.html\"\n\
         [[site.route]]\nprefix = \"/answer/\"\nanswer = {{}}\n"
    );
    let loaded = good(&text);
    let routes = &loaded.resolved()[0].routes;
    let said: Vec<_> = routes.iter().map(|route| (route.files.is_some(), &route.action)).collect();
    assert!(matches!(said[0], (false, Action::Forward { .. })), "{said:?}");
    assert!(matches!(said[1], (true, Action::Forward { .. })), "{said:?}");
    assert!(matches!(said[2], (true, Action::Files)), "{said:?}");
    assert!(matches!(said[3], (false, Action::Answer { .. })), "{said:?}");
    assert!(matches!(said[4], (true, Action::Files)), "{said:?}");
    let files = routes[2].files.as_ref().unwrap();
    assert_eq!(files.fallback, Some(Fallback::File("/index.html".into())));
    assert!(files.lists && files.serves_hidden && files.index == ["a.html"], "{files:?}");
}

#[test]
fn a_root_needs_no_upstream_but_a_fallback_does() {
    let site = "[[site]]\nhosts = [\"a\"]\nroot = \"/\"\n";
    assert!(sentences(site).is_empty());
    let found = sentences(&format!("{site}fallback = \"upstream\"\n"));
    assert_eq!(found, [(1, "this site has no upstream".to_owned())]);
    let found =
        sentences(&format!("{site}[[site.route]]\nprefix = \"/\"\nroot = \"/\"\nredirect = \"/b\"\n"));
    assert!(found.iter().any(|(_, said)| said.contains("exclude each other")), "{found:?}");
}

#[test]
fn what_a_root_does_not_do_is_warned_of() {
    let check = |inner: &str, expect: &str| {
        let text = format!("{HEAD}[[site]]\nhosts = [\"a\"]\n{inner}\n");
        let warnings = good(&text).warnings().join("\n");
        assert!(warnings.contains(expect), "{inner}: {warnings:?}");
    };
    check("root = \"/no/such/folder\"", "the folder `/no/such/folder` cannot be read");
    check("root = \"/\"", "has more than a site");
    check("root = \"/tmp\"\nupstream = \"app\"", "gets no request without `fallback = \"upstream\"`");
    check("upstream = \"app\"\nfallback = \"/index.html\"", "`fallback` has no effect without a `root`");
    check("upstream = \"app\"\nfiles = { hidden = true }", "`files` has no effect without a `root`");
}
