//! Renewal by ARI, profiles, and what a CA may ask for.

use std::process::Command;

use weir_acme::{AuthoritySettings, ExternalAccount, Settings};
use weir_testkit::{Pebble, until};

use crate::bench::{Bench, authority, row, settings};

const HOST: &str = "www.example.com";

/// Tells Pebble what to answer when it is asked about the latest certificate.
fn suggest(bench: &Bench, pebble: &Pebble, response: &str) {
    let chain = bench.shown.issued.lock().unwrap().last().unwrap().chain_pem.clone();
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let body = format!(r#"{{"Certificate": "{}", "ARIResponse": "{}"}}"#, quoted(&chain), quoted(response));
    let url = format!("https://127.0.0.1:{}/set-renewal-info/", pebble.management());
    let done = Command::new("curl").args(["-sfk", "--data-binary", &body, &url]).status().unwrap();
    assert!(done.success());
}

/// Whether this Pebble's directory has a member: older ones know neither ARI nor profiles.
fn knows(pebble: &Pebble, member: &str) -> bool {
    let asked = Command::new("curl").args(["-sfk", &pebble.directory()]).output().unwrap();
    let is_known = String::from_utf8(asked.stdout).unwrap().contains(member);
    if !is_known {
        eprintln!("skipped: this pebble has no {member}");
    }
    is_known
}

/// Waits until the CA has said when to renew.
fn until_answered(bench: &Bench) {
    let record = bench.folder.path().join(format!("acme/hosts/{HOST}.json"));
    let window = "\"window\": [";
    until("the CA was asked", || std::fs::read_to_string(&record).is_ok_and(|text| text.contains(window)));
}

#[test]
fn the_ca_has_a_certificate_renewed_and_is_told_which() {
    let bench = Bench::new("acme-ari");
    let Some(pebble) = bench.pebble().filter(|pebble| knows(pebble, "renewalInfo")) else { return };
    let acme = bench.acme(settings(&pebble, &[HOST]));
    bench.until_issued(1);
    until_answered(&bench);
    // Pebble's window is at two thirds of the lifetime, and so is ours: the next one is of its own.
    let window = r#"{"suggestedWindow": {"start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z"}}"#;
    suggest(&bench, &pebble, window);
    bench.advance(2 * 86_400);
    acme.look();
    bench.until_issued(2);
    assert_eq!(bench.failures(), [] as [&str; 0]);
    let (first, second) = {
        let issued = bench.shown.issued.lock().unwrap();
        (issued[0].clone(), issued[1].clone())
    };
    assert_ne!(first.key_pem, second.key_pem);
    acme.stop();
    assert!(pebble.log().contains("replac"), "the order said what it replaces");
}

#[test]
fn nonsense_about_renewal_changes_nothing() {
    let bench = Bench::new("acme-nonsense");
    let Some(pebble) = bench.pebble().filter(|pebble| knows(pebble, "renewalInfo")) else { return };
    let acme = bench.acme(settings(&pebble, &[HOST]));
    bench.until_issued(1);
    until_answered(&bench);
    let before = row(&acme, HOST).step;
    let backwards =
        r#"{"suggestedWindow": {"start": "2020-01-02T00:00:00Z", "end": "2020-01-01T00:00:00Z"}}"#;
    for nonsense in ["no json", "{}", backwards] {
        suggest(&bench, &pebble, nonsense);
        let asked = pebble.log().matches("GET /draft-ietf-acme-ari").count();
        bench.advance(86_400 + 60);
        acme.look();
        until("it was asked again", || pebble.log().matches("GET /draft-ietf-acme-ari").count() > asked);
    }
    assert_eq!(row(&acme, HOST).step, before);
    assert_eq!(bench.issued(), 1);
    acme.stop();
}

#[test]
fn a_profile_is_asked_for() {
    let bench = Bench::new("acme-profile");
    let Some(pebble) = bench.pebble().filter(|pebble| knows(pebble, "profiles")) else { return };
    let profile = |profile: &str| Settings {
        authorities: vec![AuthoritySettings { profile: Some(profile.to_owned()), ..authority(&pebble) }],
        ..settings(&pebble, &[HOST])
    };
    let acme = bench.acme(profile("shortlived"));
    bench.until_issued(1);
    let lifetime = bench.shown.issued.lock().unwrap()[0].not_after - bench.clock().now();
    assert!(lifetime <= 6 * 86_400, "{lifetime}");
    acme.configure(Settings { hosts: vec!["other.example.com".to_owned()], ..profile("unheard-of") });
    until("it is refused", || !bench.failures().is_empty());
    assert!(bench.failures()[0].contains("invalidProfile"), "{:?}", bench.failures());
    acme.stop();
}

#[test]
fn an_account_is_bound_to_an_external_one() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let bench = Bench::new("acme-external");
    let Some(pebble) = bench.start(bench.setup().external("kid-1", key)) else { return };
    let with = |external: Option<ExternalAccount>| Settings {
        authorities: vec![AuthoritySettings { external, ..authority(&pebble) }],
        ..settings(&pebble, &[HOST])
    };
    let acme = bench.acme(with(None));
    until("it is refused", || !bench.failures().is_empty());
    assert!(bench.failures()[0].contains("externalAccountRequired"), "{:?}", bench.failures());
    let external = ExternalAccount { key_id: "kid-1".to_owned(), hmac_key: key.to_owned() };
    acme.configure(with(Some(external)));
    bench.advance(3600);
    acme.look();
    bench.until_issued(1);
    acme.stop();
}

#[test]
fn contacts_follow_the_configuration() {
    let bench = Bench::new("acme-contact");
    let Some(pebble) = bench.pebble() else { return };
    let with = |contact: &str| Settings {
        authorities: vec![AuthoritySettings { contact: vec![contact.to_owned()], ..authority(&pebble) }],
        ..settings(&pebble, &[HOST])
    };
    let acme = bench.acme(with("mailto:one@example.com"));
    bench.until_issued(1);
    acme.stop();
    let file = || {
        let folder = bench.folder.path().join("acme/ca");
        let mut files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        std::fs::read_to_string(
            files.find(|file| file.extension().is_some_and(|end| end == "account")).unwrap(),
        )
        .unwrap()
    };
    assert!(file().contains("one@example.com"));
    let acme =
        bench.acme(Settings { hosts: vec!["b.example.com".to_owned()], ..with("mailto:two@example.com") });
    bench.until_issued(2);
    acme.stop();
    assert!(file().contains("two@example.com"));
}
