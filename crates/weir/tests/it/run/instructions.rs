//! What a request costs, in instructions of the worker: counted by Valgrind in the build under test, and
//! compared with what is checked in (`xtask/ratchets/instructions.txt`). Skipped where there is no Valgrind.
//!
//! No time is measured, but Weir does some things by the clock, and so does more for the same requests beside
//! other scenarios. What is left out therefore, or made the same each time:
//! - A request whose first byte took 10 ms is written down for `weir log --past`: 24,000 instructions.
//!   Valgrind makes few requests so slow, and a busy machine most. [`BY_THE_CLOCK`] is not counted.
//! - A connection whose request is there when the worker looks is not registered with epoll: 7,000
//!   instructions less. The worker does not run while a client connects and asks ([`by_itself`]).
//!
//! What is left are timers and the pool's look at idle connections, which come by time as well: below 2 %
//! where a request takes a second.
//!
//! `WEIR_REWRITE=1` writes down what costs less than before; it refuses what costs more.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_testkit::{Client, Origin, Resource, Weir};

use crate::server::setup;

/// Requests that are counted, after as many that are not.
const REQUESTS: usize = 40;
/// Counts differ by some per mille from run to run: tables with random seeds, clocks.
const TOLERANCE_PERCENT: u64 = 5;
/// Those of another compiler may differ by so much.
const TOLERANCE_OF_COMPILERS_PERCENT: u64 = 25;
/// Valgrind writes what it has counted, and begins again, where this is called. Only [`mark`] asks for it.
const MARK: &str = "weir_edge::local::answer";
/// It counts within this: all that the worker's thread does.
const WORKER: &str = "weir_front::worker::start::{{closure}}";

/// It does not count within these.
const BY_THE_CLOCK: [&str; 2] =
    ["weir_edge::exchange::Note::describe", "weir_observe::log::LogQueue<L>::put"];

type Counts = BTreeMap<String, u64>;

#[test]
fn a_request_costs_no_more_instructions_than_it_did() {
    if Command::new("valgrind").arg("--version").output().is_err() || std::env::var("WEIR_BINARY").is_ok() {
        return eprintln!("skipped: there is no valgrind, or another build is tested");
    }
    let origin = Origin::start();
    origin.put("/held", Resource::fresh(vec![b'x'; 1000]));
    origin.put("/own", Resource::new(vec![b'x'; 1000]).header("Cache-Control", "no-store"));
    origin.otherwise(|exchange| {
        let control = if exchange.request.path().starts_with("/miss") { "no-store" } else { "max-age=600" };
        exchange.reply(200, &[("Cache-Control", control), ("Content-Type", "text/plain")], [b'x'; 1000]);
    });
    let counted = count(&origin);
    let is_rewriting = std::env::var("WEIR_REWRITE").is_ok();
    let (table, compiler) = (Table::read(), compiler());
    let tolerance = match compiler == table.compiler {
        true => TOLERANCE_PERCENT,
        false => TOLERANCE_OF_COMPILERS_PERCENT,
    };
    eprintln!("{counted:?}");
    for (name, now) in &counted {
        let count = match table.counts.get(name) {
            None if is_rewriting => continue,
            count => count.unwrap_or_else(|| panic!("the table has no row for a {name}")),
        };
        let most = count * (100 + tolerance) / 100;
        let rule = "find what it does more, or say in the commit why it must and correct the table";
        assert!(*now <= most, "a {name} costs {now} instructions; {most} are allowed: {rule}");
    }
    if is_rewriting {
        table.lowered(&counted, compiler).write();
    }
}

/// Instructions of one request by what it is.
fn count(origin: &Origin) -> Counts {
    let setup = setup().arg("--workers").arg("1").arg("--log").arg("off");
    let out = setup.folder().join("counted");
    // Each begin and end of one of these turns counting on or off.
    let toggles: String =
        [WORKER].iter().chain(&BY_THE_CLOCK).map(|name| format!(" --toggle-collect='{name}'")).collect();
    let valgrind = format!(
        "exec valgrind --quiet --tool=callgrind --callgrind-out-file='{}' --dump-before='{MARK}' {toggles} \
         \"$0\" \"$@\"",
        out.display()
    );
    let weir = setup.first(&valgrind).run(&origin.url());
    let mut client = weir.client();
    mark(&mut client);
    let mut marks = Marks { out, number: 1 };
    let nothing = marks.next(&mut client);
    let mut counts = Counts::new();
    let kinds: [(&str, &dyn Fn(&mut Client, usize)); 5] = [
        ("hit", &|client, _| get(client, "/held")),
        ("pass", &|client, _| get(client, "/own")),
        ("miss", &|client, number| get(client, &format!("/miss/{number}"))),
        ("fill", &|client, number| get(client, &format!("/fill/{number}"))),
        ("connection", &|_, _| by_itself(&weir)),
    ];
    for (name, ask) in kinds {
        (0..REQUESTS).for_each(|number| ask(&mut client, number));
        marks.next(&mut client);
        (REQUESTS..2 * REQUESTS).for_each(|number| ask(&mut client, number));
        let all = marks.next(&mut client);
        counts.insert(name.to_owned(), all.saturating_sub(nothing) / REQUESTS as u64);
    }
    counts
}

/// A request and its response.
fn get(client: &mut Client, target: &str) {
    send(client, target);
    assert_eq!(client.recv().unwrap().status(), 200, "{target}");
}

/// A request with the fields of a browser.
fn send(client: &mut Client, target: &str) {
    let fields = [
        ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        ("Accept-Language", "en-US,en;q=0.5"),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("Sec-Fetch-Dest", "document"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Site", "none"),
    ];
    client.send_get("localhost", target, &fields);
}

/// A hit over a connection of its own, whose request is there before the worker looks.
fn by_itself(weir: &Weir) {
    weir.signal("STOP");
    let mut client = weir.client();
    send(&mut client, "/held");
    weir.signal("CONT");
    assert_eq!(client.recv().unwrap().status(), 200);
}

/// Has Valgrind write what it has counted.
fn mark(client: &mut Client) {
    client.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 0\r\n\r\n");
    client.recv().unwrap();
}

/// What Valgrind has written.
struct Marks {
    out: PathBuf,
    number: usize,
}

impl Marks {
    /// Instructions between the mark before and this one.
    fn next(&mut self, client: &mut Client) -> u64 {
        mark(client);
        self.number += 1;
        let file = self.out.with_extension(self.number.to_string());
        let text = std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{file:?}: {why}"));
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        totals
            .and_then(|totals| totals.trim().parse().ok())
            .unwrap_or_else(|| panic!("no totals in {file:?}"))
    }
}

/// What is checked in.
struct Table {
    compiler: String,
    counts: Counts,
}

impl Table {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/ratchets/instructions.txt")
    }

    fn read() -> Table {
        let text = std::fs::read_to_string(Table::path()).unwrap_or_default();
        let compiler = text.lines().find_map(|line| line.strip_prefix("# compiler: "));
        let count = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        let counts = text.lines().filter(|line| !line.starts_with('#')).filter_map(count).collect();
        Table { compiler: compiler.unwrap_or_default().to_owned(), counts }
    }

    /// With what costs less by now.
    fn lowered(self, counted: &Counts, compiler: String) -> Table {
        let is_known = compiler == self.compiler;
        let least = |name: &String, now: u64| match self.counts.get(name).filter(|_| is_known) {
            Some(before) => now.min(*before),
            None => now,
        };
        let counts = counted.iter().map(|(name, now)| (name.clone(), least(name, *now))).collect();
        Table { compiler, counts }
    }

    fn write(&self) {
        let mut text = "# instructions of a worker for one request, in the build of the tests; \
                        `WEIR_REWRITE=1 cargo test -p weir --test it -- instructions`\n"
            .to_owned();
        let _ = writeln!(text, "# compiler: {}", self.compiler);
        for (name, count) in &self.counts {
            let _ = writeln!(text, "{name} {count}");
        }
        std::fs::write(Table::path(), text).unwrap();
    }
}

/// The compiler and the machine that it compiles for.
fn compiler() -> String {
    let said = Command::new("rustc").arg("--version").output();
    let version =
        said.map_or_else(|_| String::new(), |said| String::from_utf8_lossy(&said.stdout).into_owned());
    format!("{}, {}", version.trim(), std::env::consts::ARCH)
}
