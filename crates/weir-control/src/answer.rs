//! Responses of the control plane: whole bodies, streams, and refusals as JSON.

use std::pin::Pin;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Either;
use serde::{Deserialize, Serialize};

use crate::streams::Stream;
use crate::unsent::Whole;

/// The content type of JSON.
pub(crate) const JSON: &str = "application/json";

/// A response.
pub(crate) type Answer = Response<Content>;

/// What an operation that waits returns.
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>;

/// The content of a response: all of it, or what comes in the course of time.
pub(crate) type Content = Either<Whole, Stream>;

/// Why the API refuses a request: a word for programs, a sentence for people, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Refused {
    /// The word, which stays the same across versions.
    pub error: String,
    /// What is wrong.
    pub message: String,
    /// What to do; empty where the message says it.
    #[serde(default)]
    pub help: String,
}

/// A refusal with its status.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) refused: Refused,
    pub(crate) field: Option<Box<(HeaderName, HeaderValue)>>,
    /// Whether the history has it already.
    pub(crate) is_recorded: bool,
}

impl Refusal {
    /// A refusal whose sentence says what to do.
    pub(crate) fn new(status: StatusCode, word: &str, message: impl Into<String>) -> Refusal {
        let refused = Refused { error: word.to_owned(), message: message.into(), help: String::new() };
        Refusal { status, refused, field: None, is_recorded: false }
    }

    /// The same with what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Refusal {
        self.refused.help = help.into();
        self
    }

    /// The same with a field of the response.
    pub(crate) fn field(mut self, name: HeaderName, value: HeaderValue) -> Refusal {
        self.field = Some(Box::new((name, value)));
        self
    }

    /// The same, once the history has it.
    pub(crate) fn recorded(mut self) -> Refusal {
        self.is_recorded = true;
        self
    }

    /// The request's body is not what the operation takes.
    pub(crate) fn malformed(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// What is asked for makes no sense here.
    pub(crate) fn unfit(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "unfit", message)
    }

    pub(crate) fn answer(self) -> Answer {
        let mut answer = json(self.status, &self.refused);
        if let Some((name, value)) = self.field.map(|field| *field) {
            answer.headers_mut().insert(name, value);
        }
        answer
    }
}

/// A response with a body of a content type.
pub(crate) fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    of(status, content_type, Either::Left(Whole::new(body)))
}

/// A response that goes on. Its connection ends with it.
pub(crate) fn stream(stream: Stream) -> Answer {
    let mut answer = of(StatusCode::OK, stream.form().content_type(), Either::Right(stream));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn of(status: StatusCode, content_type: &'static str, content: Content) -> Answer {
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A line of text.
pub(crate) fn text(status: StatusCode, line: &str) -> Answer {
    typed(status, "text/plain; charset=utf-8", format!("{line}\n"))
}

/// A value as JSON. What strangers have written in it does nothing to a terminal.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match weir_observe::plain_json(value) {
        Ok(body) => typed(status, JSON, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A value as JSON, with 200.
pub(crate) fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}
