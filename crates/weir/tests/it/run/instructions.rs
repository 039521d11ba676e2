//! What a request costs, in instructions and allocations of the worker: counted by Valgrind in the build
//! under test, and compared with what is checked in (`xtask/ratchets/instructions.txt`). Skipped where there
//! is no Valgrind.
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

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_testkit::{Authority, Client, H2Client, Origin, Resource, TlsClient, Weir};

use crate::server::setup;

/// Requests that are counted, after as many that are not.
const REQUESTS: usize = 20;
/// Counts differ by some per mille from run to run: tables with random seeds, clocks.
const TOLERANCE_PERCENT: u64 = 5;
/// Calls are counted on all threads, and some of them allocate by the clock: so many a request.
const ALLOCATIONS_BESIDE: u64 = 4;
/// Those of another compiler may differ by so much.
const TOLERANCE_OF_COMPILERS_PERCENT: u64 = 25;
/// Valgrind writes what it has counted, and begins again, where this is called. Only [`mark`] asks for it.
const MARK: &str = "weir_edge::local::answer";
/// It counts within this: all that the worker's thread does.
const WORKER: &str = "weir_front::worker::start::{{closure}}";
/// It does not count within these.
const BY_THE_CLOCK: [&str; 2] = [
    "weir_edge::exchange::finish::<impl weir_edge::exchange::Note>::describe",
    "weir_observe::log::LogQueue<L>::put",
];
/// Each allocation, and each one that grows or shrinks, is a call of one of these.
const ALLOCATES: [&str; 3] = ["alloc", "alloc_zeroed", "realloc"];

/// What one request costs.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    instructions: u64,
    allocations: u64,
}

impl Cost {
    /// Of one request, where `self` is that of all beside `nothing`.
    fn of_one(self, nothing: Cost) -> Cost {
        let one = |all: u64, nothing: u64| all.saturating_sub(nothing) / REQUESTS as u64;
        Cost {
            instructions: one(self.instructions, nothing.instructions),
            allocations: one(self.allocations, nothing.allocations),
        }
    }

    fn least(self, other: Cost) -> Cost {
        Cost {
            instructions: self.instructions.min(other.instructions),
            allocations: self.allocations.min(other.allocations),
        }
    }
}

type Costs = BTreeMap<String, Cost>;

#[test]
fn a_request_costs_no_more_than_it_did() {
    if Command::new("valgrind").arg("--version").output().is_err() || std::env::var("WEIR_BINARY").is_ok() {
        return eprintln!("skipped: there is no valgrind, or another build is tested");
    }
    let counted = count(&origin());
    let is_rewriting = std::env::var("WEIR_REWRITE").is_ok();
    let (table, compiler) = (Table::read(), compiler());
    let tolerance = match compiler == table.compiler {
        true => TOLERANCE_PERCENT,
        false => TOLERANCE_OF_COMPILERS_PERCENT,
    };
    eprintln!("{counted:?}");
    for (name, now) in &counted {
        let known = match table.costs.get(name) {
            None if is_rewriting => continue,
            known => known.unwrap_or_else(|| panic!("the table has no row for a {name}")),
        };
        let rule = "find what it does more, or say in the commit why it must and correct the table";
        let most = known.instructions * (100 + tolerance) / 100;
        assert!(
            now.instructions <= most,
            "a {name} costs {} instructions; {most} are allowed: {rule}",
            now.instructions
        );
        let most = known.allocations + known.allocations * tolerance / 100 + ALLOCATIONS_BESIDE;
        assert!(
            now.allocations <= most,
            "a {name} makes {} allocations; {most} are allowed: {rule}",
            now.allocations
        );
    }
    if is_rewriting {
        table.lowered(&counted, compiler).write();
    }
}

/// An origin whose bodies have 1,000 bytes, but for one of 100,000.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.put("/held", Resource::fresh(vec![b'x'; 1000]));
    origin.put("/large", Resource::fresh(vec![b'x'; 100_000]));
    origin.put("/own", Resource::new(vec![b'x'; 1000]).header("Cache-Control", "no-store"));
    origin.otherwise(|exchange| {
        exchange.body();
        let control = if exchange.request.path().starts_with("/fill") { "max-age=600" } else { "no-store" };
        exchange.reply(200, &[("Cache-Control", control), ("Content-Type", "text/plain")], [b'x'; 1000]);
    });
    origin
}

/// Files are another site's, so that no other request asks for a route of theirs.
const CONFIG: &str = r#"
[admin]
listen = "{admin}"
[[listen]]
address = "{listen}"
[[listen]]
address = "{tls}"
tls = true
protocols = ["h2", "http/1.1"]
[[certificate]]
chain = "{folder}/own.pem"
key = "{folder}/own.key"
[[site]]
hosts = ["*"]
upstream = "main"
[[site]]
hosts = ["files.test"]
[[site.route]]
root = "{folder}/files"
"#;

/// What one request costs by what it is.
fn count(origin: &Origin) -> Costs {
    let (setup, authority) = (setup(), Authority::new());
    setup.certificate("own", &authority, &["localhost"]);
    std::fs::create_dir(setup.folder().join("files")).unwrap();
    setup.file("files/page.txt", vec![b'x'; 1000]);
    let out = setup.folder().join("counted");
    // Each begin and end of one of these turns counting on or off.
    let toggles: String =
        [WORKER].iter().chain(&BY_THE_CLOCK).map(|name| format!(" --toggle-collect='{name}'")).collect();
    let valgrind = format!(
        "exec valgrind --quiet --tool=callgrind --callgrind-out-file='{}' --dump-before='{MARK}' {toggles} \
         \"$0\" \"$@\"",
        out.display()
    );
    let config = format!("{CONFIG}[upstream.main]\norigins = [\"{}\"]\n", origin.url());
    let weir = setup.arg("--workers").arg("1").first(&valgrind).run_config(&config);
    let mut client = weir.client();
    mark(&mut client);
    let mut marks = Marks { out, number: 1 };
    let nothing = marks.next(&mut client);
    let mut costs = Costs::new();
    for (name, begin) in kinds(&weir, &authority) {
        let mut ask = begin();
        (0..REQUESTS).for_each(&mut ask);
        marks.next(&mut client);
        (REQUESTS..2 * REQUESTS).for_each(&mut ask);
        costs.insert(name.to_owned(), marks.next(&mut client).of_one(nothing));
    }
    costs
}

/// Makes a request, which has a number, over a connection of its kind.
type Ask<'a> = Box<dyn FnMut(usize) + 'a>;
/// Opens that connection: one that idles meanwhile would be closed.
type Begin<'a> = Box<dyn Fn() -> Ask<'a> + 'a>;

fn kinds<'a>(weir: &'a Weir, authority: &'a Authority) -> Vec<(&'static str, Begin<'a>)> {
    let over = |protocol: &str| {
        TlsClient::trusting(authority).protocols(&[protocol]).connect(weir.tls(), "localhost").unwrap()
    };
    // The same again and again, over a connection.
    let at = |mut client: Client, host: &'static str, target: &'static str| -> Ask<'a> {
        Box::new(move |_| get(&mut client, host, target))
    };
    let plain = |host: &'static str, target: &'static str| -> Begin<'a> {
        Box::new(move || at(weir.client(), host, target))
    };
    let each = |folder: &'static str| -> Begin<'a> {
        Box::new(move || {
            let mut client = weir.client();
            Box::new(move |number| get(&mut client, "localhost", &format!("{folder}/{number}")))
        })
    };
    let with = |ask: fn(&mut Client)| -> Begin<'a> {
        Box::new(move || {
            let mut client = weir.client();
            Box::new(move |_| ask(&mut client))
        })
    };
    let over_h2 = move || -> Ask<'a> {
        let mut client = H2Client::over(over("h2"));
        Box::new(move |_| assert_eq!(client.get("localhost", "/held", &BROWSER).status(), 200))
    };
    vec![
        ("hit", plain("localhost", "/held")),
        ("hit-of-100k", plain("localhost", "/large")),
        ("hit-over-tls", Box::new(move || at(Client::over(over("http/1.1")), "localhost", "/held"))),
        ("hit-over-h2", Box::new(over_h2)),
        ("range", with(part)),
        ("file", plain("files.test", "/page.txt")),
        ("pass", plain("localhost", "/own")),
        ("miss", each("/miss")),
        ("fill", each("/fill")),
        ("upload", with(upload)),
        ("connection", Box::new(move || Box::new(move |_| by_itself(weir)))),
    ]
}

/// The fields of a browser, as HTTP/2 writes their names.
const BROWSER: [(&str, &str); 7] = [
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "en-US,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "none"),
];

/// A request and its response.
fn get(client: &mut Client, host: &str, target: &str) {
    client.send_get(host, target, &BROWSER);
    assert_eq!(client.recv().unwrap().status(), 200, "{target}");
}

/// A range of what is held.
fn part(client: &mut Client) {
    client.send_get("localhost", "/large", &[("Range", "bytes=50000-50999")]);
    assert_eq!(client.recv().unwrap().status(), 206);
}

/// A request with 100,000 bytes of content.
fn upload(client: &mut Client) {
    let head = "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
    client.send([head.as_bytes(), &[b'x'; 100_000]].concat());
    assert_eq!(client.recv().unwrap().status(), 200);
}

/// A hit over a connection of its own, whose request is there before the worker looks.
fn by_itself(weir: &Weir) {
    weir.signal("STOP");
    let mut client = weir.client();
    client.send_get("localhost", "/held", &BROWSER);
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
    /// What the worker did between the mark before and this one.
    fn next(&mut self, client: &mut Client) -> Cost {
        mark(client);
        self.number += 1;
        let file = self.out.with_extension(self.number.to_string());
        let text = std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{file:?}: {why}"));
        let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let instructions = totals
            .and_then(|totals| totals.trim().parse().ok())
            .unwrap_or_else(|| panic!("no totals in {file:?}"));
        Cost { instructions, allocations: allocations(&text) }
    }
}

/// Calls of the allocator in a file of callgrind: `cfn=(NUMBER) NAME` says what is called, and only its first
/// mention has the name; `calls=COUNT …` follows.
fn allocations(text: &str) -> u64 {
    let (mut allocators, mut is_allocator, mut calls) = (HashSet::new(), false, 0);
    for line in text.lines() {
        if let Some(function) = line.strip_prefix("cfn=").or_else(|| line.strip_prefix("fn=")) {
            let (number, name) = function.split_once(' ').unwrap_or((function, ""));
            let is_call = |last: &&str| name.ends_with(&format!("GlobalAlloc>::{last}"));
            if name.contains("MiMalloc") && ALLOCATES.iter().any(is_call) {
                allocators.insert(number);
            }
            is_allocator = line.starts_with("cfn=") && allocators.contains(number);
        } else if let Some(count) = line.strip_prefix("calls=").filter(|_| is_allocator) {
            calls += count.split(' ').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    calls
}

/// What is checked in: a line `NAME INSTRUCTIONS ALLOCATIONS` for each kind of request.
struct Table {
    compiler: String,
    costs: Costs,
}

impl Table {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/ratchets/instructions.txt")
    }

    fn read() -> Table {
        let text = std::fs::read_to_string(Table::path()).unwrap_or_default();
        let compiler = text.lines().find_map(|line| line.strip_prefix("# compiler: "));
        let cost = |line: &str| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let instructions = words.next()?.parse().ok()?;
            Some((name, Cost { instructions, allocations: words.next()?.parse().ok()? }))
        };
        let costs = text.lines().filter(|line| !line.starts_with('#')).filter_map(cost).collect();
        Table { compiler: compiler.unwrap_or_default().to_owned(), costs }
    }

    /// With what costs less by now.
    fn lowered(self, counted: &Costs, compiler: String) -> Table {
        let is_known = compiler == self.compiler;
        let least = |name: &String, now: Cost| match self.costs.get(name).filter(|_| is_known) {
            Some(before) => now.least(*before),
            None => now,
        };
        let costs = counted.iter().map(|(name, now)| (name.clone(), least(name, *now))).collect();
        Table { compiler, costs }
    }

    fn write(&self) {
        let mut text =
            "# instructions and allocations of a worker for one request, in the build of the tests; \
                        `WEIR_REWRITE=1 cargo test -p weir --test it -- instructions`\n"
                .to_owned();
        let _ = writeln!(text, "# compiler: {}", self.compiler);
        for (name, Cost { instructions, allocations }) in &self.costs {
            let _ = writeln!(text, "{name} {instructions} {allocations}");
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
