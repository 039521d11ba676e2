//! What was acknowledged is there after a restart, a kill, an upgrade under requests; and a full disk loses
//! nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_testkit::{Client, Drive, Origin, Weir, pattern, until};

use super::kit::{ask, lay, list, put, reset};
use crate::server::{server, setup};

fn kill(weir: &mut Weir) {
    weir.signal("KILL");
    weir.wait(Duration::from_secs(30)).unwrap();
    weir.start_again();
}

#[test]
fn content_outlasts_restarts_kills_and_reloads() {
    let origin = Origin::start();
    let mut weir = server(&[&origin]).start();
    for number in 0..20 {
        lay(&weir, &format!("localhost/{number}"), pattern(number, 1000 * number as usize));
    }
    reset(&weir, "localhost/7");
    lay(&weir, "localhost/8", "other");
    let check = |weir: &Weir| {
        for number in 0..20u64 {
            let (answer, name) = (weir.get(&format!("/{number}")), number);
            match number {
                7 => assert_eq!(answer.status(), 404),
                8 => assert_eq!(answer.text(), "other"),
                _ => assert!(answer.body == pattern(number, 1000 * number as usize), "{name}"),
            }
        }
    };
    check(&weir);
    kill(&mut weir);
    check(&weir);
    weir.restart();
    check(&weir);
    assert_eq!(weir.reload().code, Some(0));
    check(&weir);
    assert_eq!(list(&weir, &[])["use"]["objects"], 19);
}

/// What somebody else has put into the folder is named in the log, and hinders nothing.
#[test]
fn foreign_names_in_the_folder_hinder_nothing() {
    let origin = Origin::start();
    let mut weir = server(&[&origin]).start();
    lay(&weir, "localhost/x", "one");
    let folder = weir.state().join("content");
    for name in ["new-foo", "new-00000000000000aa", "00000000000000ff"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("ffffffffffffffff"), "foreign").unwrap();
    for bytes in ["two", "three"] {
        kill(&mut weir);
        for name in ["new-foo", "new-00000000000000aa", "00000000000000ff", "ffffffffffffffff"] {
            weir.await_stderr(name);
        }
        lay(&weir, "localhost/x", bytes);
        lay(&weir, "localhost/y", bytes);
        reset(&weir, "localhost/y");
        assert_eq!(weir.get("/x").text(), bytes);
    }
    kill(&mut weir);
    assert_eq!(weir.get("/x").text(), "three");
    assert_eq!(std::fs::read(folder.join("ffffffffffffffff")).unwrap(), b"foreign");
}

/// Uploads that are cut by a kill leave nothing, and what was there stays.
#[test]
fn a_kill_between_leaves_the_old_or_the_new_and_no_rest() {
    let origin = Origin::start();
    let mut weir = server(&[&origin]).start();
    lay(&weir, "localhost/x", "old");
    let socket = weir_testkit::Address::Unix(weir.state().join("control.sock"));
    let mut under_way = Client::connect(socket);
    let head =
        "PUT /v1/content?url=localhost/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
    under_way.send([head.as_bytes(), &pattern(1, 500_000)].concat());
    let unfinished = || {
        let names = std::fs::read_dir(weir.state().join("content")).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with("new-")).count()
    };
    until("it is under way", || unfinished() == 1);
    assert_eq!(weir.get("/x").text(), "old");
    kill(&mut weir);
    assert_eq!(weir.get("/x").text(), "old");
    let names = std::fs::read_dir(weir.state().join("content")).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn an_upgrade_under_requests_and_uploads_loses_none() {
    let origin = Origin::start();
    let mut weir = server(&[&origin]).start();
    lay(&weir, "localhost/x", "0");
    let (ends, laid) = (AtomicBool::new(false), AtomicU64::new(0));
    let (at, folder) = (weir.addr(), weir.state());
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    while !ends.load(Ordering::Acquire) {
                        let least = laid.load(Ordering::Acquire);
                        let answer = Client::connect(at).get("localhost", "/x", &[]);
                        let number: u64 = answer.text().parse().unwrap_or_else(|_| panic!("{answer:?}"));
                        assert!(number >= least && number >= last, "{number} after {least}, {last}");
                        last = number;
                    }
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !ends.load(Ordering::Acquire) {
                number += 1;
                // The socket is another process's by then, or nobody's for a moment.
                let socket = weir_testkit::Address::Unix(folder.join("control.sock"));
                let mut client = Client::connect(socket);
                let content = number.to_string();
                let line = "PUT /v1/content?url=localhost/x HTTP/1.1";
                let length = content.len();
                client.send(format!("{line}\r\nHost: weir\r\nContent-Length: {length}\r\n\r\n{content}"));
                match client.recv() {
                    Ok(answer) if answer.status() == 200 => laid.store(number, Ordering::Release),
                    _ => number -= 1,
                }
            }
            number
        });
        for _ in 0..2 {
            until("some were laid", || laid.load(Ordering::Acquire) > 3);
            let upgraded = weir.upgrade(&[]);
            assert_eq!(upgraded.code, Some(0), "{upgraded:?}\n{}", weir.stderr());
            weir.main_pid();
        }
        ends.store(true, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(writer.join().unwrap() > 3);
    });
    assert_eq!(weir.get("/x").text(), laid.load(Ordering::Acquire).to_string());
}

/// The last one that is acknowledged is the one that stays.
#[test]
fn of_many_puts_of_one_url_the_last_acknowledged_stays_and_many_urls_are_found() {
    let origin = Origin::start();
    let mut weir = server(&[&origin]).start();
    let socket = weir.state().join("control.sock");
    let put = |url: &str, content: &str| {
        let line = format!("PUT /v1/content?url={url}");
        let answer = ask(weir_testkit::Address::Unix(socket.clone()), &line, "", content.as_bytes());
        assert!(matches!(answer.status(), 200 | 201), "{answer:?}");
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..20).for_each(|round| put("localhost/one", &format!("{thread}-{round}"))));
            scope.spawn(move || {
                (0..500).for_each(|n| put(&format!("localhost/{thread}/{n}"), &n.to_string()))
            });
        }
    });
    put("localhost/one", "last");
    let check = |weir: &Weir| {
        assert_eq!(weir.get("/one").text(), "last");
        let mut client = weir.client();
        for thread in 0..4 {
            for n in 0..500 {
                assert_eq!(client.get("localhost", &format!("/{thread}/{n}"), &[]).text(), n.to_string());
            }
        }
    };
    check(&weir);
    let (mut urls, mut after) = (Vec::new(), None::<String>);
    loop {
        let args: Vec<&str> =
            ["--limit", "300"].into_iter().chain(after.iter().flat_map(|at| ["--after", at])).collect();
        let page = list(&weir, &args);
        urls.extend(
            page["content"].as_array().unwrap().iter().map(|one| one["url"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = Some(next.to_owned()),
            None => break,
        }
    }
    assert!(urls.is_sorted() && urls.len() == 2001, "{}", urls.len());
    kill(&mut weir);
    check(&weir);
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let Some(drive) = Drive::tmpfs(8 << 20) else { return };
    let origin = Origin::start();
    let setup = setup();
    let state = drive.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::os::unix::fs::symlink(state, setup.folder().join("state")).unwrap();
    let mut weir = server(&[&origin]).start_in(setup);
    lay(&weir, "localhost/x", pattern(1, 1 << 20));
    drive.fill_up_to(64 << 10);
    let full = put(&weir, "localhost/x", pattern(2, 1 << 20), &[]);
    assert!(full.code == Some(1) && full.stderr.contains("no room left"), "{full:?}");
    assert!(weir.get("/x").body == pattern(1, 1 << 20));
    kill(&mut weir);
    assert!(weir.get("/x").body == pattern(1, 1 << 20));
    drive.empty();
    lay(&weir, "localhost/x", pattern(2, 1 << 20));
    assert!(weir.get("/x").body == pattern(2, 1 << 20));
}
