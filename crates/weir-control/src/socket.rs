//! The control socket's paths: `GET /status`, `GET /certificates`, `GET /volumes`, `GET /objects`,
//! `GET /sites`, `POST /reload`, `POST /explain`, `POST /purge`, `POST /verify`, `POST /upgrade`. A process
//! that may open the socket may use all of them.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, StatusCode, Uri};

use crate::answer::{self, Answer};
use crate::control::{Control, PurgeError, ReloadError};
use crate::data_plane::Question;
use crate::query::{self, Form};
use crate::sites;

/// The content type of the CSV of accounts (RFC 4180 §3).
const CSV: &str = "text/csv; charset=utf-8; header=present";
/// The field of a CSV answer that names files of the accounts that cannot be read as a whole.
const UNSOUND: HeaderName = HeaderName::from_static("weir-unsound");
/// The path of purges.
pub(crate) const PURGE: &str = "/purge";

/// Answers a request of the control socket. May block.
pub(crate) fn answer(control: &Arc<Control>, method: &Method, uri: &Uri, body: &[u8]) -> Answer {
    match (uri.path(), method) {
        ("/status", &Method::GET) => answer::json(StatusCode::OK, &control.status()),
        ("/certificates", &Method::GET) => {
            answer::json(StatusCode::OK, &control.inventory().certificates.all)
        }
        ("/volumes", &Method::GET) => answer::json(StatusCode::OK, &control.status().volumes),
        ("/reload", &Method::POST) => reload(control),
        ("/explain", &Method::POST) => explain(control, body),
        ("/verify", &Method::POST) => verify(control),
        ("/upgrade", &Method::POST) => upgrade(control, body),
        (query::OBJECTS, &Method::GET) => list(control, uri.query().unwrap_or_default()),
        (query::SITES, &Method::GET) => sites(control, uri.query().unwrap_or_default()),
        ("/status" | "/volumes" | query::OBJECTS | query::SITES, _) => answer::method_not_allowed("GET"),
        ("/reload" | "/explain" | "/verify" | "/upgrade" | PURGE, _) => answer::method_not_allowed("POST"),
        _ => answer::refusal(
            StatusCode::NOT_FOUND,
            "this Weir does not know the command; is it older than the client?",
        ),
    }
}

/// Answers a purge. It waits for the disk without holding a thread.
pub(crate) async fn purge(control: &Control, body: &[u8]) -> Answer {
    let order = match serde_json::from_slice(body) {
        Ok(order) => order,
        Err(error) => return answer::refusal(StatusCode::BAD_REQUEST, &format!("not a purge: {error}")),
    };
    match control.purge(order).await {
        Ok(purged) => answer::json(StatusCode::OK, &purged),
        Err(error @ PurgeError::Order(_)) => {
            answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string())
        }
        Err(error @ PurgeError::Unwritten(_)) => {
            answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    }
}

fn reload(control: &Control) -> Answer {
    match control.reload() {
        Ok(reloaded) => answer::json(StatusCode::OK, &reloaded),
        Err(error @ ReloadError::NoFile) => answer::refusal(StatusCode::CONFLICT, &error.to_string()),
        Err(error) => answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string()),
    }
}

fn verify(control: &Control) -> Answer {
    match control.verify() {
        Ok(verified) => answer::json(StatusCode::OK, &verified),
        Err(sentence) => answer::refusal(StatusCode::CONFLICT, &sentence),
    }
}

fn upgrade(control: &Control, body: &[u8]) -> Answer {
    let order = match serde_json::from_slice(body) {
        Ok(order) => order,
        Err(error) => return answer::refusal(StatusCode::BAD_REQUEST, &format!("not an order: {error}")),
    };
    match control.upgrade(&order) {
        Ok(upgraded) => answer::json(StatusCode::OK, &upgraded),
        Err(sentence) => answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &sentence),
    }
}

fn list(control: &Control, query: &str) -> Answer {
    match query::read(query).and_then(|order| control.list(&order)) {
        Ok(listing) => answer::json(StatusCode::OK, &listing),
        Err(sentence) => answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &sentence),
    }
}

/// Answers a request for the accounts, on the socket and on the admin listener.
pub(crate) fn sites(control: &Control, query: &str) -> Answer {
    let told = query::read_sites(query).and_then(|(order, form)| Ok((control.sites(&order)?, form)));
    match told {
        Ok((sites, Form::Json)) => answer::json(StatusCode::OK, &sites),
        Ok((sites, Form::Csv)) => {
            let mut answer = answer::typed(StatusCode::OK, CSV, sites::csv(&sites));
            let unsound: Vec<_> = sites.unsound_within().map(|unsound| unsound.file.as_str()).collect();
            // A text that is not a valid field value (RFC 9110 §5.5) is left out.
            if let Some(value) =
                HeaderValue::from_str(&unsound.join(", ")).ok().filter(|value| !value.is_empty())
            {
                answer.headers_mut().insert(UNSOUND, value);
            }
            answer
        }
        Err(sentence) => answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &sentence),
    }
}

fn explain(control: &Control, body: &[u8]) -> Answer {
    let question: Question = match serde_json::from_slice(body) {
        Ok(question) => question,
        Err(error) => return answer::refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match control.explain(&question) {
        Ok(explained) => answer::json(StatusCode::OK, &explained),
        Err(sentence) => answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &sentence),
    }
}
