//! Starting, checking and refusing to start.

use std::net::TcpListener;

use weir_testkit::{Origin, Resource, until};

use crate::server::{server, setup};

#[test]
fn weir_starts_while_its_origin_is_down_and_serves_once_it_is_up() {
    let address = format!("127.0.0.1:{}", weir_testkit::free_port());
    let weir = setup().run(&format!("http://{address}"));
    assert_eq!(weir.get("/x").status(), 502);
    let origin = Origin::listen(&address);
    origin.put("/x", Resource::fresh("hello"));
    until("the origin that came up is asked", || weir.get("/x").status() == 200);
}

#[test]
fn an_occupied_port_is_explained_and_the_status_not_zero() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let admin = format!("127.0.0.1:{}", weir_testkit::free_port());
    let setup = setup();
    let args = ["run", "--origin", "http://127.0.0.1:9", "--listen", &address, "--admin", &admin];
    let output = setup.command(&args);
    assert!(output.code.is_some_and(|code| code != 0), "{output:?}");
    assert!(output.stderr.contains(&address), "{}", output.stderr);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
}

#[test]
fn a_log_that_cannot_be_opened_is_explained_and_the_status_not_zero() {
    let origin = Origin::start();
    let setup = setup();
    let text =
        server(&[&origin]).more("[log]\naccess = \"json\"\npath = \"{folder}/missing/access.log\"").text();
    let path = setup.write_config(&text);
    let output = setup.command(&["run", "--config", &path.display().to_string()]);
    assert!(output.code.is_some_and(|code| code != 0), "{output:?}");
    assert!(output.stderr.contains("access.log"), "{}", output.stderr);
}

#[test]
fn check_prints_every_mistake_at_once() {
    let origin = Origin::start();
    let setup = setup();
    let text = server(&[&origin])
        .site("tll = \"60s\"\nttl_override = \"60 parsecs\"\n[[site.route]]\nupstream = \"mian\"")
        .text();
    let path = setup.write_config(&text);
    let output = setup.command(&["check", &path.display().to_string()]);
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(output.code.is_some_and(|code| code != 0), "{said}");
    for word in ["tll", "ttl", "parsecs", "mian", "main", "weir.toml:", "^"] {
        assert!(said.contains(word), "{word} is not in\n{said}");
    }
    let run = setup.command(&["run", "--config", &path.display().to_string()]);
    assert!(run.code.is_some_and(|code| code != 0), "{run:?}");
}

#[test]
fn check_is_content_with_a_good_file_and_shows_it() {
    let origin = Origin::start();
    let setup = setup();
    let text =
        server(&[&origin]).site("ttl = \"60s\"\n[[site.route]]\npath = \"/a/**\"\nttl = \"5m\"").text();
    let path = setup.write_config(&text).display().to_string();
    let good = setup.command(&["check", &path]);
    assert_eq!(good.code, Some(0), "{good:?}");
    let shown = setup.command(&["check", "--show", &path]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("/a/**") && shown.stdout.contains("5m"), "{}", shown.stdout);
}

#[test]
fn the_demo_serves_by_itself() {
    let setup = setup();
    let listen = format!("127.0.0.1:{}", weir_testkit::free_port());
    let admin = format!("127.0.0.1:{}", weir_testkit::free_port());
    let weir = setup
        .listen(listen.parse().unwrap())
        .arg("--demo")
        .arg("--listen")
        .arg(listen)
        .arg("--admin")
        .arg(admin)
        .run_bare();
    let first = weir.get("/");
    assert_eq!(first.status(), 200, "{:?}", first.head);
    assert!(weir.get("/").status() == 200);
    until("three lines to try are printed", || {
        let said = format!("{}{}", weir.stdout(), weir.stderr());
        said.matches("curl").count() >= 3
    });
}

#[test]
fn the_version_is_printed() {
    let output = setup().command(&["--version"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.contains(env!("CARGO_PKG_VERSION")), "{output:?}");
}

#[test]
fn as_many_files_as_allowed_may_be_opened() {
    let origin = Origin::start();
    let weir = crate::server::before(&origin);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", weir.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
}

#[test]
fn the_flags_do_what_they_say() {
    let origin = Origin::start();
    origin.put("/x", Resource::new("hello"));
    let weir = setup().arg("--ttl").arg("60s").arg("--memory").arg("32MiB").run(&origin.url());
    weir.get("/x");
    assert!(weir.get("/x").is_hit());
    assert_eq!(weir.metric("weir_cache_memory_limit_bytes"), Some(f64::from(32 << 20)));
    for wrong in [["--ttl", "60 parsecs"], ["--memory", "much"], ["--origin", "ftp://x"]] {
        let output = setup().command(&["run", "--origin", "http://127.0.0.1:9", wrong[0], wrong[1]]);
        assert!(
            output.code.is_some_and(|code| code != 0) && !output.stderr.contains("panicked"),
            "{output:?}"
        );
    }
}

#[test]
fn a_host_that_no_authority_issues_for_ends_the_start() {
    let setup = setup();
    for (host, why) in [
        ("localhost", "a public CA issues for public names only"),
        ("192.168.0.1", "a public CA issues for public addresses only"),
        ("*.example.com", "no certificate is ordered for a wildcard"),
    ] {
        let output = setup.command(&["run", "--origin", "http://127.0.0.1:9", "--host", host]);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(&format!("--host {host}: {why}; ")), "{output:?}");
        assert!(output.stderr.contains("certificate = \"self\""), "{output:?}");
    }
}
