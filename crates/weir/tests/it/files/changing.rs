//! Files that are replaced, truncated, grown and written over under their readers: no body has bytes of two
//! versions, and one that breaks off does not end cleanly.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_testkit::{Client, Trouble, Weir, until};

use super::kit::{Root, overwrite, replace, www};

/// A version of a file: each of its bytes says which it is.
fn version(number: u8, length: usize) -> Vec<u8> {
    vec![b'a' + number % 26; length]
}

/// Asks again and again while `change` runs, and looks at each body. Returns how many were whole.
fn read_while(weir: &Weir, path: &str, lasts: Duration, change: impl Fn(u8) + Sync) -> usize {
    let (stop, whole) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let mut number = 1;
            while !stop.load(Ordering::Relaxed) {
                change(number);
                number = number.wrapping_add(1);
                std::thread::sleep(Duration::from_millis(u64::from(number % 7) * 9));
            }
        });
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let until = Instant::now() + lasts;
                    let mut client = weir.client();
                    while Instant::now() < until {
                        client.send_get("www.example.com", path, &[]);
                        let (body, is_whole) = match client.recv() {
                            Ok(answer) if answer.status() == 200 => (answer.body, true),
                            Ok(answer) => {
                                assert_eq!(answer.status(), 503, "{}", answer.text());
                                continue;
                            }
                            Err(Trouble::Cut(part)) => (part.body, false),
                            Err(Trouble::Closed) => (Vec::new(), false),
                            Err(other) => panic!("{other}"),
                        };
                        assert!(body.windows(2).all(|two| two[0] == two[1]), "two versions in one body");
                        if is_whole {
                            whole.fetch_add(1, Ordering::Relaxed);
                        } else {
                            client = weir.client();
                        }
                    }
                })
            })
            .collect();
        let failed: Vec<_> = readers.into_iter().filter_map(|reader| reader.join().err()).collect();
        stop.store(true, Ordering::Relaxed);
        changing.join().unwrap();
        assert!(failed.is_empty(), "{failed:?}");
    });
    whole.load(Ordering::Relaxed)
}

#[test]
fn files_that_are_replaced_are_always_sent_whole() {
    for length in [1000, 300_000, 6 << 20] {
        let weir = Root::new().with("file", version(0, length)).start("");
        let www = www(&weir);
        // A busy machine needs longer for so many.
        let mut whole = 0;
        for _ in 0..10 {
            whole += read_while(&weir, "/file", Duration::from_secs(2), |number| {
                replace(&www, "file", version(number, length));
            });
            if whole > 10 {
                break;
            }
        }
        assert!(whole > 10, "{length}: {whole}");
        // Whatever was held in memory is seen to be old within a second.
        replace(&www, "file", version(25, length));
        until("the last version is served", || weir.get("/file").body == version(25, length));
    }
}

#[test]
fn files_that_are_written_over_never_mix_in_one_body() {
    for length in [1000, 300_000, 6 << 20] {
        let weir = Root::new().with("file", version(0, length)).start("");
        let www = www(&weir);
        read_while(&weir, "/file", Duration::from_secs(2), |number| {
            overwrite(&www, "file", &version(number, length));
        });
        overwrite(&www, "file", &version(25, length));
        until("the last version is served", || {
            let mut client = weir.client();
            client.send_get("www.example.com", "/file", &[]);
            client.recv().is_ok_and(|answer| answer.body == version(25, length))
        });
    }
}

/// Begins to read a large file, and stops until `change` is done.
fn slow(weir: &Weir, path: &str, change: impl FnOnce()) -> Result<weir_testkit::Response, Trouble> {
    let mut client = Client::connect(weir.addr()).patience(Duration::from_secs(20));
    client.send_get("www.example.com", path, &[]);
    let first = client.read_some();
    assert!(!first.is_empty());
    change();
    let mut rest = Vec::new();
    loop {
        let more = client.read_some();
        if more.is_empty() {
            break;
        }
        rest.extend_from_slice(&more);
    }
    drop(client);
    let all = [first, rest].concat();
    let head = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let text = String::from_utf8_lossy(&all[..head]).to_lowercase();
    let declared: usize =
        text.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    let body = all[head..].to_vec();
    assert!(body.windows(2).all(|two| two[0] == two[1]), "two versions in one body");
    let answer = weir_testkit::Response { body, ..weir_testkit::Response::default() };
    if answer.body.len() == declared { Ok(answer) } else { Err(Trouble::Cut(Box::new(answer))) }
}

#[test]
fn a_slow_reader_gets_the_version_that_it_began_or_is_cut() {
    // Longer than what fits into the buffers of a connection, and than what memory takes.
    const LENGTH: usize = 40 << 20;
    let weir = Root::new().with("file", version(0, LENGTH)).start("");
    let www = www(&weir);
    let replaced = slow(&weir, "/file", || replace(&www, "file", version(1, LENGTH)));
    assert_eq!(replaced.unwrap().body.len(), LENGTH, "a new file harms no reader");
    let shorter = slow(&weir, "/file", || {
        let file = std::fs::OpenOptions::new().write(true).open(www.join("file")).unwrap();
        file.set_len(1000).unwrap();
    });
    assert!(shorter.is_err(), "a shorter file is no clean end");
    std::fs::write(www.join("file"), version(2, LENGTH)).unwrap();
    let grown = slow(&weir, "/file", || {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new().append(true).open(www.join("file")).unwrap();
        file.write_all(&version(3, 1000)).unwrap();
    });
    assert!(grown.is_err(), "what grows may have been written over as well");
    std::fs::write(www.join("file"), version(4, LENGTH)).unwrap();
    let over = slow(&weir, "/file", || overwrite(&www, "file", &version(5, LENGTH)));
    assert!(over.is_err(), "what is written over is no clean end");
    until("it is counted", || {
        weir.metric("weir_errors_total{reason=\"file-changed\"}").is_some_and(|count| count >= 3.0)
    });
}

#[test]
fn what_memory_holds_outlives_what_happens_to_the_file() {
    const LENGTH: usize = 4 << 20;
    let weir = Root::new().with("file", version(0, LENGTH)).start("");
    let www = www(&weir);
    until("it is in memory", || {
        for _ in 0..3 {
            assert_eq!(weir.get("/file").body.len(), LENGTH);
        }
        true
    });
    let over = slow(&weir, "/file", || overwrite(&www, "file", &version(1, LENGTH)));
    assert_eq!(over.unwrap().body, version(0, LENGTH));
}
