//! Asks a CA when a certificate is to be renewed: ARI (RFC 9773).

use std::borrow::Cow;

use instant_acme::{CertificateIdentifier, Error};

use crate::authority::Authority;
use crate::book::Book;
use crate::clock::Seconds;
use crate::fault::Fault;

/// What a CA says about a certificate.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The suggested window.
    pub(crate) window: (Seconds, Seconds),
    /// When to ask again, in seconds from now.
    pub(crate) again_s: Seconds,
    /// A page that explains it.
    pub(crate) explanation: Option<String>,
}

/// The answer; `None` where the CA has no ARI.
///
/// # Errors
/// The CA does not answer, or refuses.
pub(crate) async fn ask(
    authority: &Authority,
    book: &Book,
    id: &str,
    register: impl Fn() -> Result<(), Fault>,
) -> Result<Option<Answer>, Fault> {
    let Some((key, serial)) = id.split_once('.') else { return Ok(None) };
    let account = authority.account(book, register).await?;
    let (authority_key_identifier, serial) = (Cow::Borrowed(key), Cow::Borrowed(serial));
    match account.renewal_info(&CertificateIdentifier { authority_key_identifier, serial }).await {
        Ok((info, again)) => {
            let seconds = |at: i64| Seconds::try_from(at).unwrap_or(0);
            let window = &info.suggested_window;
            Ok(Some(Answer {
                window: (seconds(window.start.unix_timestamp()), seconds(window.end.unix_timestamp())),
                again_s: again.as_secs(),
                explanation: info.explanation_url,
            }))
        }
        Err(Error::Unsupported(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
