//! The history in a folder.

use std::path::PathBuf;
use std::sync::mpsc;

use super::refusals::REFUSED_A_MINUTE;
use super::shortened::SCOPE_BYTES_MAX;
use super::writer::LINES_BYTES_MAX;
use super::*;

const AUDIT: &str = AUDITS[0];
const PURGES: &str = AUDITS[1];
const REFUSED: &str = AUDITS[3];
const STRANGERS: &str = AUDITS[4];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-history-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join(name)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Lets nothing be written to the set until the result is dropped.
    fn blocked(&self, set: &str) -> Blocked {
        let path = self.0.join(set);
        std::fs::create_dir(&path).unwrap();
        Blocked(path)
    }
}

struct Blocked(PathBuf);

impl Drop for Blocked {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn opened(folder: &Folder) -> History {
    let history = History::default();
    history.open(&folder.0).unwrap();
    history
}

/// Records and waits until it is durable.
fn recorded(history: &History, entry: Entry) -> Result<(), String> {
    let (done, wait) = mpsc::channel();
    history.record_then(entry, Box::new(move |result| done.send(result).unwrap()));
    wait.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn purge(actor: Actor) -> Entry {
    let scope = serde_json::json!({ "tags": ["a\u{202e}b\u{1b}[2J"] });
    let (act, sites) = ("purge".to_owned(), vec!["a.test".to_owned()]);
    Entry { actor, act, scope, sites, mark: Some(u64::MAX), request_id: "7".to_owned(), ..Entry::default() }
}

#[test]
fn what_is_told_to_be_written_is_in_the_file() {
    let folder = Folder::new("written");
    let history = opened(&folder);
    for actor in [Actor::User("root".into()), Actor::Token("cms".into(), "192.0.2.1".into())] {
        assert_eq!(recorded(&history, purge(actor)), Ok(()));
    }
    let lines = folder.lines(PURGES);
    assert_eq!(lines.len(), 2);
    let last = &lines[1];
    assert_eq!((&last["actor"], &last["address"]), (&"token:cms".into(), &"192.0.2.1".into()));
    assert_eq!((&last["act"], &last["result"]), (&"purge".into(), &"done".into()));
    assert_eq!(last["mark"], u64::MAX.to_string());
    assert_eq!((&last["sites"][0], &last["request_id"]), (&"a.test".into(), &"7".into()));
    let text = std::fs::read_to_string(folder.0.join(PURGES)).unwrap();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "it would act on a terminal: {text}");
    assert_eq!(history.state(), HistoryState::default());
}

#[test]
fn a_disk_that_fails_is_said_and_what_waits_is_written_later() {
    let folder = Folder::new("fails");
    let blocked = folder.blocked(PURGES);
    let history = opened(&folder);
    assert!(recorded(&history, purge(Actor::Signal)).is_err());
    assert!(history.state().failure.is_some());
    assert_eq!(recorded(&history, reload()), Ok(()), "another file");
    assert!(history.state().failure.is_some(), "still");
    drop(blocked);
    assert_eq!(recorded(&history, purge(Actor::Nobody)), Ok(()));
    assert_eq!(history.state(), HistoryState::default());
    let actors: Vec<Value> = folder.lines(PURGES).iter().map(|line| line["actor"].clone()).collect();
    assert_eq!(actors, ["signal", "unknown"]);
}

fn reload() -> Entry {
    Entry { actor: Actor::User("root".into()), act: "reload".to_owned(), ..Entry::default() }
}

fn token(name: &str) -> Actor {
    Actor::Token(name.to_owned(), "192.0.2.1".to_owned())
}

fn refused(actor: Actor) -> Entry {
    Entry { actor, act: "GET /v1/status".to_owned(), result: Act::Refused, ..Entry::default() }
}

/// More than is written at a time, from a disk that takes it all.
#[test]
fn a_healthy_disk_loses_nothing_of_what_comes_at_once() {
    let folder = Folder::new("flood");
    let history = opened(&folder);
    let (done, wait) = mpsc::channel();
    let why = "x".repeat(1000);
    let count = 3 * LINES_BYTES_MAX / why.len();
    for number in 0..count {
        let entry = Entry { why: why.clone(), mark: Some(number as u64), ..purge(token("cms")) };
        let done = done.clone();
        history.record_then(entry, Box::new(move |result| done.send((number, result)).unwrap()));
    }
    let mut told: Vec<usize> = (0..count)
        .map(|_| {
            let (number, result) = wait.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(result, Ok(()), "{number}");
            number
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, (0..count).collect::<Vec<_>>());
    assert_eq!(folder.lines(PURGES).len(), count);
    assert_eq!(history.state(), HistoryState::default());
}

#[test]
fn what_a_disk_that_fails_loses_is_told_and_counted() {
    let folder = Folder::new("lost");
    let blocked = folder.blocked(PURGES);
    let history = opened(&folder);
    let told: Vec<_> = (0..2 * LINES_BYTES_MAX / 1000)
        .map(|number| {
            let (done, wait) = mpsc::channel();
            let entry = Entry { why: "x".repeat(1000), mark: Some(number as u64), ..purge(token("cms")) };
            history.record_then(entry, Box::new(move |result| done.send(result).unwrap()));
            wait
        })
        .collect();
    assert!(told.iter().all(|wait| wait.recv_timeout(Duration::from_secs(60)).unwrap().is_err()));
    drop(blocked);
    assert_eq!(recorded(&history, purge(Actor::Signal)), Ok(()));
    let HistoryState { failure, lost } = history.state();
    assert_eq!((failure, folder.lines(PURGES).len() as u64 + lost), (None, told.len() as u64 + 1));
    assert!(lost > 0);
}

#[test]
fn each_kind_of_actor_has_its_own_files() {
    let folder = Folder::new("sets");
    let history = opened(&folder);
    let client = || Actor::Client("192.0.2.7".to_owned());
    let cancel = Entry { act: "job-cancel".to_owned(), ..purge(token("cms")) };
    let failed = Entry { result: Act::Failed, ..reload() };
    let retained = Entry { act: "ttl".to_owned(), ..purge(token("of-a-site")) };
    assert_eq!(recorded(&history, retained), Ok(()));
    for entry in [reload(), failed, purge(token("cms")), purge(client()), purge(Actor::User("root".into()))]
        .into_iter()
        .chain([cancel, refused(token("cms")), refused(client()), refused(Actor::Nobody)])
        .chain([refused(Actor::Stranger("192.0.2.7".to_owned())), refused(Actor::User("root".into()))])
    {
        assert_eq!(recorded(&history, entry), Ok(()));
    }
    assert_eq!(AUDITS.map(|set| folder.lines(set).len()), [2, 4, 1, 2, 3]);
}

/// As long as there is room for others, whatever an actor does.
#[test]
fn a_queue_that_purgers_fill_takes_a_change() {
    let history = History::default();
    // Nothing is taken from it: a disk that hangs.
    let (sender, _commands) = bounded(QUEUE_MAX);
    assert!(history.queue.set(sender).is_ok());
    for _ in 0..QUEUE_MAX {
        history.record(purge(token("cms")));
    }
    let lost = history.state().lost;
    assert!(lost > 0, "it is bounded");
    history.record(reload());
    assert_eq!(history.state().lost, lost);
    let long = Entry { why: "x".repeat(1000), sites: vec!["x".repeat(250); 256], ..purge(token("cms")) };
    let history = History::default();
    let (sender, commands) = bounded(QUEUE_MAX);
    assert!(history.queue.set(sender).is_ok());
    for _ in 0..1000 {
        history.record(long.clone());
    }
    assert!(commands.len() * 64_000 < QUEUE_BYTES_MAX, "the bytes are bounded as well");
    history.record(reload());
    assert_eq!(history.state().lost + commands.len() as u64, 1001);
    history.record(refused(token("cms")));
    assert_eq!(history.state().lost + commands.len() as u64, 1002);
}

#[test]
fn refused_attempts_are_bounded_for_each_actor() {
    let folder = Folder::new("refused");
    let history = opened(&folder);
    let client = || Actor::Client("192.0.2.77".to_owned());
    for _ in 0..REFUSED_A_MINUTE * 3 {
        history.record(refused(client()));
        history.record(refused(token("a")));
    }
    assert_eq!(recorded(&history, refused(token("b"))), Ok(()));
    assert_eq!(recorded(&history, refused(Actor::Stranger("192.0.2.1".into()))), Ok(()));
    assert!(recorded(&history, refused(client())).is_err(), "it is not written");
    assert_eq!(recorded(&history, reload()), Ok(()));
    let counts = [STRANGERS, REFUSED, AUDIT].map(|set| folder.lines(set).len() as u64);
    assert_eq!(counts, [REFUSED_A_MINUTE + 1, REFUSED_A_MINUTE + 1, 1]);
}

#[test]
fn refused_attempts_that_are_not_written_are_summed() {
    let mut refusals = Refusals::default();
    let (begun, minute) = (weir_clock::now().mono, Duration::from_secs(60));
    for number in 0..1000 {
        for _ in 0..REFUSED_A_MINUTE + 2 {
            refusals.admits(&token(&format!("t{number}")), begun);
        }
    }
    refusals.admits(&Actor::Signal, begun);
    assert!(refusals.ended(begun).is_empty());
    let summed = refusals.ended(begun + minute);
    assert!(summed.len() < 300, "the table is bounded");
    let of = |name: &str| {
        let entry = summed.iter().find(|entry| entry.actor.to_string() == name).unwrap();
        entry.why.clone()
    };
    assert_eq!(of("token:t7"), "2 more refused attempts in a minute");
    assert!(of("unknown").ends_with(" more refused attempts of others in a minute"));
    assert!(refusals.admits(&token("t7"), begun + minute), "another minute");
}

#[test]
fn a_long_scope_is_cut_and_says_how_long_it_was() {
    let tags = |count: usize, length: usize| -> Vec<String> {
        (0..count).map(|number| format!("{number:04}{}", "\u{202e}x".repeat(length / 2))).collect()
    };
    let of = |scope: Value| -> Value {
        let short = shortened::scope(scope);
        assert!(short.to_string().len() <= SCOPE_BYTES_MAX, "{short}");
        short
    };
    let small = serde_json::json!({ "tags": tags(3, 8) });
    assert_eq!(of(small.clone()), small);
    let many = of(serde_json::json!({ "scopes": [{ "tags": tags(4096, 0) }], "soft": true }));
    let kept = many["scopes"][0]["tags"].as_array().unwrap();
    assert!(kept.len() > 50 && kept[0] == "0000", "{many}");
    assert_eq!(kept.last().unwrap(), "… 4096 in all");
    let long = of(serde_json::json!({ "scopes": [{ "url": "x".repeat(8000) }], "soft": true }));
    let url = long["scopes"][0]["url"].as_str().unwrap();
    assert!(url.starts_with("xxxx") && url.ends_with("… (8000 bytes)"), "{url}");
    assert_eq!(long["soft"], true);
    let unread =
        of(serde_json::json!({ "host": "h".repeat(3000), "tags": tags(4096, 8), "unread": "p-[0-9]" }));
    assert_eq!(
        (&unread["unread"], &unread["tags"][0]),
        (&Value::from("p-[0-9]"), &Value::from(tags(1, 8).remove(0)))
    );
    for scope in [
        serde_json::json!({ "tags": tags(15, 1000) }),
        serde_json::json!({ "scopes": tags(1000, 100).iter().map(|tag| [tag]).collect::<Vec<_>>() }),
        serde_json::json!({ "x".repeat(1 << 20): [1, 2.5, null] }),
        Value::from("\u{feff}".repeat(4000)),
        (0..100).fold(Value::from("x".repeat(3000)), |inner, _| Value::from(vec![inner.clone()])),
        (0..8).fold(Value::from("x".repeat(400)), |inner, _| Value::from(vec![inner; 4])),
    ] {
        assert!(of(scope) != Value::Null);
    }
    let entry = Entry { why: "x".repeat(1 << 20), sites: tags(4096, 60), ..purge(token("cms")) };
    assert!(entry.line(weir_clock::now().wall).len() < 128 << 10);
}

#[test]
fn files_are_rotated_and_bounded() {
    let folder = Folder::new("rotated");
    let history = opened(&folder);
    let large = vec![b'x'; AUDIT_BYTES_MAX as usize];
    for turn in 0..AUDIT_FILES_MAX + 2 {
        std::fs::write(folder.0.join(AUDIT), &large).unwrap();
        let entry = Entry { act: format!("{turn}"), ..Entry::default() };
        assert_eq!(recorded(&history, entry), Ok(()));
    }
    let mut names: Vec<String> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["audit", "audit.1", "audit.2", "audit.3"]);
    assert_eq!(recorded(&history, purge(Actor::Signal)), Ok(()));
    std::fs::write(folder.0.join(PURGES), &large).unwrap();
    assert_eq!(recorded(&history, purge(Actor::Signal)), Ok(()));
    assert_eq!(folder.lines("audit-purges").len(), 1);
    assert!(folder.0.join("audit-purges.1").is_file());
    history.leave();
    std::fs::write(folder.0.join(AUDIT), &large).unwrap();
    assert_eq!(recorded(&history, Entry::default()), Ok(()));
    assert!(std::fs::metadata(folder.0.join(AUDIT)).unwrap().len() > AUDIT_BYTES_MAX);
}
