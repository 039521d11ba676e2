//! A head as it was printed, kept beside what it is the head of, and for which requests it was printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use bytes::Bytes;

/// What a head depends on beside what it is the head of. Requests for which it is equal get the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedFor {
    /// The route, by a number that no other route of any plan has.
    pub route: u64,
    /// The rule by which the request's path was rewritten: several may share what is stored.
    pub rule: Option<u32>,
    /// Who the peer is.
    pub peers: Peers,
    /// Whether the request came over TLS, of which the head may say something.
    pub is_secure: bool,
    /// Whether it is sent in place of what was asked for.
    pub is_instead: bool,
}

/// The peers for which a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// All.
    All,
    /// Trusted proxies, which may see more.
    Trusted,
    /// All others.
    Untrusted,
}

impl PrintedFor {
    /// The same for all peers.
    pub fn all_peers(self) -> PrintedFor {
        PrintedFor { peers: Peers::All, ..self }
    }
}

/// The place of a printed head: the last one that was kept.
#[derive(Debug, Default)]
pub struct PrintedSlot {
    printed: ArcSwapOption<(PrintedFor, Bytes)>,
    was_printed: AtomicBool,
}

impl PrintedSlot {
    /// The head for such requests, if it is the one that was kept.
    pub fn find(&self, of: PrintedFor) -> Option<Bytes> {
        let printed = self.printed.load();
        let (kept_for, head) = printed.as_deref()?;
        (*kept_for == of || *kept_for == of.all_peers()).then(|| head.clone())
    }

    /// Keeps a head, from the second one on: most of what comes from a drive is sent once before it leaves
    /// memory.
    pub fn keep(&self, of: PrintedFor, head: &Bytes) {
        if self.was_printed.load(Ordering::Relaxed) {
            self.printed.store(Some(Arc::new((of, head.clone()))));
        } else {
            self.was_printed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_found_by_the_requests_that_it_was_printed_for() {
        let of =
            PrintedFor { route: 1, rule: None, peers: Peers::Untrusted, is_secure: false, is_instead: false };
        let (slot, head) = (PrintedSlot::default(), Bytes::from_static(b"head"));
        slot.keep(of, &head);
        assert_eq!(slot.find(of), None, "the first is not kept");
        slot.keep(of, &head);
        assert_eq!(slot.find(of).as_ref(), Some(&head));
        let others = [
            PrintedFor { route: 2, ..of },
            PrintedFor { rule: Some(0), ..of },
            PrintedFor { peers: Peers::Trusted, ..of },
            PrintedFor { is_secure: true, ..of },
            PrintedFor { is_instead: true, ..of },
        ];
        for other in others {
            assert_eq!(slot.find(other), None, "{other:?}");
        }
        slot.keep(of.all_peers(), &head);
        assert!(slot.find(of).is_some() && slot.find(PrintedFor { peers: Peers::Trusted, ..of }).is_some());
        assert_eq!(slot.find(PrintedFor { is_secure: true, ..of }), None);
    }
}
