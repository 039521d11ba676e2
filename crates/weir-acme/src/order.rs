//! One order from beginning to certificate (RFC 8555 §7.4), on `instant-acme`. Whatever the CA could hold
//! against us is written before it is asked: an order that was cut off is taken up where it was, and costs no
//! second one.

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType, Error, Identifier,
    KeyAuthorization, NewOrder, Order, OrderStatus, RetryPolicy,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::authority::Authority;
use crate::book::{Book, BookError, Certificate};
use crate::certificate;
use crate::clock::Clock;
use crate::fault::{Fault, kind, words};
use crate::names::Name;
use crate::outside::{Outside, Proof};
use crate::plan::{self, Failure};
use crate::record::{HttpProof, Pending, Record};
use crate::settings::Challenge;

/// How often the CA is asked whether it has decided, where it does not say, and for how long. After that the
/// order waits for its next attempt.
const POLICY: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(90));

/// What one attempt works with.
pub(crate) struct Attempt {
    pub(crate) name: Name,
    pub(crate) record: Record,
    pub(crate) challenge: Challenge,
    /// The certificate that is renewed, for `replaces` (RFC 9773 §5), if this CA issued it.
    pub(crate) replaces: Option<String>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) book: Book,
    pub(crate) clock: Clock,
    pub(crate) outside: Arc<dyn Outside>,
    /// What the CA can see.
    pub(crate) shown: Vec<Shown>,
}

/// Something that the CA can see. It goes on seeing it where the order is put down halfway: the CA may look
/// until another process shows it. Who ends the order says otherwise.
pub(crate) struct Shown {
    outside: Arc<dyn Outside>,
    proof: Proof,
    is_kept: bool,
}

impl Shown {
    fn new(outside: Arc<dyn Outside>, proof: Proof) -> Shown {
        outside.show(&proof);
        Shown { outside, proof, is_kept: true }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if !self.is_kept {
            self.outside.withdraw(&self.proof);
        }
    }
}

impl Attempt {
    /// Gets the certificate and writes it. Where the order stays, so does the answer: the CA may be about to
    /// look, although it could not say so.
    pub(crate) async fn run(
        &mut self,
        register: impl Fn() -> Result<(), Fault>,
    ) -> Result<Certificate, Fault> {
        let result = self.attempt(register).await;
        let stays = |fault: &Fault| matches!(fault.failure, Failure::Outage { .. } | Failure::Unsettled);
        let is_kept = result.as_ref().is_err_and(stays);
        self.shown.iter_mut().for_each(|shown| shown.is_kept = is_kept);
        self.shown.clear();
        // It may have been shown by what began the order.
        let begun = self.record.order.as_ref().and_then(|order| order.proof.clone());
        if let Some(proof) = begun.filter(|_| !is_kept) {
            self.outside.withdraw(&Proof::Http { host: self.name.host(), proof });
        }
        result
    }

    async fn attempt(&mut self, register: impl Fn() -> Result<(), Fault>) -> Result<Certificate, Fault> {
        let authority = self.authority.clone();
        let account = authority.account(&self.book, register).await?;
        let (mut order, mut pending) = self.order(&account).await?;
        if order.state().status == OrderStatus::Pending {
            self.prove(&mut order, &mut pending).await?;
        }
        if order.state().status == OrderStatus::Pending {
            let polled = order.poll_ready(&POLICY).await;
            match polled {
                Ok(OrderStatus::Ready) => {}
                Ok(_) => return Err(reason(&mut order, None).await),
                Err(Error::Api(problem)) if kind(&problem) != "rateLimited" => {
                    return Err(reason(&mut order, Some(words(&problem))).await);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if order.state().status == OrderStatus::Ready {
            order.finalize_csr(&certificate::request(&self.name, &pending.key)?).await?;
        }
        let chain_pem = match order.state().status {
            OrderStatus::Valid => order.certificate().await?.unwrap_or_default(),
            _ => order.poll_certificate(&POLICY).await?,
        };
        let held = certificate::read(&chain_pem, &pending.key, &self.name, self.clock.now())?;
        let certificate = Certificate { chain_pem, key_pem: pending.key, held };
        self.book.write_certificate(&self.name, &certificate)?;
        Ok(certificate)
    }

    /// The order under way, or a new one.
    async fn order(&mut self, account: &Account) -> Result<(Order, Pending), Fault> {
        let directory = self.authority.settings.directory.clone();
        let pending = plan::pending(&self.record, &directory);
        if let Some((pending, url)) =
            pending.as_ref().and_then(|pending| Some((pending, pending.url.clone()?)))
        {
            match account.order(url).await {
                Ok(mut order) => match order.state().status {
                    // It has lapsed.
                    OrderStatus::Invalid => {}
                    _ => return Ok((order, pending.clone())),
                },
                // The CA has forgotten it.
                Err(Error::Api(problem)) if !is_of_account(kind(&problem)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(proof) = pending.as_ref().and_then(|pending| pending.proof.clone()) {
            self.outside.withdraw(&Proof::Http { host: self.name.host(), proof });
        }
        let key = match pending.filter(|pending| pending.url.is_none()) {
            Some(pending) => pending.key,
            None => certificate::new_key()?,
        };
        let pending = Pending { directory, key, ..Pending::default() };
        self.remember(&pending)?;
        let order = self.new_order(account).await?;
        let pending = Pending { url: Some(order.url().to_owned()), ..pending };
        self.remember(&pending)?;
        Ok((order, pending))
    }

    async fn new_order(&self, account: &Account) -> Result<Order, Error> {
        let identifiers = [match &self.name {
            Name::Dns(name) => Identifier::Dns(name.clone()),
            Name::Ip(address) => Identifier::Ip(*address),
        }];
        let plain = || {
            let order = NewOrder::new(&identifiers);
            match self.authority.settings.profile_for(&self.name) {
                Some(profile) => order.profile(profile),
                None => order,
            }
        };
        let replaced = self.replaces.as_deref().and_then(|id| id.split_once('.'));
        if let Some((key, serial)) = replaced {
            let (authority_key_identifier, serial) = (Cow::Borrowed(key), Cow::Borrowed(serial));
            let replaced = CertificateIdentifier { authority_key_identifier, serial };
            match account.new_order(&plain().replaces(replaced)).await {
                // A CA may know nothing of the old certificate, or take it for replaced (RFC 9773 §5).
                Err(Error::Api(problem)) if is_about_replaced(kind(&problem)) => {}
                Err(Error::Unsupported(_)) => {}
                other => return other,
            }
        }
        account.new_order(&plain()).await
    }

    /// Answers the questions of an order.
    async fn prove(&mut self, order: &mut Order, pending: &mut Pending) -> Result<(), Fault> {
        let challenge = match pending.challenge.as_deref() {
            Some("http-01") => Challenge::Http01,
            Some("tls-alpn-01") => Challenge::TlsAlpn01,
            _ => self.challenge,
        };
        let wanted = match challenge {
            Challenge::Http01 => ChallengeType::Http01,
            Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Pending => {}
                AuthorizationStatus::Valid => continue,
                // The order says why it failed.
                _ => return Ok(()),
            }
            let Some(mut question) = authorization.challenge(wanted.clone()) else {
                return Err(Fault::refused(format!("the CA offers no {}", challenge.word())));
            };
            let answer = question.key_authorization();
            let (proof, http) = self.proof(challenge, &question.token, &answer)?;
            pending.challenge = Some(challenge.word().to_owned());
            pending.proof = http;
            self.remember(pending)?;
            self.shown.push(Shown::new(self.outside.clone(), proof));
            if question.status == ChallengeStatus::Pending {
                question.set_ready().await?;
            }
        }
        Ok(())
    }

    fn proof(
        &self,
        challenge: Challenge,
        token: &str,
        answer: &KeyAuthorization,
    ) -> Result<(Proof, Option<HttpProof>), Fault> {
        match challenge {
            Challenge::Http01 => {
                let proof = HttpProof { token: token.to_owned(), authorization: answer.as_str().to_owned() };
                Ok((Proof::Http { host: self.name.host(), proof: proof.clone() }, Some(proof)))
            }
            Challenge::TlsAlpn01 => {
                let (certificate, key) = certificate::challenge(&self.name, answer.digest().as_ref())?;
                let server_name = self.name.server_name();
                let (certificate, key) = (certificate.to_vec(), key.secret_der().to_vec());
                Ok((Proof::TlsAlpn { server_name, certificate, key }, None))
            }
        }
    }

    fn remember(&mut self, pending: &Pending) -> Result<(), BookError> {
        self.record.order = Some(pending.clone());
        self.book.write_host(&self.name, &self.record)
    }
}

/// Whether a problem is not the order's, so that the order may still be there.
fn is_of_account(kind: &str) -> bool {
    matches!(kind, "rateLimited" | "serverInternal" | "badNonce" | "accountDoesNotExist")
}

fn is_about_replaced(kind: &str) -> bool {
    matches!(kind, "alreadyReplaced" | "malformed" | "conflict" | "notFound" | "unauthorized")
}

/// Why an order is invalid: what the CA says about its validation, else about the order.
async fn reason(order: &mut Order, otherwise: Option<String>) -> Fault {
    let mut why = None;
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Ok(state) = authorization.refresh().await {
            let problems = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            why = why.or(problems.map(words).next());
        }
    }
    Fault::refused(
        why.or(otherwise).unwrap_or_else(|| "the CA refuses the order, and does not say why".to_owned()),
    )
}
