//! Picks that ask distributors, and `[distributor]`: what is refused, with the exact sentence.

use crate::sample::{expect, good};

const SITE: &str = "[[site]]\nhosts = [\"*\"]\nupstream = \"app\"\n";
const APP: &str = "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\npick = [\"asked\", \"two_choices\"]\n";

/// Expects this mistake in line 3 of a pick; an empty sentence: none.
fn asked(distributor: &str, line: &str, sentence: &str) {
    let file = format!("[pick.asked]\ndistributor = {distributor}\n{line}\n{APP}{SITE}");
    match sentence {
        "" => drop(good(&file)),
        sentence => expect(&file, &[(if line.is_empty() { 2 } else { 3 }, sentence)]),
    }
}

const UDP: &str = "[\"udp://10.0.0.5:10010\"]";

#[test]
fn a_distributor_has_an_address() {
    asked(UDP, "", "");
    asked("[\"udp://[2001:db8::1]:10010\", \"tcp://10.0.0.5:1\", \"unix:/run/d.sock\"]", "", "");
    for (url, sentence) in [
        ("10.0.0.5:10010", "a distributor without a scheme: did you mean `udp://10.0.0.5:10010`?"),
        ("upd://10.0.0.5:10010", "unknown scheme `upd`: did you mean `udp`?"),
        ("http://10.0.0.5", "unknown scheme `http`: write `udp`, `tcp` or `unix:/path`"),
        ("udp://d.example:1", "`d.example:1` is no IP address with a port: write `udp://10.0.0.5:10010`"),
        ("udp://10.0.0.5", "`10.0.0.5` is no IP address with a port: write `udp://10.0.0.5:10010`"),
        ("tcp://10.0.0.5:0", "`10.0.0.5:0` is no IP address with a port: write `tcp://10.0.0.5:10010`"),
        ("unix:d.sock", "the path of a unix socket is absolute: `unix:/d.sock`"),
    ] {
        asked(&format!("[\"{url}\"]"), "", sentence);
    }
    asked("[\"udp://10.0.0.5:1\", \"udp://10.0.0.5:1\"]", "", "`udp://10.0.0.5:1` appears twice");
}

#[test]
fn what_does_not_go_together_is_said() {
    asked(UDP, "timeout = \"1s\"", "");
    asked(UDP, "timeout = \"2s\"", "`timeout` is at most 1s");
    asked(UDP, "timeout = \"0\"", "`timeout` is zero: no answer would ever come");
    asked(UDP, "tries = 0", "`tries` is out of bounds");
    asked(UDP, "keep = \"session\"", "");
    asked(UDP, "keep = \"5s\"", "");
    asked(UDP, "keep = \"sesion\"", "`sesion` is not known: did you mean `session`?");
    asked(UDP, "keep = \"5\"", "duration without a unit: did you mean `5s`?");
    asked(UDP, "keep = \"0\"", "`keep` is zero: leave it out");
    asked(UDP, "form = \"plane\"", "unknown value `plane` for `form`");
    asked(UDP, "allow = [\"unix\"]", "a network belongs here, not `unix`");
    asked(UDP, "send = [\"Cookie\", \"X-Tenant\"]", "");
    asked(UDP, "sent = [\"Cookie\"]", "unknown key `sent` in `asked`");
    asked("[\"tcp://10.0.0.5:1\"]", "form = \"full\"", "");
    let plain = format!("[pick.asked]\ndistributor = [\"tcp://10.0.0.5:1\"]\nform = \"plain\"\n{APP}{SITE}");
    expect(&plain, &[(2, "the plain form is asked over UDP alone")]);
    let other = format!("[pick.asked]\nleast = \"cpu\"\ntries = 2\n{APP}{SITE}");
    expect(&other, &[(3, "`tries` has no use without `distributor`")]);
}

#[test]
fn a_server_needs_no_site() {
    let app = "[upstream.app]\norigins = [\"http://127.0.0.1:1\"]\n";
    good(&format!("[distributor]\nlisten = [\"udp://127.0.0.1:10010\"]\n{app}"));
    let policy = |line: &str| {
        let server = "[distributor]\nlisten = [\"udp://127.0.0.1:10010\"]\n[distributor.policy.p]\n";
        format!("{server}{line}\n{app}")
    };
    good(&policy("upstream = \"app\"\npick = \"least_requests\""));
    expect(&policy("upstream = \"ap\""), &[(4, "unknown upstream `ap`")]);
    expect(&policy("upstream = \"app\"\npick = \"latencie\""), &[(5, "unknown value `latencie` for `pick`")]);
    let taken = format!("[distributor]\nlisten = [\"udp://127.0.0.1:1\"]\n{app}[distributor.policy.app]\n");
    expect(&format!("{taken}upstream = \"app\"\n"), &[(5, "`app` is an upstream, and a policy already")]);
}
