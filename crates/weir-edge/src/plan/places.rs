//! How many connections clients may have where the configuration does not say: as many as the files that the
//! process may open allow, less what it needs itself, and as many as its memory allows.

use rustix::process::{Resource, getrlimit};
use weir_config::model::Config;

/// Logs, ledger, accounts, the admin listener, listeners' own sockets.
const OWN_FILES: u64 = 128;
/// The journals and folders of a volume, and segments that are read after they were dropped.
const VOLUME_FILES: u64 = 64;
/// The largest segment of a volume in bytes, and the fewest segments.
const SEGMENT_BYTES: u64 = 1 << 30;
const SEGMENTS_MIN: u64 = 64;
/// What a connection may hold beside the head of its request: its task, what is read ahead of HTTP/1, two
/// streams of HTTP/2, frames or records that its client does not take. What HTTP/2 holds beyond that is
/// charged to the memory's ceiling. And how many there may be however little is left.
const CONNECTION_BYTES: u64 = 64 << 10;
const BY_MEMORY_MIN: u64 = 256;
/// The part of the memory that is left for connections of clients: the rest is for indexes of volumes,
/// sockets and the page cache.
const MEMORY_SHARE: u64 = 2;
/// The share of all connections that one client may have, as a divisor.
const CLIENT_SHARE: u64 = 8;
const CLIENT_MIN: u64 = 16;

/// The most files that this process may have open.
pub(super) fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 20)
}

/// The most connections of all clients, and of one client. Clients always get at least a quarter of the files
/// that may be opened. `left_bytes` is the memory that is left beside what is configured, if that is known.
pub(super) fn places(config: &Config, open_files: u64, left_bytes: Option<u64>) -> (usize, usize) {
    let origins = config.upstream.values().map(|upstream| {
        let each = u64::from(upstream.connections) + u64::from(upstream.streams);
        each.saturating_mul(upstream.origins.len() as u64)
    });
    let volumes = config.cache.volume.iter().map(|volume| {
        let segments = volume.size.map_or(SEGMENTS_MIN, |size| size.0 / SEGMENT_BYTES);
        segments.max(SEGMENTS_MIN) + VOLUME_FILES
    });
    let needed = origins.chain(volumes).fold(OWN_FILES, u64::saturating_add);
    let each = CONNECTION_BYTES + config.limits.head.0;
    let by_memory = left_bytes.map_or(u64::MAX, |left| left / MEMORY_SHARE / each);
    let all = config.limits.connections.map_or_else(
        || open_files.saturating_sub(needed).max(open_files / 4).min(by_memory.max(BY_MEMORY_MIN)),
        |named| u64::from(named.get()),
    );
    let one = config
        .limits
        .connections_per_client
        .map_or_else(|| (all / CLIENT_SHARE).max(CLIENT_MIN), |named| u64::from(named.get()));
    let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
    (count(all.max(1)), count(one))
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    fn check(files: u64, left_bytes: Option<u64>, more: &str, expect: (usize, usize)) {
        let text = format!(
            "{more}\n[upstream.a]\norigins = [\"http://a:1\", \"http://b:1\"]\n\
             connections = 100\nstreams = 50\n\
             [[site]]\nhosts = [\"*\"]\nupstream = \"a\"\n"
        );
        assert_eq!(places(&load(&text).config, files, left_bytes), expect, "{files} {left_bytes:?} {more}");
    }

    #[test]
    fn what_is_needed_is_left_and_clients_have_the_rest() {
        let check = |files, more, expect| check(files, None, more, expect);
        check(4096, "", (4096 - 128 - 300, 458));
        let volume = "[[cache.volume]]\npath = \"/v\"\nsize = \"100GiB\"";
        check(4096, volume, (4096 - 128 - 300 - 164, 438));
        check(256, volume, (64, 16));
        check(256, "[limits]\nconnections = 1000", (1000, 125));
        check(256, "[limits]\nconnections_per_client = 2", (64, 2));
    }

    #[test]
    fn connections_fit_into_the_memory_that_is_left() {
        const FILES: u64 = 1 << 20;
        let by_files = FILES as usize - 128 - 300;
        check(FILES, Some(1 << 40), "", (by_files, by_files / 8));
        check(FILES, Some(480 << 20), "", (2560, 320));
        check(FILES, Some(480 << 20), "[limits]\nhead = \"64KiB\"", (1920, 240));
        check(FILES, Some(96 << 20), "", (512, 64));
        check(FILES, Some(0), "", (256, 32));
        check(4096, Some(960 << 20), "", (4096 - 128 - 300, 458));
        check(FILES, Some(0), "[limits]\nconnections = 1000", (1000, 125));
    }
}
