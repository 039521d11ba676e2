//! Metrics that operators push, and those that origins report in their responses.

use weir_testkit::{Resource, until};

use super::sources::{entry, fresh, with_source};
use crate::origins::changes::origins;
use crate::server::{server, setup};

#[test]
fn what_is_pushed_counts_before_all_for_its_lifetime() {
    let weir = with_source(setup(), "orca = true");
    let said = origins(&weir, &["push", "a", "cpu=0.25", "queue=7"]);
    assert!(said.contains("pushed, in main"), "{said}");
    assert_eq!((fresh(&weir, 0, "cpu"), fresh(&weir, 0, "queue")), (Some(0.25), Some(7.0)));
    assert_eq!(entry(&weir, 0, "cpu").unwrap()["source"], "push");
    assert_eq!(fresh(&weir, 1, "cpu"), None);
    // A reload keeps it; `cpu=` takes it back.
    assert_eq!(weir.reload().code, Some(0));
    assert_eq!(fresh(&weir, 0, "cpu"), Some(0.25));
    origins(&weir, &["push", "a", "cpu=", "queue=8"]);
    assert_eq!((entry(&weir, 0, "cpu"), fresh(&weir, 0, "queue")), (None, Some(8.0)));
    origins(&weir, &["push", "a", "cpu=1", "--for", "300ms", "--upstream", "main"]);
    until("its time is over", || entry(&weir, 0, "cpu").unwrap()["stale"] == true);
    for (args, expect) in [
        (&["push", "c", "cpu=1"][..], "no upstream has an origin c"),
        (&["push", "a", "c p=1"][..], "is no name"),
        (&["push", "a", "cpu=x"][..], "is no number"),
        (&["push", "a", "cpu=1", "--upstream", "mian"][..], "no upstream is named mian"),
    ] {
        let output = weir.command(&[&["origins"], args].concat());
        assert!(output.code != Some(0) && output.stderr.contains(expect), "{args:?}: {output:?}");
    }
    let shown = origins(&weir, &["--metrics"]);
    assert!(shown.contains("src: no response has reported a load yet"), "{shown}");
}

#[test]
fn a_token_may_push_and_nothing_else() {
    let weir = with_source(setup(), "orca = true");
    let token = weir.token("push", &[]);
    let file = weir.folder().join("token");
    std::fs::write(&file, &token).unwrap();
    let url = format!("http://{}", weir.admin());
    let remote = ["--url", url.as_str(), "--token-file", file.to_str().unwrap()];
    let output = weir.command(&[&["origins", "push", "b", "cpu=0.5"][..], &remote].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(fresh(&weir, 1, "cpu"), Some(0.5));
    for args in [&["origins", "--metrics"][..], &["origins"], &["reload"], &["origins", "drain", "main", "a"]]
    {
        let output = weir.command(&[args, &remote].concat());
        assert_ne!(output.code, Some(0), "{args:?}");
    }
    assert_eq!(weir.admin_get_with("/v1/origins/metrics", &token).status(), 403);
}

#[test]
fn reports_in_responses_are_taken_out_of_them() {
    let origin = weir_testkit::Origin::start();
    let report = [
        ("Endpoint-Load-Metrics", "TEXT cpu_utilization=0.5, named_metrics.queue=3"),
        ("endpoint-load-metrics-bin", "CTMzMzMzM9M/"),
        ("Cache-Control", "max-age=60"),
    ];
    let body = Resource::new("body");
    origin.put("/", report.iter().fold(body, |body, (name, value)| body.header(name, value)));
    let weir = server(&[&origin])
        .top("[metrics.reports]\norca = true\nstale_after = \"30s\"")
        .upstream("metrics = [\"reports\"]")
        .start();
    for _ in 0..2 {
        let response = weir.get("/");
        assert_eq!(response.status(), 200);
        assert_eq!(response.header("endpoint-load-metrics"), None);
        assert_eq!(response.header("endpoint-load-metrics-bin"), None);
    }
    assert_eq!(origin.total(), 1, "it is stored");
    // The binary field is read last: 0.3.
    assert_eq!((fresh(&weir, 0, "cpu"), fresh(&weir, 0, "queue")), (Some(0.3), Some(3.0)));
    // Without the source the fields go through.
    let plain = server(&[&origin]).start();
    assert!(plain.get("/").header("endpoint-load-metrics").is_some());
}
