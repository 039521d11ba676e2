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

#[test]
fn what_a_route_does_not_serve_is_not_shown() {
    let text = format!(
        "{HEAD}[[site]]\nhosts = [\"a\"]\nroot = \"/srv\"\nfallback = \"upstream\"\nupstream = \"app\"\n\
         files.listing = true\n[[site.route]]\npath = \"**.php\"\nupstream = \"app\"\n"
    );
    let shown = crate::show(&good(&text));
    let (program, others) = shown.split_once("otherwise").unwrap();
    for key in ["root =", "fallback =", "files.listing ="] {
        assert!(!program.contains(key) && others.contains(key), "{key}: {shown}");
    }
}

#[test]
fn a_page_that_is_not_there_and_programs_in_a_root_are_warned_of() {
    let root = std::env::temp_dir().join(format!("weir-warned-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("index.PHP"), "<?php").unwrap();
    std::fs::write(root.join("here.html"), "page").unwrap();
    let said = |inner: &str| {
        let head = format!("{HEAD}[[site]]\nhosts = [\"a\"]\nroot = {:?}\n", root.display().to_string());
        good(&(head + inner + "\n")).warnings().join("\n")
    };
    let programs = "clients get the text of";
    assert!(said("").contains("index.PHP`: a route for `**.PHP` with an `upstream` runs it"), "{}", said(""));
    let taken = said("[[site.route]]\npath = \"**.PHP\"\nupstream = \"app\"");
    assert!(!taken.contains(programs), "{taken}");
    let other = said("[[site.route]]\npath = \"**.py\"\nupstream = \"app\"");
    assert!(other.contains(programs), "{other}");
    let gone = said("fallback = \"/gone.html\"");
    assert!(gone.contains("there is no file") && gone.contains("gone.html"), "{gone}");
    assert!(!said("fallback = \"/here.html\"").contains("there is no file"));
    std::fs::remove_dir_all(&root).unwrap();
}
