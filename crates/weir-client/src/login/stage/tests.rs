//! What request and response say of a login.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{Stage, logs_in, stage_after};

fn fields(name: &'static str, lines: &[&str]) -> HeaderMap {
    let field = |line: &&str| (HeaderName::from_static(name), HeaderValue::from_str(line).unwrap());
    lines.iter().map(field).collect()
}

#[test]
fn which_credentials_log_a_connection_in() {
    for (line, expect) in [
        ("NTLM TlRMTVNTUAAB", true),
        ("negotiate YII=", true),
        ("Nego2 YII=", true),
        ("NTLM", true),
        ("Basic TlRMTQ==", false),
        ("Bearer NTLM", false),
        ("NTLMv9 x", false),
        ("", false),
    ] {
        assert_eq!(logs_in(&fields("authorization", &[line])), expect, "{line}");
    }
    assert!(!logs_in(&HeaderMap::new()));
}

#[test]
fn how_far_a_login_has_come() {
    use Stage::{Midway, Offered, Open};
    let check = |before, credentials: &[&str], status: u16, challenges: &[&str], expect| {
        let status = StatusCode::from_u16(status).unwrap();
        let (request, response) =
            (fields("authorization", credentials), fields("www-authenticate", challenges));
        let stage = stage_after(before, &request, (status, &response));
        assert_eq!(stage, expect, "{before:?} {credentials:?} {status} {challenges:?}");
    };
    check(None, &[], 200, &[], None);
    check(None, &[], 401, &["Basic realm=\"x\""], None);
    check(None, &[], 200, &["NTLM"], None);
    check(None, &[], 401, &["NTLM"], Some(Offered));
    check(None, &[], 401, &["Basic realm=\"x\", Negotiate"], Some(Offered));
    check(None, &[], 401, &["Negotiate", "NTLM"], Some(Offered));
    check(None, &["NTLM one"], 401, &["NTLM two"], Some(Midway));
    check(Some(Offered), &["NTLM one"], 401, &["Negotiate", "NTLM two"], Some(Midway));
    check(Some(Midway), &["NTLM three"], 200, &[], Some(Open));
    check(Some(Midway), &["NTLM three"], 401, &["NTLM"], Some(Open));
    check(None, &["Negotiate ticket"], 200, &[], Some(Open));
    check(Some(Open), &[], 200, &[], Some(Open));
    check(Some(Open), &[], 401, &["NTLM"], Some(Open));
    check(Some(Offered), &[], 200, &[], Some(Offered));
    check(None, &["Basic eA=="], 200, &[], None);
}
