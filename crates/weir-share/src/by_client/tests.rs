//! Shares are kept however clients ask, and a full line evens out.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn v4(last: u32) -> Client {
    Client::V4(0xc000_0200 + last)
}

/// A /64 of one of a few /48s.
fn v6(network: u64, within: u64) -> Client {
    Client::V6(0x2001_0db8_0000_0000 + (network << 16) + within)
}

fn any_client() -> impl Strategy<Value = Client> {
    prop_oneof![(0..4_u32).prop_map(v4), (0..2_u64, 0..40_u64).prop_map(|(network, at)| v6(network, at))]
}

proptest! {
    /// No client has more than its share, no /48 more than eight times as much, and nothing stays behind.
    #[test]
    fn nobody_has_more_than_its_share(
        asked in prop::collection::vec((any_client(), 1..4_u64, any::<bool>()), 1..400),
        most in 1..6_u64,
    ) {
        let mut counts = ByClient::<u64>::default();
        let mut held: Vec<(Client, u64)> = Vec::new();
        for (client, more, leaves) in asked {
            if leaves && let Some((client, had)) = held.pop() {
                counts.change(client, |count| *count -= had);
            }
            let sum = |of: &dyn Fn(Client) -> bool| -> u64 {
                held.iter().filter(|(client, _)| of(*client)).map(|(_, had)| *had).sum()
            };
            let own = sum(&|one| one == client);
            let all = client.network().map_or(0, |_| sum(&|one| one.network() == client.network()));
            prop_assert_eq!(counts.of(client), own);
            prop_assert_eq!(counts.used(client, |count| *count), own.max(all / NETWORK_SHARES));
            let may = own + more <= most && all + more <= most * NETWORK_SHARES;
            prop_assert_eq!(counts.fits(client, |count| *count, more, most), may);
            if may {
                counts.change(client, |count| *count += more);
                held.push((client, more));
            }
        }
        let clients: HashSet<Client> = held.iter().map(|(client, _)| *client).collect();
        prop_assert_eq!(counts.len(), clients.len());
        for (client, had) in held.drain(..) {
            counts.change(client, |count| *count -= had);
        }
        prop_assert!(counts.is_empty() && counts.networks.is_empty());
    }

    /// In a full line no client stays with fewer places than others have, however they come.
    #[test]
    fn a_full_line_is_shared_out_evenly(
        asked in prop::collection::vec(any_client(), 50..400),
        places in 4..40_usize,
    ) {
        let mut counts = ByClient::<u64>::default();
        let mut line: Vec<Client> = Vec::new();
        for client in asked {
            if line.len() == places {
                let used = |one| counts.used(one, |count| *count);
                let after = counts.after(client, |count| *count, 1);
                let latest_first = line.iter().copied().enumerate().rev();
                let Some(at) = gives_way(latest_first, used, after) else {
                    prop_assert!(line.iter().map(|one| used(*one)).max() <= Some(after));
                    continue;
                };
                let gone = line.remove(at);
                prop_assert!(!line[at..].contains(&gone), "the latest one goes");
                let had = counts.used(gone, |count| *count);
                counts.change(gone, |count| *count -= 1);
                counts.change(client, |count| *count += 1);
                prop_assert!(counts.of(client) <= had, "and the newcomer has no more than it had");
            } else {
                counts.change(client, |count| *count += 1);
            }
            line.push(client);
            prop_assert!(line.len() <= places);
        }
    }
}

/// Two clients have taken all places; 25 others get one each. A /48 with a client for each place gives way
/// as a client that has an eighth of them.
#[test]
fn others_get_a_place_whoever_has_taken_them() {
    let two: Vec<Client> = (0..100).map(|at| v4(at % 2)).collect();
    let of_network: Vec<Client> = (0..100).map(|at| v6(0, at)).collect();
    for mut line in [two, of_network] {
        let mut counts = ByClient::<u64>::default();
        line.iter().for_each(|client| counts.change(*client, |count| *count += 1));
        for other in 10..35 {
            let latest_first = line.iter().copied().enumerate().rev();
            let at = gives_way(latest_first, |one| counts.used(one, |count| *count), 1).expect("one goes");
            counts.change(line.remove(at), |count| *count -= 1);
            counts.change(v4(other), |count| *count += 1);
            line.push(v4(other));
        }
    }
}

/// Where one is alone it gets its share. Several leave some to others, whether they come one after another
/// or at a time.
#[test]
fn clients_that_take_all_they_may_leave_some() {
    for (clients, left) in [(1, 128), (2, 64), (3, 32), (4, 16)] {
        let (mut counts, mut free) = (ByClient::<u64>::default(), 256);
        for client in (0..clients).map(v4) {
            while counts.fits(client, |count| *count, 1, 128)
                && leaves_some(counts.used(client, |count| *count), (256, free), 128)
            {
                counts.change(client, |count| *count += 1);
                free -= 1;
            }
        }
        assert_eq!(free, left, "{clients} clients");
    }
    // At a time they get the same.
    let (mut counts, mut free) = (ByClient::<u64>::default(), 256);
    for client in (0..1000).map(|at| v4(at % 3)) {
        if leaves_some(counts.of(client), (256, free), 128) {
            counts.change(client, |count| *count += 1);
            free -= 1;
        }
    }
    assert_eq!([0, 1, 2].map(|at| counts.of(v4(at))), [64; 3]);
    // Without a share they get all.
    assert!(leaves_some(255, (256, 1), 256));
}
