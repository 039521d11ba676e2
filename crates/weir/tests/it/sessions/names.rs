//! Sessions at the addresses of one name, as DNS says them: each stays at its address while others come and
//! go, through a restart too.

use weir_testkit::{Dns, Exchange, Mood, Origin, Weir, until};

use super::kit::{User, affinity, answered_by, keys, make_application};
use crate::origins::changes::shown;
use crate::origins::names::{addresses, on_one_port};
use crate::server::{server, setup};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The lines of an upstream that asks this name server.
fn by(dns: &Dns) -> String {
    format!(
        "resolve = \"each\"\nnameservers = [\"{}\"]\ndns_refresh = \"1s\"\nconnect = \"1s\"\n\
         queue_wait = \"60s\"\n",
        dns.address()
    )
}

fn url(all: &[Origin]) -> String {
    format!("http://app.test:{}", all[0].addr().port())
}

/// How many users are answered where they are not at home.
fn strays(weir: &Weir, users: &mut [User], homes: &[String]) -> usize {
    let mut connection = weir.client();
    let mut is_stray = |(user, home): (&mut User, &String)| {
        let answer = user.ask(&mut connection, "POST", "/who");
        answered_by(&answer) != *home || answer.header("seen").as_deref() != Some("yes")
    };
    users.iter_mut().zip(homes).filter_map(|both| is_stray(both).then_some(())).count()
}

#[test]
fn a_session_stays_at_its_address_of_a_name() {
    let (dns, all, folder) = (Dns::start(), on_one_port(3), setup());
    all.iter().zip(NAMES).for_each(|(origin, name)| make_application(origin, name));
    dns.addresses("app.test", 0, &addresses(&all[..2]));
    let file = keys(&folder, "0123456789abcdef0123456789abcdef\n");
    let lines = by(&dns) + &affinity(&file);
    let mut weir = server(&[]).origins(&format!("\"{}\"", url(&all))).upstream(&lines).start_in(folder);
    let mut users: Vec<User> = (0..12).map(User::new).collect();
    let mut connection = weir.client();
    // The first request may come before DNS has answered.
    let login = |user: &mut User| answered_by(&user.ask(&mut connection, "POST", "/login"));
    let homes: Vec<String> = users.iter_mut().map(login).collect();
    assert_eq!(homes.iter().filter(|home| *home == "a").count(), 6, "{homes:?}");
    assert_eq!(strays(&weir, &mut users, &homes), 0);
    dns.addresses("app.test", 0, &addresses(&all));
    until("the third takes part", || answered_by(&weir.get("/who")) == "c");
    assert_eq!(strays(&weir, &mut users, &homes), 0, "while another address comes");
    // A Weir that has just begun waits for DNS before it moves a session.
    dns.mood(Mood::Silent);
    weir.restart();
    let asked = dns.asked();
    std::thread::scope(|scope| {
        let strays = scope.spawn(|| strays(&weir, &mut users, &homes));
        until("DNS is asked", || dns.asked() > asked);
        dns.mood(Mood::Honest);
        assert_eq!(strays.join().unwrap(), 0, "after a restart");
    });
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(0.0));
}

/// An application whose session ids end with the name that its own address gives it.
fn make_tomcat(origin: &Origin) {
    let node = format!("app-{}", origin.addr().ip().to_string().replace('.', "-"));
    origin.otherwise(move |exchange: &mut Exchange<'_>| {
        exchange.body();
        let user = exchange.request.header("x-user").unwrap_or_default();
        let cookie = format!("JSESSIONID={user}.{node}; Path=/");
        let mut fields = vec![("Origin-Name", node.as_str()), ("Cache-Control", "no-store")];
        if exchange.request.path() == "/login" {
            fields.push(("Set-Cookie", &cookie));
        }
        exchange.reply(200, &fields, "");
    });
}

#[test]
fn a_session_id_names_an_address_of_a_name() {
    let (dns, all) = (Dns::start(), on_one_port(3));
    all.iter().for_each(make_tomcat);
    dns.addresses("app.test", 0, &addresses(&all[..2]));
    let lines = by(&dns) + "affinity = { by = \"suffix\", cookie = \"JSESSIONID\" }";
    let origin = format!("{{ url = \"{}\", id = \"app\" }}", url(&all));
    let weir = server(&[]).origins(&origin).upstream(&lines).start();
    let mut connection = weir.client();
    let mut users: Vec<User> = (0..10).map(User::new).collect();
    let mut ask = |user: &mut User, target| answered_by(&user.ask(&mut connection, "POST", target));
    let homes: Vec<String> = users.iter_mut().map(|user| ask(user, "/login")).collect();
    dns.addresses("app.test", 0, &addresses(&all));
    until("the third takes part", || answered_by(&weir.get("/who")) == "app-127-0-0-3");
    for (user, home) in users.iter_mut().zip(&homes) {
        assert_eq!([(); 3].map(|()| ask(user, "/who")), [home.as_str(); 3]);
    }
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(0.0));
    // The operator sees which id is whose.
    let listed = weir.command(&["origins"]).stdout;
    let line = listed.lines().find(|line| line.contains("@127.0.0.2:")).unwrap();
    assert!(line.contains("id app-127-0-0-2"), "{listed}");
}

#[test]
fn a_session_id_names_an_origin_that_an_operator_adds() {
    let all = on_one_port(2);
    all.iter().for_each(make_tomcat);
    let lines = "affinity = { by = \"suffix\", cookie = \"JSESSIONID\" }";
    let origin = format!("{{ url = \"{}\", id = \"app-127-0-0-1\" }}", all[0].url());
    let mut weir = server(&[]).origins(&origin).upstream(lines).start();
    let added = all[1].url();
    let add = |weir: &Weir, id: &[&str]| {
        weir.command(&[&["origins", "add", "main", &added, "--keep", "--weight", "1000"], id].concat())
    };
    for (id, why) in [(vec![], "--id"), (vec!["--id", "a.b"], "is no id")] {
        let refused = add(&weir, &id);
        assert!(refused.code != Some(0) && refused.stderr.contains(why), "{refused:?}");
    }
    let done = add(&weir, &["--id", "app-127-0-0-2"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let asked = |weir: &Weir| {
        let fields = [("Cookie", "JSESSIONID=7.app-127-0-0-2")];
        let mut client = weir.client();
        [(); 8].map(|()| answered_by(&client.get("x", "/who", &fields)))
    };
    // Of those that name the other one nearly none would come there without a session.
    let home = |weir: &Weir| answered_by(&weir.get_with("/who", &[("Cookie", "JSESSIONID=7.app-127-0-0-1")]));
    assert_eq!(
        (home(&weir), asked(&weir)),
        ("app-127-0-0-1".into(), [(); 8].map(|()| "app-127-0-0-2".into()))
    );
    weir.restart();
    assert_eq!(
        (home(&weir), asked(&weir)),
        ("app-127-0-0-1".into(), [(); 8].map(|()| "app-127-0-0-2".into()))
    );
    // Added as a backup it serves its sessions alone while the other one is up.
    for args in [&["remove", "main", &added, "--keep"][..], &["add", "main", &added, "--backup", "--id", "b"]]
    {
        assert_eq!(weir.command(&[&["origins"], args].concat()).code, Some(0));
    }
    let of_backup = weir.get_with("/who", &[("Cookie", "JSESSIONID=7.b")]);
    assert_eq!(answered_by(&of_backup), "app-127-0-0-2");
    assert_eq!(answered_by(&weir.get("/who")), "app-127-0-0-1");
}

#[test]
fn an_address_that_dns_names_no_more_keeps_its_sessions_for_their_lifetime() {
    let (dns, all, folder) = (Dns::start(), on_one_port(2), setup());
    all.iter().zip(NAMES).for_each(|(origin, name)| make_application(origin, name));
    dns.addresses("app.test", 0, &addresses(&all));
    let file = keys(&folder, "0123456789abcdef0123456789abcdef\n");
    let affinity = affinity(&file).replace(" }", ", lifetime = \"6s\" }");
    let weir =
        server(&[]).origins(&format!("\"{}\"", url(&all))).upstream(&(by(&dns) + &affinity)).start_in(folder);
    let mut connection = weir.client();
    let mut users: Vec<User> = (0..2).map(User::new).collect();
    for user in &mut users {
        user.ask(&mut connection, "POST", "/login");
    }
    let gone = format!("http://app.test@{}", all[0].addr());
    let state = || shown(&weir, &gone)["state"].as_str().unwrap_or("left").to_owned();
    dns.addresses("app.test", 0, &addresses(&all[1..]));
    until("it drains", || state() == "draining");
    // Its user comes again and again, for longer than `dns_refresh`.
    let mut ask = |user: &mut User| answered_by(&user.ask(&mut connection, "POST", "/who"));
    let asked = dns.asked();
    until("DNS has said it several times", || {
        assert_eq!((ask(&mut users[0]), ask(&mut users[1])), ("a".to_owned(), "b".to_owned()));
        dns.asked() >= asked + 6
    });
    assert_eq!(state(), "draining");
    // However often it comes: at last the address leaves, and the session moves.
    until("the session has moved", || ask(&mut users[0]) == "b");
    until("it has left", || state() == "left");
    assert_eq!(weir.metric("weir_sessions_moved_total{upstream=\"main\"}"), Some(1.0));
}
