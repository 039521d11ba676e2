//! Addresses that DNS finds, of every kind: behind TLS, of IPv6, behind aliases, of services with backups,
//! and through a reload.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use weir_testkit::{Authority, Dns, Exchange, Origin, Record, Socket, Weir, until};

use super::changes::{Load, answers, named, shown};
use super::names::{addresses, await_answers, await_those, before, name, on_one_port};
use crate::server::{server, setup};

/// The lines of an upstream that asks this name server.
fn by(dns: &Dns) -> String {
    format!(
        "resolve = \"each\"\nnameservers = [\"{}\"]\ndns_refresh = \"1s\"\nconnect = \"1s\"\n",
        dns.address()
    )
}

#[test]
fn tls_asks_each_address_for_the_name() {
    let (dns, authority, folder) = (Dns::start(), Authority::new(), setup());
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let https = |address: &str, names: &[&str], text: &'static str| {
        let (origin, asked_for) = (Origin::https_at(address, &authority, names), asked_for.clone());
        origin.otherwise(move |exchange: &mut Exchange<'_>| {
            if let Socket::Tls(tls) = exchange.socket() {
                asked_for.lock().unwrap().push(tls.conn.server_name().map(str::to_owned));
            }
            exchange.reply(200, &[("Cache-Control", "no-store")], text);
        });
        origin
    };
    let mut port = (0..100).map(|_| weir_testkit::free_port());
    let is_free =
        |port: &u16| (1..=3).all(|at| TcpListener::bind(SocketAddr::from(([127, 0, 0, at], *port))).is_ok());
    let port = port.find(is_free).unwrap();
    // The third shows a certificate of another name.
    let all = [
        https(&format!("127.0.0.1:{port}"), &["app.test"], "1"),
        https(&format!("127.0.0.2:{port}"), &["app.test"], "2"),
        https(&format!("127.0.0.3:{port}"), &["127.0.0.3", "other.test"], "3"),
    ];
    folder.file("ca.pem", authority.pem());
    dns.addresses("app.test", 0, &addresses(&all));
    let lines =
        by(&dns) + "tls = { ca_file = \"{folder}/ca.pem\" }\ncheck = { path = \"/up\", timeout = \"2s\" }";
    let url = format!("\"https://app.test:{port}\"");
    let weir = server(&[]).origins(&url).upstream(&lines).start_in(folder);
    let state = |at: usize| shown(&weir, &format!("https://app.test@127.0.0.{at}:{port}"));
    until("all are judged", || {
        [state(1)["state"] == "ready", state(2)["state"] == "ready", state(3)["state"] == "down"] == [true; 3]
    });
    assert!(state(3)["reason"].as_str().unwrap().contains("certificate"), "{}", state(3));
    await_those(&weir, "12");
    let asked_for = asked_for.lock().unwrap();
    assert!(asked_for.iter().all(|name| name.as_deref() == Some("app.test")), "{asked_for:?}");
}

#[test]
fn addresses_of_both_families_are_origins() {
    let (dns, four) = (Dns::start(), named("4"));
    let six = SocketAddr::new("::1".parse().unwrap(), four.addr().port());
    if TcpListener::bind(six).is_err() {
        eprintln!("skipped: this machine has no ::1, or the port is taken there");
        return;
    }
    let other = Origin::listen(&six.to_string());
    other.otherwise(|exchange: &mut Exchange<'_>| {
        exchange.reply(200, &[("Cache-Control", "no-store")], "6");
    });
    dns.addresses("app.test", 0, &[four.addr(), six]);
    let url = format!("\"http://app.test:{}\"", six.port());
    let weir = server(&[]).origins(&url).upstream(&by(&dns)).start();
    await_answers(&weir, "4466");
    assert_eq!(shown(&weir, &format!("http://app.test@{six}"))["state"], "ready");
    dns.addresses("app.test", 0, &[six]);
    await_those(&weir, "6");
    let drained = weir.command(&["origins", "weight", "main", &name(&other), "--weight", "5"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
}

#[test]
fn a_chain_of_aliases_leads_to_addresses() {
    let (dns, all) = (Dns::start(), on_one_port(2));
    dns.put("app.test", 300, &[Record::Alias("edge.test".to_owned())]);
    // The shortest time to live of the chain counts.
    dns.put("edge.test", 0, &[Record::Alias("rack.test".to_owned())]);
    dns.addresses("rack.test", 300, &addresses(&all[..1]));
    let weir = before(&dns, &all);
    await_answers(&weir, "1111");
    dns.addresses("rack.test", 300, &addresses(&all));
    await_answers(&weir, "1122");
}

#[test]
fn a_reload_keeps_what_dns_has_found() {
    let (dns, all) = (Dns::start(), on_one_port(2));
    dns.addresses("app.test", 3600, &addresses(&all));
    let url = format!("\"http://app.test:{}\"", all[0].addr().port());
    let text = |lines: &str| server(&[]).origins(&url).upstream(&(by(&dns) + lines)).text();
    let weir = setup().run_config(&text(""));
    await_answers(&weir, "1122");
    let operated = weir.command(&["origins", "weight", "main", &name(&all[1]), "--weight", "3"]);
    assert_eq!(operated.code, Some(0), "{operated:?}");
    let load = Load::start(&weir, 1);
    load.more(200);
    let connections = [all[0].connections(), all[1].connections()];
    // Whatever DNS says now: its last answer is good for an hour, and a reload does not ask for another one.
    dns.mood(weir_testkit::Mood::Failing);
    for lines in ["first_byte = \"7s\"\n", "eject = { failures = 3 }\npick = \"least_requests\"\n", ""] {
        weir.rewrite_config(&text(lines));
        assert_eq!(weir.reload().code, Some(0));
        load.more(200);
    }
    load.end();
    assert_eq!([all[0].connections(), all[1].connections()], connections);
    assert_eq!(answers(&weir, 8), "11222222");
}

#[test]
fn targets_of_another_priority_are_backups() {
    let (dns, backup) = (Dns::start(), named("b"));
    let primary = named("a");
    let to = |priority, origin: &Origin| {
        Record::Service(priority, 1, origin.addr().port(), "host.test".to_owned())
    };
    dns.put("host.test", 0, &[Record::Address(primary.addr().ip())]);
    dns.put("_http._tcp.app.test", 0, &[to(10, &primary), to(20, &backup)]);
    let lines =
        by(&dns) + "check = { path = \"/\", every = \"200ms\", timeout = \"200ms\", fall = 2, rise = 1 }";
    let weir: Weir = server(&[]).origins("\"http://_http._tcp.app.test\"").upstream(&lines).start();
    await_answers(&weir, "aaaa");
    let of_service = format!("http://_http._tcp.app.test@{}", backup.addr());
    assert_eq!(shown(&weir, &of_service)["backup"], true);
    let address = primary.addr().to_string();
    drop(primary);
    await_answers(&weir, "bbbb");
    let primary = Origin::listen(&address);
    primary.otherwise(|exchange: &mut Exchange<'_>| {
        exchange.reply(200, &[("Cache-Control", "no-store")], "a");
    });
    await_answers(&weir, "aaaa");
}
