//! A request of the API after the checks: the caller and the content.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_observe::Actor;

use crate::answer::Refusal;
use crate::streams::Form;
use crate::unsent::Moves;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Reads.
    View,
    /// Purges and nothing else: for a content management system.
    Purge,
    /// Pushes metrics of origins and nothing else: for a program beside an origin.
    Push,
    /// Does all.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 4] = [Role::View, Role::Purge, Role::Push, Role::Admin];

    /// Whether it may do what needs `needed`.
    pub fn may(self, needed: Role) -> bool {
        self == Role::Admin || self == needed
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Role::View => "view",
            Role::Purge => "purge",
            Role::Push => "push",
            Role::Admin => "admin",
        }
    }
}

/// Whether the caller uses the control socket or the admin listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Door {
    Socket,
    Listener,
}

/// The client of the API.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    /// The SHA-256 of its token, or the user's name: another token of the same name is another caller.
    pub(crate) identity: String,
    pub(crate) role: Role,
    /// The sites that it sees and touches, by their names; `None`: the whole Weir.
    pub(crate) sites: Option<Vec<String>>,
    pub(crate) door: Door,
}

impl Caller {
    /// Whether it sees and touches the site.
    pub(crate) fn has(&self, site: &str) -> bool {
        self.sites.as_ref().is_none_or(|sites| sites.iter().any(|own| own == site))
    }

    /// Refuses what concerns another site than the caller's, or one that there is not.
    ///
    /// # Errors
    /// 403, which does not tell whether there is such a site.
    pub(crate) fn check_site(&self, site: Option<&str>) -> Result<(), Refusal> {
        match (&self.sites, site) {
            (None, _) => Ok(()),
            (Some(_), Some(site)) if self.has(site) => Ok(()),
            (Some(own), _) => Err(Refusal::new(StatusCode::FORBIDDEN, "other-site", not_yours(own))
                .help("name one of its sites, or use another token")),
        }
    }
}

fn not_yours(own: &[String]) -> String {
    format!("this token is for {} alone", own.join(", "))
}

/// A request that may be answered.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// What stands in the path for its variable; empty without one.
    pub(crate) name: String,
    pub(crate) query: String,
    /// The form of a stream that it accepts.
    pub(crate) form: Option<Form>,
    /// The fields of the request, without its token.
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
    /// What is known of its connection.
    pub(crate) moves: Arc<Moves>,
    /// Of this request, in the history and the diagnostics.
    pub(crate) request_id: String,
}

impl Call {
    /// The content as a value; `what` is its name in the refusal.
    ///
    /// # Errors
    /// 400, with the place of the mistake.
    pub(crate) fn content<T: DeserializeOwned>(&self, what: &str) -> Result<T, Refusal> {
        serde_json::from_slice(&self.body).map_err(|error| Refusal::malformed(format!("not {what}: {error}")))
    }
}
