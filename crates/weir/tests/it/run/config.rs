//! A config of several files. What a site's and a route's rules do is asked of the walk alone:
//! `crates/weir-edge/tests/walk/rules.rs`.

use weir_testkit::Origin;

use crate::server::{server, setup};

#[test]
fn environment_and_included_files_are_read() {
    let origin = Origin::start();
    let setup = setup().env("WEIR_IT_UPSTREAM", "main");
    std::fs::create_dir(setup.folder().join("sites")).unwrap();
    setup.file(
        "sites/a.toml",
        "[[site]]\nhosts = [\"a.example\"]\nupstream = \"${WEIR_IT_UPSTREAM}\"\n\
                                [site.response_headers]\nset = { X-Site = \"a\" }\n",
    );
    let weir = server(&[&origin]).top("include = [\"sites/*.toml\"]").start_in(setup);
    let site_of = |host: &str| weir.client().get(host, "/", &[]).header("x-site");
    assert_eq!((site_of("a.example").as_deref(), site_of("b.example")), (Some("a"), None));
}
