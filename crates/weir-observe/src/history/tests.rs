//! The history in a folder.

use std::sync::mpsc;

use super::*;

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
    let lines = folder.lines(AUDIT);
    assert_eq!(lines.len(), 2);
    let last = &lines[1];
    assert_eq!((&last["actor"], &last["address"]), (&"token:cms".into(), &"192.0.2.1".into()));
    assert_eq!((&last["act"], &last["result"]), (&"purge".into(), &"done".into()));
    assert_eq!(last["mark"], u64::MAX.to_string());
    assert_eq!((&last["sites"][0], &last["request_id"]), (&"a.test".into(), &"7".into()));
    let text = std::fs::read_to_string(folder.0.join(AUDIT)).unwrap();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "it would act on a terminal: {text}");
    assert_eq!(history.state(), HistoryState::default());
}

#[test]
fn a_disk_that_fails_is_said_and_what_waits_is_written_later() {
    let folder = Folder::new("fails");
    // Nothing can be opened there for writing.
    std::fs::create_dir(folder.0.join(AUDIT)).unwrap();
    let history = opened(&folder);
    assert!(recorded(&history, purge(Actor::Signal)).is_err());
    assert!(history.state().failure.is_some());
    std::fs::remove_dir(folder.0.join(AUDIT)).unwrap();
    assert_eq!(recorded(&history, purge(Actor::Nobody)), Ok(()));
    assert_eq!(history.state(), HistoryState::default());
    let actors: Vec<Value> = folder.lines(AUDIT).iter().map(|line| line["actor"].clone()).collect();
    assert_eq!(actors, ["signal", "unknown"]);
}

#[test]
fn refused_attempts_do_not_push_changes_out() {
    let folder = Folder::new("refused");
    let history = opened(&folder);
    for _ in 0..REFUSED_A_MINUTE * 3 {
        let act = "GET /v1/status".to_owned();
        let entry = Entry { act, result: Act::Refused, ..Entry::default() };
        history.record(entry);
    }
    assert_eq!(recorded(&history, purge(Actor::Nobody)), Ok(()));
    let lines = folder.lines(AUDIT);
    assert_eq!(lines.len() as u64, REFUSED_A_MINUTE + 1);
    assert_eq!(lines.last().unwrap()["act"], "purge");
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
    history.leave();
    std::fs::write(folder.0.join(AUDIT), &large).unwrap();
    assert_eq!(recorded(&history, Entry::default()), Ok(()));
    assert!(std::fs::metadata(folder.0.join(AUDIT)).unwrap().len() > AUDIT_BYTES_MAX);
}
