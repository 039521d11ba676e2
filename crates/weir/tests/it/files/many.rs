//! Many files, many readers, other protocols: memory stays within its limit, and nobody waits for others.

use std::time::Duration;

use weir_testkit::{Authority, Client, H2Client, TlsClient, pattern, until};

use super::kit::{Root, text};

#[test]
fn ten_thousand_files_stay_within_the_memory_for_them() {
    let root = Root::new();
    for folder in 0..100 {
        std::fs::create_dir(root.path.join(folder.to_string())).unwrap();
        for file in 0..100 {
            let content = pattern(folder * 100 + file, 3000);
            std::fs::write(root.path.join(format!("{folder}/{file}.html")), content).unwrap();
        }
    }
    let weir = root.start_with("", "[files]\nmemory = \"2MiB\"\n");
    let mut client = weir.client();
    for round in 0..2 {
        for folder in 0..100 {
            for file in 0..100 {
                let answer = client.get("www.example.com", &format!("/{folder}/{file}.html"), &[]);
                let expect = pattern(folder * 100 + file, 3000);
                assert!(answer.body == expect, "{folder}/{file} in round {round}");
            }
        }
        assert!(weir.open_files() < 100, "{} are open", weir.open_files());
    }
}

#[test]
fn http2_gets_files_of_all_lengths() {
    let lengths = [0, 1000, 100_000, 300_000, 6 << 20];
    let root = lengths
        .iter()
        .fold(Root::new(), |root, length| root.with(&format!("{length}.bin"), pattern(3, *length)));
    let config = text("", "").replace("{listen}\"", "{listen}\"\nprotocols = [\"h2\", \"http/1.1\"]");
    let weir = root.setup.run_config(&config);
    let mut client = H2Client::connect(weir.addr()).patience(Duration::from_secs(20));
    for _ in 0..3 {
        for length in lengths {
            let answer = client.get("www.example.com", &format!("/{length}.bin"), &[]);
            assert_eq!((answer.status(), answer.body == pattern(3, length)), (200, true), "{length}");
            let part = client.get("www.example.com", &format!("/{length}.bin"), &[("range", "bytes=1-5")]);
            assert_eq!(part.status(), if length > 1 { 206 } else { 416 });
        }
    }
}

#[test]
fn files_of_all_lengths_go_over_tls() {
    let lengths = [0, 1000, 100_000, 300_000, 3 << 20, 6 << 20];
    let (authority, mut root) = (Authority::new(), Root::new());
    for length in lengths {
        root = root.with(&format!("{length}.bin"), pattern(5, length));
    }
    root.setup.certificate("live", &authority, &["www.example.com"]);
    let tls = "[[listen]]\naddress = \"{tls}\"\ntls = true\nprotocols = [\"http/1.1\"]\n\
               [[certificate]]\nchain = \"live.pem\"\nkey = \"live.key\"\n";
    let weir = root.start_with("hsts = \"1d\"", tls);
    let socket = TlsClient::trusting(&authority).connect(weir.tls(), "www.example.com").unwrap();
    let (mut secured, mut plain) = (Client::over(socket), weir.client());
    for _ in 0..3 {
        for length in lengths {
            let path = format!("/{length}.bin");
            let answer = secured.get("www.example.com", &path, &[]);
            assert_eq!((answer.status(), answer.body == pattern(5, length)), (200, true), "{length}");
            assert!(answer.header("strict-transport-security").is_some());
            // The same file without TLS has a head of its own.
            let answer = plain.get("www.example.com", &path, &[]);
            assert!(
                answer.body == pattern(5, length) && answer.header("strict-transport-security").is_none()
            );
        }
    }
}

#[test]
fn slow_readers_of_large_files_delay_nobody() {
    let root = Root::new()
        .with("large", pattern(1, 30 << 20))
        .with("held", pattern(1, 3 << 20))
        .with("small", "small");
    let weir = root.start("");
    let slow: Vec<Client> = (0..60)
        .map(|number| {
            let mut client = weir.client();
            client.send_get("www.example.com", if number % 2 == 0 { "/large" } else { "/held" }, &[]);
            client
        })
        .collect();
    for _ in 0..50 {
        assert_eq!(weir.get("/small").text(), "small");
    }
    until("one of them is in the middle", || {
        weir.metric("weir_requests_in_flight").is_none_or(|flying| flying > 0.0)
    });
    let memory = weir.rss();
    assert!(memory < 400 << 20, "{memory} bytes for sixty readers");
    for (number, mut client) in slow.into_iter().enumerate().take(4) {
        let answer = client.recv().unwrap();
        let length = if number % 2 == 0 { 30 << 20 } else { 3 << 20 };
        assert!(answer.body == pattern(1, length), "{number}");
    }
}

#[test]
fn rates_hold_for_files() {
    let weir = Root::new().with("a", pattern(1, 400_000)).start("rate = \"200kB/s\"");
    for _ in 0..3 {
        let answer = weir.get("/a");
        assert!(answer.body == pattern(1, 400_000));
        assert!(answer.whole > Duration::from_millis(1000), "{:?}", answer.whole);
    }
}
