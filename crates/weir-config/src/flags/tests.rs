//! What `flags` must do, by example.

use super::*;
use crate::{Action, model::Lifetime, value::HostRule};

fn flags(origin: &str) -> Flags {
    Flags { origin: origin.into(), ..Flags::default() }
}

fn host(origin: &str) -> HostRule {
    let loaded = from_flags(&flags(origin)).unwrap();
    match &loaded.resolved()[0].routes[0].action {
        Action::Forward { host, .. } => host.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_origin_with_a_name_gets_its_name() {
    assert_eq!(host("https://www.example.com"), HostRule::Origin);
    assert_eq!(host("http://127.0.0.1:3000"), HostRule::Client);
    assert_eq!(host("unix:/run/app.sock"), HostRule::Client);
}

#[test]
fn flags_reach_the_model() {
    let loaded = from_flags(&Flags {
        listen: vec!["0.0.0.0:80".into(), "[::]:80".into()],
        admin: Some("127.0.0.1:1".into()),
        cache: Some("/var/cache/weir".into()),
        disk: Some("5GiB".into()),
        memory: Some("1GiB".into()),
        ttl: Some("60s".into()),
        log: Some("json".into()),
        ..flags("http://a.example")
    })
    .unwrap();
    let config = &loaded.config;
    assert_eq!(
        config.listen.iter().map(|listen| listen.address.to_string()).collect::<Vec<_>>(),
        ["0.0.0.0:80", "[::]:80"]
    );
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:1");
    assert_eq!(config.state.path.as_ref().unwrap().to_string(), "/var/cache/weir/state");
    assert_eq!(loaded.memory_bytes(), 1 << 30);
    let volume = &config.cache.volume[0];
    assert_eq!(volume.path.to_string(), "/var/cache/weir/volume");
    assert_eq!(volume.size.map(|size| size.0), Some(5 << 30));
    assert_eq!(config.site[0].rules.ttl, Some(Lifetime::Plain("60s".parse().unwrap())));
    assert!(config.log.access.is_some());
    let plain = from_flags(&flags("http://a.example")).unwrap();
    assert_eq!(plain.config.listen, crate::model::Config::default().listen);
    assert!(plain.files().is_empty());
}

#[test]
fn mistakes_point_into_the_command_line() {
    let mistakes = from_flags(&Flags {
        listen: vec!["8080".into()],
        ttl: Some("60".into()),
        memory: Some("1 gig".into()),
        ..flags("htps://a.example")
    })
    .unwrap_err();
    let expected = "\
error: unknown scheme `htps`: did you mean `https`?
 --> command line:1:19
  |
1 | weir run --origin htps://a.example --listen 8080 --memory 1 gig --ttl 60
  |                   ^^^^^^^^^^^^^^^^

error: a port without an address: write `127.0.0.1:8080` for this machine, `0.0.0.0:8080` or \
`[::]:8080` for all
 --> command line:1:45
  |
1 | weir run --origin htps://a.example --listen 8080 --memory 1 gig --ttl 60
  |                                             ^^^^

error: unknown unit of size `gig`: did you mean `GiB`?
 --> command line:1:59
  |
1 | weir run --origin htps://a.example --listen 8080 --memory 1 gig --ttl 60
  |                                                           ^^^^^

error: duration without a unit: did you mean `60s`?
 --> command line:1:71
  |
1 | weir run --origin htps://a.example --listen 8080 --memory 1 gig --ttl 60
  |                                                                       ^^

4 mistakes
";
    assert_eq!(mistakes.to_string(), expected);
    assert_eq!(mistakes.count(), 4);
}

#[test]
fn mistakes_are_told_to_machines_too() {
    let mistakes = crate::sample::load("[cache]\nmemroy = 1\n[log]\naccess = 2\n").unwrap_err();
    assert_eq!(
        mistakes.to_json(),
        serde_json::json!([
            {
                "file": "weir.toml", "line": 2, "column": 1,
                "mistake": "unknown key `memroy` in `cache`",
                "hint": "did you mean `memory`?",
            },
            {
                "file": "weir.toml", "line": 4, "column": 10,
                "mistake": "`access` is of the wrong kind",
                "hint": "expected one of `json`, `combined`, found a number",
            },
        ])
    );
}

#[test]
fn a_host_has_its_certificate_ordered() {
    let loaded = from_flags(&Flags {
        hosts: vec!["www.example.com".into(), "example.com".into()],
        listen: vec!["0.0.0.0:80".into()],
        listen_tls: vec!["0.0.0.0:443".into()],
        ..flags("http://127.0.0.1:3000")
    })
    .unwrap();
    let config = &loaded.config;
    assert_eq!(config.acme, Some(crate::model::Acme::default()));
    let hosts: Vec<_> = config.site[0].hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["www.example.com", "example.com"]);
    let listen: Vec<_> =
        config.listen.iter().map(|listen| (listen.address.to_string(), listen.tls)).collect();
    assert_eq!(listen, [("0.0.0.0:80".to_owned(), false), ("0.0.0.0:443".to_owned(), true)]);
    assert_eq!(config.site[0].https, None);
    assert_eq!(from_flags(&flags("http://127.0.0.1:3000")).unwrap().config.acme, None);
    let mistakes = from_flags(&Flags {
        hosts: vec!["www.example.com:443".into()],
        listen_tls: vec!["0.0.0.0:443".into()],
        ..flags("http://127.0.0.1:3000")
    });
    assert!(mistakes.unwrap_err().to_string().contains("has no port"));
}
