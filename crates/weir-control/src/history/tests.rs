//! The history of a folder, as it is asked for.

use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("weir-history-read-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// The minutes of what is found.
    fn read(&self, order: &HistoryOrder, own: Option<&Own<'_>>) -> Vec<String> {
        let all = read(&self.0, order, own).unwrap();
        all.entries.into_iter().map(|entry| entry.time[14..16].to_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn line(minute: u32, site: &str, act: &str) -> String {
    format!("{{\"time\":\"2026-11-23T10:{minute:02}:00Z\",\"act\":\"{act}\",\"sites\":[\"{site}\"]}}\n")
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn the_newest_that_are_wanted() {
    let folder = Folder::new("newest");
    folder.write("audit.1", &(line(1, "a", "purge") + &line(2, "b", "purge") + "{\"time\":\"torn"));
    let new = line(3, "a", "purge") + "{\"time\":\"2026-11-23T10:04:00Z\",\"act\":\"reload\"}\n\n";
    folder.write("audit", &new);
    let order = HistoryOrder { limit: 3, ..HistoryOrder::default() };
    assert_eq!(folder.read(&order, None), ["02", "03", "04"]);
    let own = Own { sites: &["a".to_owned()], actor: "token:x".to_owned() };
    assert_eq!(folder.read(&order, Some(&own)), ["01", "03"], "not what concerns the whole Weir");
    let of_b = HistoryOrder { site: text("b"), ..order.clone() };
    assert_eq!(folder.read(&of_b, None), ["02"]);
    let of_c = HistoryOrder { site: text("c"), ..order.clone() };
    assert!(!read(&folder.0, &of_c, None).unwrap().has_site);
    let none_of_b = HistoryOrder { act: text("reload"), ..of_b };
    assert!(read(&folder.0, &none_of_b, None).unwrap().has_site);
    let late = HistoryOrder { since: text("2026-11-23T10:03"), ..order.clone() };
    assert_eq!(folder.read(&late, None), ["03", "04"]);
    let reloads = HistoryOrder { act: text("reload"), ..order };
    assert_eq!(folder.read(&reloads, None), ["04"]);
}

#[test]
fn the_sets_are_merged_by_time() {
    let folder = Folder::new("merged");
    folder.write("audit", &(line(1, "a", "x") + &line(5, "a", "x")));
    folder.write("audit-purges.1", &line(0, "a", "x"));
    folder.write("audit-purges", &(line(2, "a", "x") + &line(6, "a", "x")));
    folder.write("audit-refused", &line(4, "a", "x"));
    folder.write("audit-strangers", &line(3, "a", "x"));
    let order = HistoryOrder { limit: 100, ..HistoryOrder::default() };
    assert_eq!(folder.read(&order, None), ["00", "01", "02", "03", "04", "05", "06"]);
    assert_eq!(folder.read(&HistoryOrder { limit: 3, ..order }, None), ["04", "05", "06"]);
}

#[test]
fn lines_are_read_over_blocks() {
    let folder = Folder::new("blocks");
    let many: String = (0..20_000).map(|number| line(number % 60, &"x".repeat(7), "purge")).collect();
    folder.write("audit-purges", &many);
    let order = HistoryOrder { limit: 20_000, ..HistoryOrder::default() };
    let found = folder.read(&order, None);
    assert_eq!(found.len(), 20_000);
    assert!((0..).zip(&found).all(|(number, minute)| *minute == format!("{:02}", number % 60)));
}

#[test]
fn a_caller_of_sites_sees_what_it_was_refused_itself() {
    let folder = Folder::new("own");
    let tried = |minute: u32, actor: &str, sites: &str| {
        format!(
            "{{\"time\":\"2026-11-23T10:{minute:02}:00Z\",\"actor\":\"{actor}\",\
             \"result\":\"refused\"{sites}}}\n"
        )
    };
    let all = tried(1, "token:x", "") + &tried(2, "token:y", "") + &tried(3, "token:x", ",\"sites\":[\"b\"]");
    folder.write("audit-refused", &all);
    let own = Own { sites: &["a".to_owned()], actor: "token:x".to_owned() };
    let order = HistoryOrder { limit: 100, ..HistoryOrder::default() };
    assert_eq!(folder.read(&order, Some(&own)), ["01"]);
}

#[test]
fn since_is_a_time_or_how_long_ago() {
    // 2026-11-23T10:00:00Z
    let now = UNIX_EPOCH + Duration::from_secs(1_795_428_000);
    for (text, expect) in [
        ("1h", "2026-11-23T09:00:00.000"),
        ("30d", "2026-10-24T10:00:00.000"),
        ("1w", "2026-11-16T10:00:00.000"),
        ("2026", "2026-01-01T00:00:00.000"),
        ("2026-11", "2026-11-01T00:00:00.000"),
        ("2026-11-22", "2026-11-22T00:00:00.000"),
        ("2026-11-22T10", "2026-11-22T10:00:00.000"),
        ("2026-11-22T10:30:05", "2026-11-22T10:30:05.000"),
        ("2026-11-22T10:30:05Z", "2026-11-22T10:30:05.000"),
        ("2026-11-22T10:30:05.5+01:00", "2026-11-22T09:30:05.500"),
    ] {
        assert_eq!(time(text, now).as_deref(), Ok(expect), "{text}");
    }
    for text in ["", "yesterday", "2026-13", "2026-11-2", "30", "4x", "2026-11-22T25", "ö026"] {
        assert!(time(text, now).unwrap_err().contains("is no time"), "{text}");
    }
}

#[test]
fn a_result_that_there_is_not_is_refused() {
    let of = |result: &str| HistoryOrder { result: text(result), ..HistoryOrder::default() };
    let refused = of("refusd").checked(UNIX_EPOCH).unwrap_err();
    assert_eq!(refused, "refusd is no result; there are done, refused, failed");
    assert!(RESULTS.iter().all(|result| of(result).checked(UNIX_EPOCH).is_ok()));
}

#[test]
fn a_request_is_known_by_its_act() {
    for (method, path, expect) in [
        (Method::POST, "/v1/purge", "purge"),
        (Method::POST, "/v1/purge/dry-run", "purge-dry-run"),
        (Method::DELETE, "/v1/tokens/cms", "token-remove"),
        (Method::DELETE, "/v1/jobs/1", "job-cancel"),
        (Method::POST, "/v1/origins", "origin-change"),
        (Method::GET, "/v1/tokens", "GET /v1/tokens"),
        (Method::DELETE, "/v1/tokens/a/b", "DELETE /v1/tokens/a/b"),
        (Method::POST, "/purge", "POST /purge"),
    ] {
        assert_eq!(act_of(&method, path), expect);
    }
}
