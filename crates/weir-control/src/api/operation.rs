//! What a row of the table of operations says.

use std::sync::Arc;

use http::{Method, StatusCode};
use hyper::body::Incoming;

use crate::answer::{Answer, Refusal, Waiting};
use crate::call::{Call, Role};
use crate::control::Control;

/// What all paths of this version begin with.
pub const VERSION: &str = "/v1";
/// One operation: a method of a path.
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// With at most one variable, which is the last segment: `/v1/jobs/{id}`.
    pub(crate) path: &'static str,
    /// What a token needs; `None`: any will do, and sees what is its own.
    pub(crate) role: Option<Role>,
    /// What a token that is limited to sites gets.
    pub(crate) reach: Reach,
    /// In a sentence.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests print it into the document"))]
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Parameter],
    /// The content of a request, JSON.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests print it into the document"))]
    pub(crate) input: Option<SchemaOf>,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests print it into the document"))]
    pub(crate) output: Output,
    pub(crate) act: Act,
}

/// What an operation is for a token that is limited to sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It concerns the whole Weir, and such a token is refused.
    Whole,
    /// It concerns the sites of the token alone.
    OwnSites,
}

/// A parameter of a query, for the document.
#[cfg_attr(not(test), expect(dead_code, reason = "the tests print it"))]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Its type in JSON Schema.
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
}

/// What an operation answers if it succeeds, for the document.
#[cfg_attr(not(test), expect(dead_code, reason = "the tests print it"))]
pub(crate) struct Output {
    pub(crate) status: StatusCode,
    pub(crate) meaning: &'static str,
    /// Its forms; all but CSV have that schema.
    pub(crate) forms: &'static [&'static str],
    pub(crate) schema: SchemaOf,
}

/// The schema of what is asked or answered: a part of the document, which only the tests print.
pub(crate) struct SchemaOf {
    #[cfg(test)]
    pub(super) print: fn(&mut schemars::SchemaGenerator) -> schemars::Schema,
}

impl SchemaOf {
    /// That of a type, as serde reads and writes it.
    #[cfg(test)]
    pub(super) const fn of<T: schemars::JsonSchema>() -> SchemaOf {
        SchemaOf { print: |generator| generator.subschema_for::<T>() }
    }

    /// That of a type, as serde reads and writes it.
    #[cfg(not(test))]
    #[expect(clippy::extra_unused_type_parameters, reason = "the table names types for the tests' document")]
    pub(super) const fn of<T>() -> SchemaOf {
        SchemaOf {}
    }
}

/// How an operation is done.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// It shows what is in memory, and waits for no drive. It gets a thread beside the runtime.
    Shows(fn(&Arc<Control>, &Call) -> Result<Answer, Refusal>),
    /// It may wait for a drive, and gets a thread beside the runtime.
    Blocks(fn(&Arc<Control>, &Call) -> Result<Answer, Refusal>),
    /// It waits without a thread.
    Waits(fn(Arc<Control>, Call) -> Waiting),
    /// The same, and it takes content of any kind and length, as it arrives.
    Takes(fn(Arc<Control>, Call, Incoming) -> Waiting),
}
