//! A distributor as a pick: what it is asked for a request, and what its answer means there.

use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use ipnet::IpNet;
use weir_upstream::{Decider, DeciderForm, DeciderSnapshot, Deciding, Decision, Denial, Kind, Question};

use crate::ask::{AskedFor, Asker, Heard, Settings};
use crate::clock;
use crate::counts::Count;
use crate::format::{Answer, Head, Marks};
use crate::keep::{Keep, Kept, Key, Whose};

/// `[pick.NAME]` with distributors.
#[derive(Debug)]
pub struct Distributor {
    name: String,
    asker: Asker,
    kept: Kept,
    allow: Arc<[IpNet]>,
}

impl Distributor {
    /// One of this name. Answers may name addresses in `allow` beside those of the upstream's origins.
    pub fn new(name: &str, settings: Settings, keep: Keep, allow: Vec<IpNet>) -> Distributor {
        Distributor {
            name: name.to_owned(),
            asker: Asker::new(settings),
            kept: Kept::new(keep),
            allow: allow.into(),
        }
    }

    /// What became of its questions.
    pub fn asker(&self) -> &Asker {
        &self.asker
    }

    fn is_allowed(&self, address: SocketAddr) -> bool {
        // An address of IPv4 that is written as one of IPv6 is the same one.
        let ip = address.ip().to_canonical();
        self.allow.iter().any(|net| net.contains(&ip))
    }

    /// Whether an answer may name this address.
    fn fits(&self, question: &Question<'_>, address: SocketAddr) -> bool {
        address.port() != 0 && (question.origins.at(address).is_some() || self.is_allowed(address))
    }

    fn key(&self, question: &Question<'_>) -> Option<Key> {
        let about = question.about;
        let client = about.client.map(|client| client.ip());
        let whose = match (self.kept.keep(), about.kind) {
            (Keep::Never, _) | (Keep::Session, Kind::Fill) => return None,
            (Keep::Session, Kind::Pass) => Whose::Session(about.session.as_deref()?),
            (Keep::For(_), Kind::Pass) => Whose::Client(client?),
            (Keep::For(_), Kind::Fill) => Whose::Target(&about.host, question.target),
        };
        let place = [&*about.site, &*about.route, question.origins.upstream()];
        Some(self.kept.key(whose, place, client))
    }

    /// An answer that is kept, and still of use.
    fn kept(&self, question: &Question<'_>, key: &Key) -> Option<Decision> {
        let address = self.kept.find(key, clock::now())?;
        let decision = self.meaning(question, address);
        let is_up = match &decision {
            Decision::Origin(at) => question.origins.get(*at).is_some_and(|origin| origin.takes_share),
            _ => self.is_allowed(address),
        };
        if !is_up {
            self.kept.forget(key);
            return None;
        }
        self.asker.counts().add(Count::Kept);
        Some(decision)
    }

    fn meaning(&self, question: &Question<'_>, address: SocketAddr) -> Decision {
        question.origins.at(address).map_or(Decision::At(address), Decision::Origin)
    }

    async fn asked(&self, question: Question<'_>, key: Option<Key>) -> Decision {
        let about = question.about;
        let is_fill = about.kind == Kind::Fill;
        let marks = Marks::default().and_if(is_fill, Marks::FILL);
        let asked = AskedFor {
            client: about.client.filter(|_| !is_fill),
            marks: marks.and_if(about.scheme == "https", Marks::HTTPS),
            head: Head {
                method: question.method.as_str(),
                target: question.target,
                host: &about.host,
                fields: question.headers,
            },
        };
        match self.asker.ask(&asked, &|address| self.fits(&question, address)).await {
            Heard::Silence => Decision::Unanswered,
            Heard::Answer(Answer::Nothing) => Decision::Open,
            Heard::Answer(Answer::Denial { status, retry_after }) => match StatusCode::from_u16(status) {
                Ok(status) => Decision::Deny(Denial { status, retry_after_s: retry_after }),
                Err(_) => Decision::Open,
            },
            Heard::Answer(Answer::Address(address)) => {
                key.into_iter().for_each(|key| self.kept.put(key, address, clock::now()));
                self.meaning(&question, address)
            }
        }
    }
}

impl Decider for Distributor {
    fn name(&self) -> &str {
        &self.name
    }

    fn form(&self) -> DeciderForm {
        DeciderForm::Distributor
    }

    fn decide<'q>(&'q self, question: Question<'q>) -> Deciding<'q> {
        let key = self.key(&question);
        match key.as_ref().and_then(|key| self.kept(&question, key)) {
            Some(decision) => Deciding::Now(decision),
            None => Deciding::Later(Box::pin(self.asked(question, key))),
        }
    }

    fn snapshot(&self) -> DeciderSnapshot {
        let all = self.asker.settings().distributors.iter().enumerate();
        let silent: Vec<String> = all
            .filter(|(at, _)| self.asker.is_silent(*at))
            .map(|(_, place)| format!("{place} is silent"))
            .collect();
        DeciderSnapshot {
            name: self.name.clone(),
            outcomes: self.asker.counts().all(),
            trouble: (!silent.is_empty()).then(|| silent.join(", ")),
        }
    }
}
