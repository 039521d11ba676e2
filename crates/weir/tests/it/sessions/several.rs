//! Sessions over three Weirs that know nothing of each other but the file of keys: through a restart, a
//! reload that adds an origin, an upgrade, and a change of keys, each client stays at its origin.

use std::os::unix::fs::PermissionsExt;

use weir_testkit::{Client, Origin, Weir};

use super::kit::{OWN, User, affinity, answered_by, application, keys};
use crate::server::{Server, server, setup};

const USERS: usize = 60;

/// How many requests there are between two changes. `WEIR_SESSIONS_REQUESTS` says how many in all.
fn rounds() -> usize {
    let all = std::env::var("WEIR_SESSIONS_REQUESTS").map_or(3000, |text| text.parse().unwrap());
    (all / (USERS * 6)).max(1)
}

/// Each user asks each time another Weir; returns how many answers came from where the session is not.
fn ask(users: &mut [User], homes: &[String], weirs: &[Weir]) -> usize {
    let mut connections: Vec<Client> = weirs.iter().map(Weir::client).collect();
    let (mut wrong, count) = (0, connections.len());
    for round in 0..rounds() {
        for (number, user) in users.iter_mut().enumerate() {
            let connection = &mut connections[(round + number) % count];
            // A GET that may not be stored leads a fill the first time that its URL is asked for.
            let (method, target) = match (round + number) % 3 {
                0 => ("POST", "/who".to_owned()),
                1 => ("GET", "/who".to_owned()),
                _ => ("GET", format!("/who?{round}-{number}")),
            };
            let answer = user.ask(connection, method, &target);
            assert_eq!(answer.header("leaked").as_deref(), Some("no"), "no origin sees Weir's cookie");
            let is_right =
                answered_by(&answer) == homes[number] && answer.header("seen").as_deref() == Some("yes");
            wrong += usize::from(!is_right);
        }
    }
    wrong
}

fn config(origins: &[&Origin], keys: &std::path::Path) -> Server {
    server(origins).upstream(&affinity(keys))
}

#[test]
fn three_weirs_keep_sessions_through_every_change() {
    let (a, b, c, d) = (application("a"), application("b"), application("c"), application("d"));
    let (folder, old) = (setup(), "an-old-key-of-48-characters-0123456789abcdefghij\n");
    let file = keys(&folder, old);
    let text = config(&[&a, &b, &c], &file).text();
    let mut weirs: Vec<Weir> = (0..3).map(|_| setup().run_config(&text)).collect();
    let mut users: Vec<User> = (0..USERS).map(User::new).collect();
    let mut homes = Vec::new();
    for (number, user) in users.iter_mut().enumerate() {
        homes.push(answered_by(&user.ask(&mut weirs[number % 3].client(), "POST", "/login")));
        assert!(user.cookie(OWN).is_some());
    }
    assert_eq!(ask(&mut users, &homes, &weirs), 0, "as they were started");
    weirs[0].restart();
    assert_eq!(ask(&mut users, &homes, &weirs), 0, "after a restart");
    let more = config(&[&d, &c, &b, &a], &file).text();
    for weir in &weirs {
        weir.rewrite_config(&more);
        assert_eq!(weir.reload().code, Some(0));
    }
    assert_eq!(ask(&mut users, &homes, &weirs), 0, "after a reload that added an origin");
    let upgraded = weirs[1].upgrade(&[]);
    assert_eq!(upgraded.code, Some(0), "{}{}", upgraded.stdout, upgraded.stderr);
    assert_eq!(ask(&mut users, &homes, &weirs), 0, "after an upgrade");
    // A new key goes to all as the second line first, and then becomes the first.
    let new = "the-new-key-of-48-characters-0123456789abcdefghij\n";
    for lines in [format!("{old}{new}"), format!("{new}{old}")] {
        keys(&folder, &lines);
        for weir in &weirs {
            assert_eq!(weir.reload().code, Some(0));
            assert_eq!(ask(&mut users, &homes, std::slice::from_ref(weir)), 0, "while keys change");
        }
    }
    let mut fresh = User::new(USERS);
    let home = answered_by(&fresh.ask(&mut weirs[0].client(), "POST", "/login"));
    assert_eq!(ask(std::slice::from_mut(&mut fresh), &[home], &weirs), 0, "under the new key");
    for weir in &weirs {
        let moved = weir.metric("weir_sessions_moved_total{upstream=\"main\"}");
        let refused = weir.metric("weir_sessions_refused_total{upstream=\"main\"}");
        assert_eq!((moved, refused), (Some(0.0), Some(0.0)));
    }
    // Without the old key a session begins again, and nothing fails.
    keys(&folder, new);
    assert_eq!(weirs[2].reload().code, Some(0));
    let before = users[0].cookie(OWN).unwrap().to_owned();
    users[0].ask(&mut weirs[2].client(), "POST", "/who");
    assert_ne!(users[0].cookie(OWN), Some(before.as_str()));
    assert_eq!(weirs[2].metric("weir_sessions_refused_total{upstream=\"main\"}"), Some(1.0));
}

#[test]
fn a_file_of_keys_that_others_can_read_changes_nothing() {
    let a = application("a");
    let folder = setup();
    let file = keys(&folder, "0123456789abcdef0123456789abcdef\n");
    let weir = config(&[&a], &file).start();
    let mut user = User::new(1);
    user.ask(&mut weir.client(), "POST", "/login");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let reload = weir.reload();
    let said = reload.stdout + &reload.stderr;
    assert!(reload.code != Some(0) && said.contains("chmod o-rwx"), "{said}");
    let before = user.cookie(OWN).unwrap().to_owned();
    user.ask(&mut weir.client(), "POST", "/who");
    assert_eq!(user.cookie(OWN), Some(before.as_str()), "the old configuration goes on");
}

#[test]
fn a_session_moves_once_when_its_origin_is_gone() {
    let (a, b) = (application("a"), application("b"));
    let folder = setup();
    let file = keys(&folder, "0123456789abcdef0123456789abcdef\n");
    let weir = config(&[&a, &b], &file).start();
    let mut user = User::new(1);
    let home = answered_by(&user.ask(&mut weir.client(), "POST", "/login"));
    let left: &[&Origin] = if home == "a" { &[&b] } else { &[&a] };
    weir.rewrite_config(&config(left, &file).text());
    assert_eq!(weir.reload().code, Some(0));
    let cookie = |user: &User| user.cookie(OWN).unwrap().to_owned();
    let before = cookie(&user);
    let moved = user.ask(&mut weir.client(), "POST", "/who");
    assert_ne!(answered_by(&moved), home);
    assert_ne!(cookie(&user), before, "its cookie names the other one from now on");
    weir.rewrite_config(&config(&[&a, &b], &file).text());
    assert_eq!(weir.reload().code, Some(0));
    for _ in 0..6 {
        assert_eq!(answered_by(&user.ask(&mut weir.client(), "POST", "/who")), answered_by(&moved));
    }
    let counted = |end: &str| weir.metric(&format!("weir_sessions_{end}_total{{upstream=\"main\"}}"));
    let all = ["created", "kept", "moved", "refused"].map(|end| counted(end).unwrap());
    assert_eq!(all, [1.0, 6.0, 1.0, 0.0]);
}
