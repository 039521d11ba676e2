//! Compares the accounts of sites with what the test's own client and origin have counted: after restarts and
//! kills, in all forms.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_testkit::{Client, Exchange, Origin, Random, Weir, until};

use crate::server::{server, setup};

/// What the test has counted, by site and name of the number.
pub(crate) type Counts = BTreeMap<(String, &'static str), u64>;

const NUMBERS: [&str; 11] = [
    "requests",
    "hits",
    "stale",
    "misses",
    "revalidations",
    "passes",
    "local",
    "refused",
    "client_bytes",
    "origin_requests",
    "origin_bytes",
];

/// The test's own books.
#[derive(Clone, Default)]
pub(crate) struct Books(Arc<Mutex<Counts>>);

impl Books {
    pub(crate) fn add(&self, site: &str, number: &'static str, count: u64) {
        *self.0.lock().unwrap().entry((site.to_owned(), number)).or_default() += count;
    }

    pub(crate) fn all(&self) -> Counts {
        self.0.lock().unwrap().clone()
    }
}

/// An origin that counts its requests and the bytes it sends, for the site of the request's `Host`.
pub(crate) fn origin(books: &Books) -> Origin {
    let origin = Origin::start();
    let books = books.clone();
    origin.otherwise(move |exchange| {
        let site = exchange.request.header("host").unwrap();
        exchange.body();
        let response = response(exchange);
        books.add(&site, "origin_requests", 1);
        books.add(&site, "origin_bytes", response.len() as u64);
        exchange.send(response);
    });
    origin
}

fn response(exchange: &Exchange<'_>) -> Vec<u8> {
    let path = exchange.request.path().to_owned();
    let kind = path.split('/').nth(1).unwrap_or_default();
    let control = match kind {
        "stale" => "max-age=0, stale-while-revalidate=3600",
        "check" => "no-cache",
        "private" => "private",
        _ => "max-age=3600",
    };
    let fields = format!("ETag: \"{kind}\"\r\nCache-Control: {control}\r\n");
    if exchange.request.header("if-none-match").is_some() {
        return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n").into_bytes();
    }
    let length = if kind == "big" { 8 << 20 } else { 1000 + 37 * path.len() };
    let mut all = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n").into_bytes();
    if exchange.request.method != "HEAD" {
        all.resize(all.len() + length, b'x');
    }
    all
}

pub(crate) fn config(origin: &Origin, sites: &[&str]) -> String {
    let each = |name: &&str| {
        format!(
            "[[site]]\nhosts = [\"{name}\", \"*.{name}\"]\nupstream = \"main\"\n\
            customer = \"{name}, \\\"Inc\\\"\"\n\
             description = \"of {name}\"\n[[site.route]]\npath = \"/own\"\nanswer = {{ body = \"own\" }}\n"
        )
    };
    let all: String = sites.iter().map(each).collect();
    let text = server(&[origin]).more(&all).text();
    // No catch-all site: the requests that it gets could not be assigned.
    let begin = text.find("[[site]]").unwrap();
    let end = text[begin + 1..].find("[[site]]").unwrap() + begin + 1;
    text[..begin].to_owned() + &text[end..]
}

/// Sends one request on a connection of its own, and counts it as `outcome`.
fn ask(weir: &Weir, books: &Books, site: &str, line: &str, fields: &str, outcome: &'static str) {
    let mut client = weir.client();
    client.send(format!("{line} HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n{fields}\r\n"));
    let all = client.read_to_end();
    assert!(all.starts_with(b"HTTP/1.1 "), "{line}: nothing came");
    let account = if outcome == "refused" { "-" } else { site };
    books.add(account, "client_bytes", all.len() as u64);
    books.add(account, outcome, 1);
    books.add(account, "requests", 1);
}

/// Requests of all kinds with known outcomes.
fn mixed(weir: &Weir, books: &Books, site: &str, round: u64) {
    let (fresh, stale, check) =
        (format!("GET /fresh/{round}"), format!("GET /stale/{round}"), format!("GET /check/{round}"));
    ask(weir, books, site, &fresh, "", "misses");
    ask(weir, books, site, &fresh, "", "hits");
    ask(weir, books, site, &fresh, "Range: bytes=5-20\r\n", "hits");
    ask(weir, books, site, &fresh, "If-None-Match: \"fresh\"\r\n", "hits");
    ask(weir, books, site, &fresh.replace("GET", "HEAD"), "", "hits");
    ask(weir, books, site, &check, "", "misses");
    ask(weir, books, site, &check, "", "revalidations");
    ask(weir, books, site, &stale, "", "misses");
    ask(weir, books, site, &stale, "", "stale");
    ask(weir, books, site, &format!("GET /private/{round}"), "", "passes");
    ask(weir, books, site, &format!("POST /private/{round}"), "Content-Length: 0\r\n", "passes");
    ask(weir, books, site, "GET /own", "", "local");
    ask(weir, books, "nobody.example", "GET /", "", "refused");
}

fn json(weir: &Weir, arguments: &[&str]) -> Value {
    let output = weir.command(&[&["sites", "--json"], arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// What Weir has counted over all time.
pub(crate) fn accounts(weir: &Weir) -> Counts {
    let mut counts = Counts::new();
    for account in json(weir, &[])["sites"].as_array().unwrap() {
        assert_eq!(account["all_time"], account["used"]);
        for number in NUMBERS {
            let count = account["all_time"][number].as_u64().unwrap();
            if count > 0 {
                counts.insert((account["site"].as_str().unwrap().to_owned(), number), count);
            }
        }
    }
    counts
}

/// Waits until both agree: a background revalidation comes a moment later.
pub(crate) fn agree(weir: &Weir, books: &Books) {
    let begun = Instant::now();
    while accounts(weir) != books.all() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(accounts(weir), books.all());
}

#[test]
fn accounts_are_what_client_and_origin_have_counted() {
    let books = Books::default();
    let origin = origin(&books);
    let mut weir = setup().run_config(&config(&origin, &["a.test", "b.test"]));
    for round in 0..5 {
        mixed(&weir, &books, "a.test", round);
    }
    mixed(&weir, &books, "b.test", 0);
    agree(&weir, &books);
    // An orderly restart loses nothing, not even what was counted a moment before.
    for round in 5..8 {
        mixed(&weir, &books, "b.test", round);
        until("all is revalidated", || accounts(&weir) == books.all());
        ask(&weir, &books, "a.test", "GET /own", "", "local");
        weir.signal("TERM");
        weir.start_again();
        assert_eq!(accounts(&weir), books.all());
    }
    let held = &json(&weir, &["b.test"])["sites"][0];
    assert_eq!((&held["customer"], &held["configured"]), (&"b.test, \"Inc\"".into(), &true.into()));
}

#[test]
fn a_kill_costs_a_second_at_most_and_counts_nothing_twice() {
    let books = Books::default();
    let origin = origin(&books);
    let mut weir = setup().run_config(&config(&origin, &["a.test", "b.test"]));
    let mut random = Random::new(6);
    let mut round = 0;
    for _ in 0..6 {
        let before = accounts(&weir);
        let base = books.all();
        // The test's counts with their moments.
        let mut told = vec![(Instant::now(), base.clone())];
        let lasts = Duration::from_millis(300 + random.below(2500));
        while told[0].0.elapsed() < lasts {
            let site = ["a.test", "b.test"][usize::try_from(random.below(2)).unwrap()];
            mixed(&weir, &books, site, round);
            round += 1;
            told.push((Instant::now(), books.all()));
        }
        let killed = Instant::now();
        weir.signal("KILL");
        weir.start_again();
        let after = accounts(&weir);
        let (_, known) =
            told.iter().rfind(|(at, _)| killed - *at >= Duration::from_secs(1)).unwrap_or(&told[0]);
        let count = |counts: &Counts, key: &(String, &'static str)| counts.get(key).copied().unwrap_or(0);
        for (key, most) in books.all() {
            // It is not known when origins are asked in the background.
            let since = |counts: &Counts| count(counts, &key) - count(&base, &key);
            let counted = count(&after, &key) - count(&before, &key);
            let most = most - count(&base, &key);
            let least = if key.1.starts_with("origin") { 0 } else { since(known) };
            assert!((least..=most).contains(&counted), "{key:?}: {least} <= {counted} <= {most}");
        }
    }
    // After a second of rest nothing at all is lost.
    let (before, base) = (accounts(&weir), books.all());
    mixed(&weir, &books, "a.test", round);
    let since = |now: Counts, then: &Counts| -> Counts {
        let each = now.into_iter().map(|(key, count)| (key.clone(), count - then.get(&key).unwrap_or(&0)));
        each.filter(|(_, count)| *count > 0).collect()
    };
    until("all is counted", || since(accounts(&weir), &before) == since(books.all(), &base));
    let counted = accounts(&weir);
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        weir.signal("KILL");
        weir.start_again();
        assert_eq!(accounts(&weir), counted);
    }
}

#[test]
fn a_client_that_leaves_is_counted_with_the_bytes_written() {
    let books = Books::default();
    let origin = origin(&books);
    let mut weir = setup().run_config(&config(&origin, &["a.test", "b.test"]));
    ask(&weir, &books, "a.test", "GET /big", "", "misses");
    let whole = books.all()[&("a.test".to_owned(), "client_bytes")];
    let read = |client: &mut Client, least: usize| {
        let mut got = 0;
        while got < least {
            got += client.read_some().len();
        }
        got as u64
    };
    let mut client = weir.client();
    client.send_get("a.test", "/big", &[]);
    let got = read(&mut client, 100_000);
    client.reset();
    let number =
        |number: &'static str| accounts(&weir).get(&("a.test".to_owned(), number)).copied().unwrap_or(0);
    until("it is counted", || number("requests") == 2);
    let written = number("client_bytes") - whole;
    assert!(got <= written && written < whole, "{got} <= {written} < {whole}");
    // A slow response is counted while it is sent, and is not lost with its process.
    let mut client = weir.client();
    client.send_get("a.test", "/big", &[]);
    read(&mut client, 300_000);
    std::thread::sleep(Duration::from_millis(1100));
    weir.signal("KILL");
    weir.start_again();
    let killed = accounts(&weir)[&("a.test".to_owned(), "client_bytes")];
    assert!(killed >= whole + written + 300_000, "{killed} of {whole} + {written}");
}

#[test]
fn a_site_that_is_renamed_or_gone_keeps_its_account() {
    let books = Books::default();
    let origin = origin(&books);
    let mut weir = setup().run_config(&config(&origin, &["a.test", "b.test"]));
    mixed(&weir, &books, "a.test", 0);
    mixed(&weir, &books, "b.test", 0);
    agree(&weir, &books);
    // Several reloads in a row: b is gone, c is new, b is back, and gone again.
    for (round, sites) in
        [["a.test", "c.test"], ["b.test", "a.test"], ["a.test", "c.test"]].iter().enumerate()
    {
        weir.rewrite_config(&config(&origin, sites));
        assert_eq!(weir.reload().code, Some(0));
        for site in sites {
            mixed(&weir, &books, site, round as u64 + 1);
        }
        agree(&weir, &books);
    }
    let names = |weir: &Weir| -> Vec<(String, bool)> {
        let all = json(weir, &[]);
        let each = all["sites"].as_array().unwrap().iter();
        each.map(|site| (site["site"].as_str().unwrap().to_owned(), site["configured"] == true)).collect()
    };
    let expect = [("a.test", true), ("c.test", true), ("b.test", false), ("-", false)];
    let expect: Vec<_> = expect.map(|(name, there)| (name.to_owned(), there)).into();
    assert_eq!(names(&weir), expect);
    weir.signal("TERM");
    weir.start_again();
    assert_eq!((accounts(&weir), names(&weir)), (books.all(), expect));
    let gone = weir.command(&["sites", "b.test"]);
    assert!(gone.code == Some(0) && gone.stdout.contains("all time"), "{gone:?}");
    let none = weir.command(&["sites", "z.test"]);
    assert!(none.code == Some(1) && none.stderr.contains("no site is named z.test"), "{none:?}");
}

#[test]
fn the_csv_is_exact_and_by_day() {
    let books = Books::default();
    let origin = origin(&books);
    let weir = setup().run_config(&config(&origin, &["a.test", "b.test"]));
    let before = today();
    mixed(&weir, &books, "a.test", 0);
    mixed(&weir, &books, "b.test", 0);
    agree(&weir, &books);
    let csv = weir.command(&["sites", "--csv"]);
    assert_eq!(csv.code, Some(0), "{csv:?}");
    let mut lines = csv.stdout.split_terminator("\r\n");
    assert_eq!(lines.next(), Some(format!("site,customer,day,{}", NUMBERS.join(",")).as_str()));
    let mut counts = Counts::new();
    for line in lines {
        let (site, rest) = line.split_once(',').unwrap();
        let customer = if site == "-" { String::new() } else { format!("\"{site}, \"\"Inc\"\"\"") };
        let rest = rest.strip_prefix(&format!("{customer},")).unwrap_or_else(|| panic!("{line}"));
        let fields: Vec<_> = rest.split(',').collect();
        // Midnight may have passed in the meantime.
        assert!([before.as_str(), &today()].contains(&fields[0]), "{line}");
        for (number, field) in NUMBERS.iter().zip(&fields[1..]) {
            *counts.entry((site.to_owned(), *number)).or_default() += field.parse::<u64>().unwrap();
        }
        assert_eq!(fields.len(), 1 + NUMBERS.len());
    }
    counts.retain(|_, count| *count > 0);
    assert_eq!(counts, books.all());
    let of = |when: &str| json(&weir, &["--since", when])["sites"][0]["used"]["requests"].as_u64();
    let all = books.all()[&("a.test".to_owned(), "requests")];
    assert_eq!(
        (of("30d"), of(&before), of(&before[..7]), of("2999-01")),
        (Some(all), Some(all), Some(all), Some(0))
    );
    let bad = weir.command(&["sites", "--since", "yesterday"]);
    assert!(bad.code == Some(1) && bad.stderr.contains("2026-11-22"), "{bad:?}");
    let by_admin =
        weir.admin_get_with("/v1/sites?format=csv&site=www.a.test", &weir.token("view", &[])).text();
    assert!(!by_admin.is_empty());
    let people = weir.command(&["sites"]).stdout;
    assert!(people.contains("a.test, \"Inc\"") && people.contains("over all time"), "{people}");
}

#[test]
fn stored_bytes_are_shown_with_the_usage() {
    let books = Books::default();
    let origin = origin(&books);
    let volume =
        "[cache]\nmemory = \"32MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"64MiB\"\n";
    let weir = setup().run_config(&(config(&origin, &["a.test", "b.test"]) + volume));
    for round in 0..7 {
        ask(&weir, &books, "a.test", &format!("GET /fresh/{round}"), "", "misses");
        ask(&weir, &books, "b.test", &format!("GET /check/{round}"), "", "misses");
    }
    let bytes: u64 = (0..7).map(|round| 1000 + 37 * format!("/fresh/{round}").len() as u64).sum();
    let site = |at: usize| json(&weir, &["--live"])["sites"][at].clone();
    until("all is on the volume", || {
        site(0)["held"]["volume"]["objects"] == 7 && site(1)["held"]["volume"]["objects"] == 7
    });
    assert_eq!(
        (&site(0)["held"]["total"]["objects"], &site(0)["held"]["total"]["bytes"]),
        (&7.into(), &bytes.into())
    );
    assert_eq!((&site(0)["live"]["bytes"], &site(1)["live"]["objects"]), (&bytes.into(), &0.into()));
    assert_eq!(weir.command(&["purge", "--site", "a.test"]).code, Some(0));
    assert_eq!(site(0)["live"]["objects"], 0);
    // If no sweep is pending, nothing purged is counted. That is the case after a while.
    let mut was_said = false;
    until("it is swept", || {
        let all = json(&weir, &["--live"]);
        let (held, is_unswept) = (&all["sites"][0]["held"], all["sweep_pending"] == true);
        assert_eq!(held["memory"]["objects"].as_u64().unwrap_or(0), 0, "memory leaves it out at once");
        was_said |= is_unswept && held["total"]["objects"] == 7;
        assert!(is_unswept || held["total"]["objects"].as_u64().unwrap_or(0) == 0, "{all}");
        !is_unswept
    });
    assert!(was_said, "a volume is swept after some seconds only");
    agree(&weir, &books);
}

#[test]
fn accounts_that_cannot_be_written_are_written_later() {
    let books = Books::default();
    let origin = origin(&books);
    let setup = setup();
    let month = today()[..7].to_owned();
    let accounts_folder = |weir: &Weir| weir.state().join("accounts");
    let mut weir = setup.run_config(&config(&origin, &["a.test", "b.test"]));
    // Folders take the names that the file could get.
    let obstacles =
        ["", "-2", "-3", "-4"].map(|more| accounts_folder(&weir).join(format!("{month}.new{more}")));
    obstacles.iter().for_each(|obstacle| fs::create_dir_all(obstacle.join("x")).unwrap());
    mixed(&weir, &books, "a.test", 0);
    agree(&weir, &books);
    until("it says so", || weir.metric("weir_accounts_writable") == Some(0.0));
    weir.await_stderr("cannot write the accounts");
    mixed(&weir, &books, "a.test", 1);
    agree(&weir, &books);
    obstacles.iter().for_each(|obstacle| fs::remove_dir_all(obstacle).unwrap());
    until("it is well again", || weir.metric("weir_accounts_writable") == Some(1.0));
    assert_eq!(weir.stderr().matches("cannot write the accounts").count(), 1);
    weir.signal("KILL");
    weir.start_again();
    assert_eq!(accounts(&weir), books.all());
    let file = accounts_folder(&weir).join(month);
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
    };
    assert_eq!((mode(&weir.state()), mode(&file)), (0o700, 0o600));
}

#[test]
fn a_torn_file_of_accounts_is_reported_and_kept_and_counting_goes_on() {
    let books = Books::default();
    let origin = origin(&books);
    let mut weir = setup().run_config(&config(&origin, &["a.test", "b.test"]));
    let month = today()[..7].to_owned();
    let folder = weir.state().join("accounts");
    let requests = |weir: &Weir| accounts(weir).get(&("a.test".to_owned(), "requests")).copied().unwrap_or(0);
    let own = |weir: &Weir, count: usize| {
        (0..count).for_each(|_| ask(weir, &books, "a.test", "GET /own", "", "local"));
    };
    own(&weir, 4);
    until("all is counted", || requests(&weir) == 4);
    for (round, emptied) in [true, false].into_iter().enumerate() {
        // A restart writes the whole file again: its last byte belongs to the only frame.
        weir.signal("TERM");
        weir.start_again();
        weir.signal("TERM");
        let path = folder.join(&month);
        let mut bytes = fs::read(&path).unwrap();
        if emptied {
            bytes.clear();
        } else {
            *bytes.last_mut().unwrap() ^= 1;
        }
        fs::write(&path, &bytes).unwrap();
        weir.start_again();
        own(&weir, 3);
        until("the present is counted", || requests(&weir) == 3);
        assert_eq!(weir.metric("weir_accounts_unsound_files"), Some(round as f64 + 1.0));
        let told = json(&weir, &[])["unsound"].as_array().unwrap().clone();
        assert_eq!(told.len(), round + 1, "{told:?}");
        let last = told.last().unwrap();
        let file = last["file"].as_str().unwrap();
        assert!(file.starts_with(&format!("{month}.unsound-")), "{file}");
        assert_eq!(last["damaged_bytes"].as_u64(), Some(bytes.len().saturating_sub(16) as u64));
        assert_eq!(fs::read(folder.join(file)).unwrap(), bytes, "it is as it was found");
        weir.await_stderr(file);
        // The table for people says so; the form for programs, beside the CSV, makes the command fail.
        let people = weir.command(&["sites"]);
        assert!(people.code == Some(0) && people.stdout.contains(file), "{people:?}");
        let csv = weir.command(&["sites", "--csv"]);
        assert!(csv.code == Some(1) && csv.stderr.contains(file), "{csv:?}");
        assert!(csv.stdout.starts_with("site,") && !csv.stdout.contains(file), "{csv:?}");
        assert_eq!(weir.command(&["sites", "--csv", "--since", "2999-01"]).code, Some(0));
        let token = weir.token("view", &[]);
        let field = weir.admin_get_with("/v1/sites?format=csv", &token).header("weir-unsound").unwrap();
        assert!(field.contains(file), "{field}");
    }
    // The JSON names them.
    for told in json(&weir, &[])["unsound"].as_array().unwrap() {
        let path = folder.join(told["file"].as_str().unwrap());
        fs::rename(&path, format!("{}.known", path.display())).unwrap();
    }
    assert_eq!(json(&weir, &[])["unsound"], Value::Null);
    assert_eq!(weir.command(&["sites", "--csv"]).code, Some(0));
}

/// The day of UTC.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
