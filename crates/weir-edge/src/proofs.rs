//! Answers to a certificate authority that asks over plain HTTP whether a host is ours (RFC 8555 §8.3). They
//! are given before anything of the site is asked: redirects, maintenance and routes do not change them. A
//! path without an answer here goes the way of all requests, so that an origin can prove itself.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;

/// Where the answers are (RFC 8555 §8.3).
const FOLDER: &str = "/.well-known/acme-challenge/";

/// The answers in force. A clone is the same table.
#[derive(Clone, Debug, Default)]
pub struct HttpProofs(Arc<ArcSwap<HashMap<String, Proof>>>);

#[derive(Clone, Debug)]
struct Proof {
    host: String,
    content: Bytes,
}

impl HttpProofs {
    /// Answers `FOLDER/token` of this host (as a site names it) with this content.
    pub fn show(&self, host: &str, token: &str, content: &str) {
        let proof = Proof { host: host.to_owned(), content: Bytes::copy_from_slice(content.as_bytes()) };
        self.change(|proofs| drop(proofs.insert(token.to_owned(), proof.clone())));
    }

    /// Answers that token no more.
    pub fn withdraw(&self, token: &str) {
        self.change(|proofs| drop(proofs.remove(token)));
    }

    fn change(&self, change: impl Fn(&mut HashMap<String, Proof>)) {
        self.0.rcu(|proofs| {
            let mut proofs = HashMap::clone(proofs);
            change(&mut proofs);
            proofs
        });
    }

    /// The answer for a path of a host.
    pub(crate) fn find(&self, host: &str, path: &str) -> Option<Bytes> {
        let token = path.strip_prefix(FOLDER)?;
        let proofs = self.0.load();
        proofs.get(token).filter(|proof| proof.host == host).map(|proof| proof.content.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_its_host_and_until_it_is_withdrawn() {
        let proofs = HttpProofs::default();
        proofs.show("a.example", "one", "one.key");
        proofs.show("b.example", "two", "two.key");
        let find = |host, path: &str| proofs.find(host, path).map(|content| content.to_vec());
        assert_eq!(find("a.example", "/.well-known/acme-challenge/one"), Some(b"one.key".to_vec()));
        assert_eq!(find("b.example", "/.well-known/acme-challenge/one"), None);
        assert_eq!(find("a.example", "/.well-known/acme-challenge/"), None);
        assert_eq!(find("a.example", "/one"), None);
        proofs.withdraw("one");
        assert_eq!(find("a.example", "/.well-known/acme-challenge/one"), None);
        assert_eq!(find("b.example", "/.well-known/acme-challenge/two"), Some(b"two.key".to_vec()));
    }
}
