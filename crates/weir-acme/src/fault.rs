//! What can go wrong with an order, told apart by whose fault it is.

use instant_acme::{Error, Problem};

use crate::book::BookError;
use crate::certificate::CertificateError;
use crate::clock::Seconds;
use crate::plan::Failure;
use crate::transport::TransportError;

/// An attempt that failed, in words and as the plan takes it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    pub(crate) what: String,
    /// The CA does not know the account: it is to be asked for a new one.
    pub(crate) is_account_lost: bool,
}

impl Fault {
    pub(crate) fn refused(what: impl Into<String>) -> Fault {
        Fault { failure: Failure::Refused, what: what.into(), is_account_lost: false }
    }

    pub(crate) fn outage(what: impl Into<String>) -> Fault {
        let failure = Failure::Outage { retry_after: None };
        Fault { failure, what: what.into(), is_account_lost: false }
    }

    /// The same for a request about the account, whose failure is no host's.
    pub(crate) fn of_account(self) -> Fault {
        let failure = match self.failure {
            Failure::Limited { retry_after } => Failure::Outage { retry_after },
            Failure::Refused | Failure::Unsettled => Failure::Outage { retry_after: None },
            outage @ Failure::Outage { .. } => outage,
        };
        Fault { failure, what: format!("account: {}", self.what), ..self }
    }

    /// Notes what the CA asked for by `Retry-After`.
    pub(crate) fn wait(mut self, asked: Option<Seconds>) -> Fault {
        if let Failure::Outage { retry_after } | Failure::Limited { retry_after } = &mut self.failure {
            *retry_after = asked;
        }
        self
    }
}

/// The type of a problem, without what all have in common (RFC 8555 §6.7).
pub(crate) fn kind(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
}

/// A problem in words.
pub(crate) fn words(problem: &Problem) -> String {
    let mut text = problem.detail.clone().unwrap_or_else(|| "no detail".to_owned());
    if !kind(problem).is_empty() {
        text = format!("{}: {text}", kind(problem));
    }
    for part in &problem.subproblems {
        text.push_str(&format!("; {part}"));
    }
    text
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let what = error.to_string();
        match error {
            Error::Api(problem) => {
                let failure = match kind(&problem) {
                    "rateLimited" => Failure::Limited { retry_after: None },
                    "serverInternal" | "accountDoesNotExist" => Failure::Outage { retry_after: None },
                    "badNonce" => Failure::Unsettled,
                    _ => Failure::Refused,
                };
                let is_account_lost = kind(&problem) == "accountDoesNotExist";
                Fault { failure, what: words(&problem), is_account_lost }
            }
            Error::Timeout(_) => {
                let what = "the CA has not decided yet".to_owned();
                Fault { failure: Failure::Unsettled, what, is_account_lost: false }
            }
            Error::Other(error) if !error.is::<TransportError>() => Fault::refused(what),
            Error::Crypto | Error::KeyRejected | Error::Unsupported(_) => Fault::refused(what),
            // No answer, or one that is not ACME's.
            _ => Fault::outage(what),
        }
    }
}

impl From<BookError> for Fault {
    fn from(error: BookError) -> Fault {
        Fault { failure: Failure::Unsettled, what: error.to_string(), is_account_lost: false }
    }
}

impl From<CertificateError> for Fault {
    fn from(error: CertificateError) -> Fault {
        Fault::refused(error.to_string())
    }
}

impl From<TransportError> for Fault {
    fn from(error: TransportError) -> Fault {
        Fault::outage(error.to_string())
    }
}
