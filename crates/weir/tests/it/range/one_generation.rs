//! An object that memory cannot keep, requested whole and in ranges within moments: it is fetched once and
//! stored once, whichever comes first.

use std::sync::Arc;
use std::time::Duration;

use weir_testkit::{Client, Origin, Weir, pattern, until};

use crate::counted::{Counted, Version};
use crate::server::server;

const MIB: usize = 1 << 20;
/// More than half of the memory.
const LENGTH: usize = 40 * MIB;
const RANGES: usize = 8;
/// About how many bytes are wasted at the ends of transfers where another has begun: those in the sockets'
/// buffers.
const IN_VAIN_BYTES_MAX: u64 = 8 << 20;

fn send(weir: &Weir, range: Option<(usize, usize)>) -> Client {
    let mut client = weir.client();
    let range = range.map(|(start, end)| format!("bytes={start}-{}", end - 1));
    let fields: Vec<_> = range.iter().map(|range| ("Range", range.as_str())).collect();
    client.send_get("localhost", "/x", &fields);
    client
}

fn spans() -> Vec<(usize, usize)> {
    let each = LENGTH / RANGES;
    (0..RANGES).map(|number| (number * each, (number + 1) * each)).collect()
}

/// The lines of the object in `weir list`.
fn lines(weir: &Weir) -> usize {
    let listed = weir.command(&["list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    listed.stdout.lines().filter(|line| line.contains("/x")).count()
}

struct Scene {
    origin: Origin,
    counted: Arc<Counted>,
    body: Arc<[u8]>,
    weir: Weir,
}

fn scene() -> Scene {
    let (origin, body) = (Origin::start(), Arc::<[u8]>::from(pattern(5, LENGTH)));
    let counted = Counted::new(Version::new("\"1\"", body.clone()), &[("Cache-Control", "max-age=3600")])
        .slow(20_000_000, Duration::from_millis(20))
        .at(&origin, "/x");
    let volume =
        "[cache]\nmemory = \"64MiB\"\n[[cache.volume]]\npath = \"{folder}/volume\"\nsize = \"512MiB\"";
    let weir = server(&[&origin]).more(volume).start();
    Scene { origin, counted, body, weir }
}

impl Scene {
    fn ends_as_one(&self, case: &str) {
        let Scene { origin, counted, body, weir } = self;
        until("it is a hit", || weir.get("/x").is_hit());
        assert!(weir.get("/x").body[..] == body[..], "{case}");
        // The catalogue follows the log a moment later.
        until("it is listed", || lines(weir) > 0);
        assert_eq!(lines(weir), 1, "{case}");
        let (bytes, asked) = (counted.bytes(), origin.count("/x"));
        assert!(bytes <= LENGTH as u64 + IN_VAIN_BYTES_MAX, "{case}: {bytes} bytes in {asked} requests");
    }
}

#[test]
fn a_get_and_ranges_within_moments_are_one_generation() {
    for (is_whole_first, pause_ms) in
        [(true, 0), (true, 5), (true, 25), (true, 100), (false, 0), (false, 5), (false, 25), (false, 100)]
    {
        let case = format!("the whole first: {is_whole_first}, after {pause_ms} ms");
        let scene = scene();
        let whole = || send(&scene.weir, None);
        let ranged = || spans().into_iter().map(|span| (span, send(&scene.weir, Some(span)))).collect();
        let pause = || std::thread::sleep(Duration::from_millis(pause_ms));
        let (mut whole, ranged): (Client, Vec<_>) = if is_whole_first {
            let whole = whole();
            pause();
            (whole, ranged())
        } else {
            let ranged = ranged();
            pause();
            (whole(), ranged)
        };
        std::thread::scope(|scope| {
            for ((start, end), mut client) in ranged {
                let (body, case) = (&scene.body, &case);
                scope.spawn(move || {
                    let found = client.recv().unwrap();
                    assert_eq!(found.status(), 206, "{case}");
                    assert!(found.body == body[start..end], "{case}: {start}");
                });
            }
            let found = whole.recv().unwrap();
            assert!(found.status() == 200 && found.body == scene.body[..], "{case}");
        });
        scene.ends_as_one(&case);
    }
}

/// As `aria2c -x16` does: a plain request whose front is read while others fetch the rest, and which is then
/// abandoned.
#[test]
fn a_download_in_pieces_that_begins_with_a_plain_get_is_one_generation() {
    let scene = scene();
    let mut first = send(&scene.weir, None);
    assert!(first.recv_head_only().is_ok());
    std::thread::scope(|scope| {
        for (start, end) in spans().into_iter().skip(1) {
            let (weir, body) = (&scene.weir, &scene.body);
            scope.spawn(move || {
                let found = send(weir, Some((start, end))).recv().unwrap();
                assert!(found.status() == 206 && found.body == body[start..end], "{start}");
            });
        }
        let mut got = 0;
        while got < LENGTH / RANGES {
            let piece = first.read_some();
            assert!(!piece.is_empty(), "cut after {got} bytes");
            got += piece.len();
        }
    });
    drop(first);
    scene.ends_as_one("aria2");
}
