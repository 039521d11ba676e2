//! Origins that say who they are, and clients with a jar for cookies.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use weir_testkit::{Client, Exchange, Origin, Response, Setup};

/// The cookie of Weir in these scenarios.
pub(super) const OWN: &str = "place";

/// An application that keeps its sessions in its own memory: `/login` begins one, and `/who` says in the
/// field `Seen` whether it is known here. Responses to `/page` may be stored, unless they begin a session.
pub(super) fn application(name: &'static str) -> Origin {
    let origin = Origin::start();
    make_application(&origin, name);
    origin
}

/// Makes such an application of an origin.
pub(super) fn make_application(origin: &Origin, name: &'static str) {
    let sessions = std::sync::Mutex::new(std::collections::BTreeSet::new());
    origin.otherwise(move |exchange: &mut Exchange<'_>| {
        exchange.body();
        let cookies = exchange.request.header("cookie").unwrap_or_default();
        let sid = cookies.split("; ").find_map(|pair| pair.strip_prefix("sid=")).map(str::to_owned);
        let user = exchange.request.header("x-user").unwrap_or_default();
        let (path, query) = (exchange.request.path().to_owned(), exchange.request.target.clone());
        let is_leaked = if cookies.contains(OWN) { "yes" } else { "no" };
        let mut fields = vec![("Origin-Name", name.to_owned()), ("Leaked", is_leaked.to_owned())];
        if path.starts_with("/login") {
            sessions.lock().unwrap().insert(user.clone());
            fields.push(("Set-Cookie", format!("sid={user}; Path=/")));
        }
        let is_known = sid.is_some_and(|sid| sessions.lock().unwrap().contains(&sid));
        fields.push(("Seen", if is_known { "yes" } else { "no" }.to_owned()));
        let control = if query.contains("store") { "max-age=600" } else { "no-store" };
        fields.push(("Cache-Control", control.to_owned()));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        exchange.reply(200, &fields, user);
    });
}

/// A file of keys, closed to others.
pub(super) fn keys(setup: &Setup, lines: &str) -> PathBuf {
    let path = setup.file("session-keys", lines);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// The line of an upstream whose sessions keep their origin.
pub(super) fn affinity(keys: &std::path::Path) -> String {
    format!("affinity = {{ by = \"own\", key_file = {keys:?}, cookie = \"{OWN}\" }}")
}

/// A user with a browser.
#[derive(Default)]
pub(super) struct User {
    pub(super) name: String,
    jar: BTreeMap<String, String>,
}

impl User {
    pub(super) fn new(number: usize) -> User {
        User { name: format!("user{number}"), jar: BTreeMap::new() }
    }

    /// What the browser holds under this name.
    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        self.jar.get(name).map(String::as_str)
    }

    /// Sends a request over this connection, and keeps the cookies of the response.
    pub(super) fn ask(&mut self, connection: &mut Client, method: &str, target: &str) -> Response {
        let jar: Vec<String> = self.jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = if jar.is_empty() { String::new() } else { format!("Cookie: {}\r\n", jar.join("; ")) };
        let length = if method == "GET" { "" } else { "Content-Length: 0\r\n" };
        let name = &self.name;
        connection.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-User: {name}\r\n{cookies}{length}\r\n"
        ));
        let response = connection.recv().unwrap_or_else(|why| panic!("{method} {target} of {name}: {why}"));
        for line in response.head.all("set-cookie") {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            self.jar.insert(name.to_owned(), value.to_owned());
        }
        response
    }
}

/// The origin that answered.
pub(super) fn answered_by(response: &Response) -> String {
    response.header("origin-name").unwrap_or_else(|| panic!("{:?}", response.head))
}
