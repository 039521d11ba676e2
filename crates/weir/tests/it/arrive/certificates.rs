//! Which certificate a client gets over TLS, when changed files are taken up, and what clients show.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use weir_testkit::{Authority, Client, Key, SignatureScheme, TlsClient, Weir, until};

use crate::server::setup;

/// A site of two hosts, whose certificates match a glob.
const CONFIG: &str = r#"
[[listen]]
address = "{listen}"
[[listen]]
address = "{tls}"
tls = true
protocols = ["http/1.1"]
[admin]
listen = "{admin}"
[[certificate]]
chain = "{folder}/live-*.pem"
key = "{folder}/live-*.key"
[upstream.nowhere]
origins = ["http://127.0.0.1:9"]
[defaults]
upstream = "nowhere"
"#;

fn sites(hosts: &str, more: &str) -> String {
    format!("{CONFIG}\n[[site]]\nhosts = {hosts}\n{more}\n[[site.route]]\nanswer = {{ body = \"hello\" }}\n")
}

fn write(folder: &Path, name: &str, (chain, key): &(String, String)) {
    fs::write(folder.join(format!("{name}.pem")), chain).unwrap();
    fs::write(folder.join(format!("{name}.key")), key).unwrap();
}

/// The certificate that a client gets, if the handshake succeeds.
fn leaf(client: &TlsClient, weir: &Weir, name: &str) -> Result<Vec<u8>, String> {
    let socket = client.clone().remade().connect(weir.tls(), name).map_err(|error| error.to_string())?;
    Ok(socket.session().unwrap().certificates.remove(0))
}

/// One request; returns whether the session was resumed.
fn visit(client: &TlsClient, weir: &Weir, name: &str) -> bool {
    let socket = client.connect(weir.tls(), name).unwrap();
    let mut client = Client::over(socket);
    assert_eq!(client.get(name, "/", &[]).text(), "hello");
    client.socket().session().unwrap().resumed
}

#[test]
fn a_client_gets_the_certificate_of_the_name_or_none() {
    let authority = Authority::new();
    let setup = setup();
    let rsa = authority.certificate(&["both.example"]).key(Key::Rsa).issue();
    write(setup.folder(), "live-rsa", &rsa);
    setup.certificate("live-both", &authority, &["both.example"]);
    setup.certificate("live-wild", &authority, &["*.both.example"]);
    let weir = setup.run_config(&sites("[\"both.example\", \"*.both.example\"]", ""));
    let client = TlsClient::trusting(&authority);
    let of = |name| leaf(&client, &weir, name);
    assert!(of("both.example").is_ok() && of("a.both.example").is_ok());
    assert_ne!(of("both.example"), of("a.both.example"));
    let old = client.clone().schemes(&[SignatureScheme::RSA_PSS_SHA256]);
    assert_ne!(leaf(&old, &weir, "both.example"), of("both.example"));
    for name in ["other.example", "a.a.both.example", "127.0.0.1"] {
        let refused = of(name).unwrap_err();
        assert!(refused.contains("UnrecognisedName"), "{name}: {refused}");
    }
    assert!(!visit(&client, &weir, "both.example"));
}

#[test]
fn the_default_certificate_is_for_all_that_have_none() {
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("live-a", &authority, &["a.example"]);
    setup.certificate("default", &authority, &["d.example"]);
    let default =
        "[[certificate]]\nchain = \"{folder}/default.pem\"\nkey = \"{folder}/default.key\"\ndefault = true";
    let weir = setup.run_config(&format!("{}\n{default}", sites("[\"*\"]", "")));
    let client = TlsClient::insecure();
    let of = |name| leaf(&client, &weir, name).unwrap();
    assert_ne!(of("a.example"), of("d.example"));
    assert_eq!(of("other.example"), of("d.example"));
    assert_eq!(of("127.0.0.1"), of("d.example"));
}

#[test]
fn a_changed_pair_is_taken_up_by_a_reload_and_one_that_does_not_fit_is_not() {
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("live-a", &authority, &["a.example"]);
    let weir = setup.run_config(&sites("[\"a.example\"]", ""));
    let client = TlsClient::trusting(&authority);
    let first = leaf(&client, &weir, "a.example").unwrap();
    // As certbot does: one file after the other.
    let (chain, key) = authority.issue(&["a.example"]);
    fs::write(weir.folder().join("live-a.pem"), &chain).unwrap();
    let said = weir.reload().stdout;
    assert!(
        said.contains("warning: ") && said.contains("its key does not belong to the certificate"),
        "{said}"
    );
    assert_eq!(leaf(&client, &weir, "a.example").unwrap(), first);
    weir.await_stderr(
        "live-a.key: its key does not belong to the certificate; the certificate for a.example",
    );
    assert_eq!(weir.metric("weir_certificates_unusable"), Some(1.0));
    for command in ["status", "certificates"] {
        let shown = weir.command(&[command]).stdout;
        assert!(shown.contains("its key does not belong to the certificate"), "{shown}");
    }
    fs::write(weir.folder().join("live-a.key"), &key).unwrap();
    assert!(weir.reload().code == Some(0));
    assert_ne!(leaf(&client, &weir, "a.example").unwrap(), first);
    assert_eq!(weir.metric("weir_certificates_unusable"), Some(0.0));
    assert_eq!(weir.metric("weir_certificate_failures_total"), Some(1.0));
    let json = weir.command(&["certificates", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json[0]["names"][0], &json[0]["key"], &json[0]["state"]),
        (&"a.example".into(), &"ecdsa".into(), &"valid".into())
    );
}

#[test]
fn a_reload_that_finds_no_file_leaves_the_certificates_in_use() {
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("live-a", &authority, &["a.example"]);
    let weir = setup.run_config(&sites("[\"a.example\"]", ""));
    let client = TlsClient::trusting(&authority);
    let first = leaf(&client, &weir, "a.example").unwrap();
    for ending in ["pem", "key"] {
        fs::remove_file(weir.folder().join(format!("live-a.{ending}"))).unwrap();
    }
    let said = weir.reload();
    assert!(said.stdout.contains("live-a.pem: the file is gone"), "{said:?}");
    assert_eq!(leaf(&client, &weir, "a.example").unwrap(), first);
}

#[test]
fn a_changed_pair_is_taken_up_by_itself() {
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("live-a", &authority, &["a.example"]);
    let events = "[events]\nfile = \"{folder}/events.json\"\nkinds = [\"certificate\"]";
    let weir = setup.run_config(&format!("{}\n{events}", sites("[\"a.example\"]", "")));
    let client = TlsClient::trusting(&authority);
    let first = leaf(&client, &weir, "a.example").unwrap();
    write(weir.folder(), "live-a", &authority.issue(&["a.example"]));
    until("the other one", || leaf(&client, &weir, "a.example").unwrap() != first);
    until("both events", || {
        let told = fs::read_to_string(weir.folder().join("events.json")).unwrap();
        let is_told = |line: &&str| line.contains("\"event\":\"certificate\"") && line.contains("in-use");
        told.lines().filter(is_told).count() == 2
    });
}

#[test]
fn sessions_are_resumed_on_every_worker_and_after_an_upgrade() {
    let authority = Authority::new();
    let setup = setup().arg("--workers").arg("3");
    setup.certificate("live-a", &authority, &["a.example", "b.example"]);
    let mut weir = setup.run_config(&sites("[\"a.example\", \"b.example\"]", ""));
    let clients = [TlsClient::trusting(&authority).only_1_2(), TlsClient::trusting(&authority).only_1_3()];
    for client in &clients {
        assert!(!visit(client, &weir, "a.example"));
        assert!((0..12).all(|_| visit(client, &weir, "a.example")));
        assert!(!visit(client, &weir, "b.example"), "a ticket is of one name");
    }
    let upgraded = weir.upgrade(&[]);
    assert!(upgraded.code == Some(0), "{upgraded:?}");
    for client in &clients {
        assert!((0..6).all(|_| visit(client, &weir, "a.example")));
    }
}

#[test]
fn a_site_asks_its_clients_for_certificates() {
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("live-a", &authority, &["*.example"]);
    setup.file("ca.pem", authority.pem());
    let ask =
        |mode: &str| format!("client_certificate = {{ ca = \"{{folder}}/ca.pem\", mode = \"{mode}\" }}");
    let config = format!(
        "{}[[site]]\nhosts = [\"optional.example\"]\n{}\n[[site.route]]\nanswer = {{ body = \"hello\" }}\n\
         [[site]]\nhosts = [\"open.example\"]\n[[site.route]]\nanswer = {{ body = \"hello\" }}\n",
        sites("[\"required.example\"]", &ask("required")),
        ask("optional"),
    );
    let weir = setup.run_config(&config);
    let without = TlsClient::insecure();
    let known = TlsClient::insecure().certificate(authority.issue(&["client"]));
    let stranger = TlsClient::insecure().certificate(Authority::new().issue(&["client"]));
    let answers = |client: &TlsClient, name: &str| {
        let Ok(socket) = client.connect(weir.tls(), name) else { return false };
        let mut client = Client::over(socket);
        // In TLS 1.3 a client learns after its handshake that it was refused.
        client.send_get(name, "/", &[]) && client.recv().is_ok_and(|response| response.text() == "hello")
    };
    for (name, expected) in [
        ("required.example", [false, true, false]),
        ("optional.example", [true, true, false]),
        ("open.example", [true; 3]),
    ] {
        let found = [&without, &known, &stranger].map(|client| answers(client, name));
        assert_eq!(found, expected, "{name}");
    }
    weir.await_stderr("a client's certificate is refused");
}

#[test]
fn weir_check_says_what_is_amiss_with_certificates() {
    let authority = Authority::new();
    let setup = setup();
    setup.certificate("live-a", &authority, &["a.example"]);
    setup.write_config(&sites("[\"a.example\", \"b.example\", \"*.c.example\"]", ""));
    let checked = setup.command(&["check", "weir.toml"]);
    let said = checked.stderr;
    assert!(checked.code == Some(0));
    assert!(said.contains("no certificate covers b.example") && said.contains("*.c.example"), "{said}");
    assert!(!said.contains("covers a.example"), "{said}");
    let expired = authority
        .certificate(&["b.example"])
        .from(SystemTime::now() - Duration::from_secs(86_400 * 9))
        .until(SystemTime::now() - Duration::from_secs(60))
        .issue();
    write(setup.folder(), "live-b", &expired);
    setup.file("live-c.pem", &expired.0);
    let checked = setup.command(&["check", "weir.toml"]);
    let said = checked.stderr;
    assert!(checked.code != Some(0));
    assert!(said.contains("live-b.pem: its certificate has expired on "), "{said}");
    assert!(said.contains("live-c.key: there is no such file"), "{said}");
}

#[test]
fn a_listener_without_a_usable_certificate_does_not_start() {
    let why = setup().try_run_config(&sites("[\"a.example\"]", "")).err().unwrap();
    assert!(why.contains("has TLS, but there is no usable certificate: no file matches"), "{why}");
    let setup = setup();
    setup.file("live-a.pem", "");
    setup.file("live-a.key", "");
    let why = setup.try_run_config(&sites("[\"a.example\"]", "")).err().unwrap();
    assert!(why.contains("live-a.pem: there is no certificate in it"), "{why}");
}

#[test]
fn a_site_for_development_gets_a_certificate_of_its_own() {
    let weir = setup().run_config(&sites("[\"dev.example\", \"*\"]", "certificate = \"self\""));
    let client = TlsClient::insecure();
    for name in ["dev.example", "localhost", "other.example"] {
        assert!(leaf(&client, &weir, name).is_ok(), "{name}");
    }
    weir.await_stderr("is signed by Weir itself, for development");
    let shown = weir.command(&["certificates"]).stdout;
    assert!(
        shown.contains("dev.example, localhost, 127.0.0.1") && shown.contains("for development only"),
        "{shown}"
    );
}
