//! Clients of one address beside each other: they spread over the origins, nobody gets a cookie of somebody
//! else's, nothing of a session is stored, and forged cookies lead nowhere.

use std::collections::BTreeMap;

use weir_testkit::{Origin, Weir, pattern};

use super::kit::{OWN, User, affinity, answered_by, application, keys};
use crate::server::{server, setup};

fn three() -> [Origin; 3] {
    ["a", "b", "c"].map(application)
}

fn before(origins: &[Origin], site: &str) -> Weir {
    let folder = setup();
    let keys = keys(&folder, "0123456789abcdef0123456789abcdef\n");
    let origins: Vec<&Origin> = origins.iter().collect();
    server(&origins).upstream(&affinity(&keys)).site(site).start_in(folder)
}

#[test]
fn clients_behind_one_address_spread_and_stay() {
    let origins = three();
    let weir = before(&origins, "");
    let mut shares: BTreeMap<String, usize> = BTreeMap::new();
    let mut connection = weir.client();
    for number in 0..90 {
        let mut user = User::new(number);
        let home = answered_by(&user.ask(&mut connection, "POST", "/login"));
        for target in ["/who", "/who?1", "/other"] {
            assert_eq!(answered_by(&user.ask(&mut connection, "POST", target)), home);
        }
        *shares.entry(home).or_default() += 1;
    }
    // Requests of sessions take no turn: those without one go round.
    assert_eq!(shares.into_values().collect::<Vec<_>>(), [30, 30, 30]);
}

#[test]
fn nobody_gets_a_cookie_of_another_client() {
    let origins = three();
    let weir = before(&origins, "");
    let clients: Vec<_> = (0..12)
        .map(|number| {
            let addr = weir.addr();
            std::thread::spawn(move || {
                let mut connection = weir_testkit::Client::connect(addr);
                let mut strange = Vec::new();
                for round in 0..40 {
                    let mut user = User::new(number * 1000 + round);
                    // All ask for the same URLs at once: what may be stored and what begins a session.
                    for target in ["/login", "/login?store", "/page?store", "/who"] {
                        let target = format!("{target}#{round}")
                            .replace('#', if target.contains('?') { "&" } else { "?" });
                        let answer = user.ask(&mut connection, "GET", &target);
                        let cookies = answer.head.all("set-cookie").into_iter();
                        let of_origin = cookies.filter(|line| !line.starts_with(OWN));
                        let own = format!("sid={};", user.name);
                        strange.extend(of_origin.filter(|line| !line.starts_with(&own)).map(str::to_owned));
                        if target.starts_with("/login") && answer.text() != user.name {
                            strange.push(format!("{target} of {}", user.name));
                        }
                        if answer.is_hit() && !answer.head.all("set-cookie").is_empty() {
                            strange.push(format!("{target}: {:?}", answer.head));
                        }
                    }
                }
                strange
            })
        })
        .collect();
    let strange: Vec<String> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert!(strange.is_empty(), "{} of them: {:?}", strange.len(), strange.first());
    // Nothing of it is stored: no URL that begins a session is answered from the cache, and what is has none.
    for round in 0..40 {
        let login = weir.get(&format!("/login?store&{round}"));
        assert!(!login.is_hit(), "{:?}", login.head);
        let page = weir.get(&format!("/page?store&{round}"));
        assert!(page.is_hit() && page.head.all("set-cookie").is_empty(), "{:?}", page.head);
    }
}

#[test]
fn forged_cookies_lead_nowhere_and_are_counted() {
    let origins = three();
    let weir = before(&origins, "");
    let mut user = User::new(1);
    user.ask(&mut weir.client(), "POST", "/login");
    let good = user.cookie(OWN).unwrap().to_owned();
    let long = "A".repeat(6000);
    let mut forged: Vec<String> =
        ["", "a", "..", "%00", "\"", "http://127.0.0.1:1", "node1"].map(str::to_owned).into();
    forged.extend([long, format!("{good}A"), good[1..].to_owned(), good.to_lowercase()]);
    // Any text as long as a cookie is.
    forged.extend((0..200).map(|seed| {
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        pattern(seed, 40).iter().map(|byte| char::from(letters[usize::from(*byte) % 64])).collect()
    }));
    let mut shares: BTreeMap<String, usize> = BTreeMap::new();
    for value in &forged {
        let cookie = format!("{OWN}={value}");
        let answer = weir.get_with("/who", &[("Cookie", &cookie)]);
        assert_eq!((answer.status(), answer.header("leaked").as_deref()), (200, Some("no")), "{cookie}");
        *shares.entry(answered_by(&answer)).or_default() += 1;
    }
    assert!(shares.values().all(|share| share.abs_diff(forged.len() / 3) <= 3), "{shares:?}");
    let refused = weir.metric("weir_sessions_refused_total{upstream=\"main\"}").unwrap();
    assert_eq!(refused, forged.len() as f64);
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(0.0));
}

#[test]
fn the_log_says_what_became_of_a_session() {
    let origins = three();
    let weir = before(&origins, "[log]\naccess = \"json\"\npath = \"{folder}/access.log\"");
    let mut user = User::new(1);
    user.ask(&mut weir.client(), "POST", "/login");
    user.ask(&mut weir.client(), "POST", "/who");
    let log = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    weir_testkit::until("both are logged", || log().contains("\"session\":\"kept\""));
    assert!(log().contains("\"session\":\"created\""), "{}", log());
    assert!(!log().contains("\"session\":\"refused\""), "{}", log());
    // A forged cookie is told from none, although the client gets one of Weir's in its place.
    let forged = weir.get_with("/who", &[("Cookie", &format!("{OWN}=forged"))]);
    assert!(!forged.head.all("set-cookie").is_empty(), "{:?}", forged.head);
    weir_testkit::until("the forged one is logged", || log().contains("\"session\":\"refused\""));
    assert_eq!(log().matches("\"session\":\"created\"").count(), 1, "{}", log());
}

#[test]
fn a_draining_origin_keeps_its_sessions_and_gets_no_others() {
    let origins = three();
    let weir = before(&origins, "");
    let mut connection = weir.client();
    let mut users: Vec<User> = (0..30).map(User::new).collect();
    let homes: Vec<String> =
        users.iter_mut().map(|user| answered_by(&user.ask(&mut connection, "POST", "/login"))).collect();
    let drained = weir.command(&["origins", "drain", "main", &origins[0].url()]);
    assert_eq!(drained.code, Some(0), "{}{}", drained.stdout, drained.stderr);
    for round in 0..10 {
        for (user, home) in users.iter_mut().zip(&homes) {
            let answer = user.ask(&mut connection, "GET", &format!("/who?{round}"));
            assert_eq!((answered_by(&answer), answer.header("seen")), (home.clone(), Some("yes".to_owned())));
        }
        assert_ne!(answered_by(&User::new(99).ask(&mut connection, "POST", "/login")), "a");
    }
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(0.0));
    let closed = weir.command(&["origins", "maint", "main", &origins[0].url()]);
    assert_eq!(closed.code, Some(0), "{}{}", closed.stdout, closed.stderr);
    for (user, home) in users.iter_mut().zip(&homes) {
        let now = answered_by(&user.ask(&mut connection, "POST", "/who"));
        assert!(if home == "a" { now != "a" } else { now == *home }, "{home} {now}");
        assert_eq!(answered_by(&user.ask(&mut connection, "POST", "/who")), now);
    }
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(10.0));
}

#[test]
fn explain_knows_the_session() {
    let origins = three();
    let folder = setup();
    let keys = keys(&folder, "0123456789abcdef0123456789abcdef\n");
    let line =
        format!("affinity = {{ by = \"own\", key_file = {keys:?}, cookie = \"{OWN}\", bypass = true }}");
    let weir = server(&origins.iter().collect::<Vec<_>>()).upstream(&line).start_in(folder);
    let explained = |cookie: &str, method: &str| {
        let args = ["explain", "http://localhost/page?store", "--method", method, "--cookie", cookie];
        weir.command(&args).stdout
    };
    let mut connection = weir.client();
    for number in 0..5 {
        let mut user = User::new(number);
        let home = answered_by(&user.ask(&mut connection, "POST", "/login"));
        let at = ["a", "b", "c"].iter().position(|name| *name == home).unwrap();
        let cookie = format!("{OWN}={}", user.cookie(OWN).unwrap());
        for method in ["GET", "POST"] {
            let said = explained(&cookie, method);
            let picked =
                said.lines().find(|line| line.trim_start().starts_with("picked")).unwrap_or_default();
            assert!(picked.contains(&origins[at].url()) && picked.contains("session"), "{said}");
            // The walk goes the same way, and the cookie reaches no origin.
            assert!(!said.contains(user.cookie(OWN).unwrap()), "{said}");
        }
        assert!(explained(&cookie, "GET").contains("the request has a session"));
        // Of a forged one nothing is known: the cache is asked, and a fill follows no session.
        let forged = explained(&format!("{OWN}=v1.AAAA"), "GET");
        assert!(!forged.contains("the request has a session") && forged.contains("miss"), "{forged}");
        assert!(!forged.contains(": session"), "{forged}");
    }
}
