//! What happens to certificates, for the log and for events.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_tls::{Identity, Names, Source};

/// The longest time before its end at which a certificate is said to be near it.
const NEAR_MAX: Duration = Duration::from_secs(21 * 86_400);
/// The share of its lifetime: a sixth. By then it should have been renewed.
const NEAR_SHARE: u32 = 6;

/// How near its end a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Valid,
    NearEnd,
    Expired,
}

impl Stage {
    pub(super) fn of(identity: &Identity, now: SystemTime) -> Stage {
        let Ok(left) = identity.not_after.duration_since(now) else { return Stage::Expired };
        let lifetime = identity.not_after.duration_since(identity.not_before).unwrap_or_default();
        if left < NEAR_MAX.min(lifetime / NEAR_SHARE) { Stage::NearEnd } else { Stage::Valid }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Stage::Valid => "valid",
            Stage::NearEnd => "near-end",
            Stage::Expired => "expired",
        }
    }
}

/// Something that happened to a certificate.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// It is in use now.
    Came(Arc<Identity>),
    /// Files cannot be used. What was in use before stays.
    Failed {
        /// The names of the certificate that stays.
        names: Option<Names>,
        /// A sentence with the file's name.
        why: String,
    },
    /// Its end is near, or has come.
    Aged(Arc<Identity>, Stage),
}

impl Change {
    /// Tells the log.
    pub(super) fn log(&self) {
        match self {
            Change::Came(identity) => {
                let (names, until) = (&identity.names, weir_control::rfc3339(identity.not_after));
                match &identity.source {
                    Source::SelfSigned => tracing::warn!(
                        "certificate for {names} is signed by Weir itself, for development: no client \
                         trusts it"
                    ),
                    source => tracing::info!("certificate for {names} is in use until {until} ({source})"),
                }
            }
            Change::Failed { names: Some(names), why } => {
                tracing::error!("{why}; the certificate for {names} that was loaded before stays in use");
            }
            Change::Failed { names: None, why } => tracing::error!("{why}; this certificate is not in use"),
            Change::Aged(identity, stage) => {
                let (names, until) = (&identity.names, weir_control::rfc3339(identity.not_after));
                match stage {
                    Stage::Expired => tracing::error!("certificate for {names} has expired on {until}"),
                    _ => tracing::warn!("certificate for {names} ends on {until}: renew it"),
                }
            }
        }
    }

    /// Its subject and its word, for events.
    pub(super) fn told(&self) -> (String, &'static str) {
        match self {
            Change::Came(identity) => (identity.names.to_string(), "in-use"),
            Change::Failed { names, why } => {
                (names.as_ref().map_or_else(|| why.clone(), ToString::to_string), "failed")
            }
            Change::Aged(identity, stage) => (identity.names.to_string(), stage.word()),
        }
    }
}
