//! Sessions over HTTP/2, and sessions whose origin refuses a request: it is answered elsewhere, and so is the
//! rest of the session.

use weir_testkit::{H2Client, Origin, Weir};

use super::kit::{OWN, User, affinity, answered_by, application, keys};
use crate::server::{server, setup};

const KEY: &str = "0123456789abcdef0123456789abcdef\n";

#[test]
fn a_session_over_http2_keeps_its_origin() {
    let origins = ["a", "b", "c"].map(application);
    let folder = setup();
    let keys = keys(&folder, KEY);
    let origins: Vec<&Origin> = origins.iter().collect();
    let text = server(&origins).upstream(&affinity(&keys)).text();
    let text =
        text.replace("address = \"{listen}\"", "address = \"{listen}\"\nprotocols = [\"h2\", \"http/1.1\"]");
    let weir = folder.run_config(&text);
    let mut client = H2Client::connect(weir.addr());
    for number in 0..9 {
        let user = format!("user{number}");
        let login = client.ask("POST", "x", "/login", &[("x-user", &user)]);
        let login = client.recv(login).unwrap();
        let set = login.head.all("set-cookie");
        let own = set.iter().find_map(|line| line.split(';').next().filter(|pair| pair.starts_with(OWN)));
        let (own, sid) = (own.unwrap(), format!("sid={user}"));
        // A client may send each cookie in a field of its own (RFC 9113 §8.2.3).
        let crumbs = [("x-user", user.as_str()), ("cookie", own), ("cookie", &sid)];
        let asked = [(); 3].map(|()| client.ask("GET", "x", "/who", &crumbs));
        for id in asked {
            let answer = client.recv(id).unwrap();
            assert_eq!(answered_by(&answer), answered_by(&login));
            assert_eq!(
                (answer.header("seen"), answer.header("leaked")),
                (Some("yes".into()), Some("no".into()))
            );
        }
    }
    assert_eq!(weir.metric("weir_sessions_kept_total{upstream=\"main\"}"), Some(27.0));
}

fn counted(weir: &Weir, end: &str) -> f64 {
    weir.metric(&format!("weir_sessions_{end}_total{{upstream=\"main\"}}")).unwrap()
}

#[test]
fn a_session_whose_origin_refuses_is_answered_elsewhere_and_moves() {
    let mut origins = vec![application("a"), application("b")];
    let folder = setup();
    let keys = keys(&folder, KEY);
    let both: Vec<&Origin> = origins.iter().collect();
    // Each request with a session is passed: also one for what is stored.
    let affinity = affinity(&keys).replace(" }", ", bypass = true }");
    let weir = server(&both).upstream(&affinity).start_in(folder);
    for _ in 0..2 {
        weir.get("/page?store");
    }
    assert!(weir.get("/page?store").is_hit());
    let mut users: Vec<User> = (0..6).map(User::new).collect();
    let mut connection = weir.client();
    let mut ask = |user: &mut User, target: &str| {
        let answer = user.ask(&mut connection, "GET", target);
        assert_eq!(answer.status(), 200, "{:?}", answer.head);
        (answered_by(&answer), answer.is_hit())
    };
    let homes: Vec<String> = users.iter_mut().map(|user| ask(user, "/login").0).collect();
    let places = |users: &[User]| -> Vec<String> {
        users.iter().map(|user| user.cookie(OWN).unwrap().to_owned()).collect()
    };
    let before = places(&users);
    for (user, home) in users.iter_mut().zip(&homes) {
        assert_eq!(ask(user, "/page?store"), (home.clone(), false), "it bypasses the cache");
    }
    assert_eq!(counted(&weir, "moved"), 0.0);
    // Nobody listens there any more: no request fails, and the sessions have another origin.
    drop(origins.remove(0));
    for user in &mut users {
        assert_eq!(
            [(); 2].map(|()| ask(user, "/page?store")),
            [("b".to_owned(), false), ("b".to_owned(), false)]
        );
    }
    let of_a = homes.iter().filter(|home| *home == "a").count();
    assert!(of_a > 0, "{homes:?}");
    for ((home, before), after) in homes.iter().zip(before).zip(places(&users)) {
        assert_eq!(home == "b", before == after, "who has moved has another cookie");
    }
    assert_eq!(counted(&weir, "moved"), of_a as f64);
}
