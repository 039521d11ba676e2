//! Lists of statuses, as keys of tables: `200,301`, `5xx`, `any`. Must not know what a table is for, but
//! whether it is about stored responses or about failures.

use crate::nearest::nearest;
use http::StatusCode;
use std::str::FromStr;
use weir_policy::{Statuses, is_never_stored};

/// Statuses, with commas between them, at least one and none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusList(pub Vec<Statuses>);

impl FromStr for StatusList {
    type Err = String;

    fn from_str(text: &str) -> Result<StatusList, String> {
        if text.trim().is_empty() {
            return Err("no status: write one, a class or `any`, such as `404`, `5xx` or `200,301`".into());
        }
        let mut list = Vec::new();
        for member in text.split(',').map(str::trim) {
            let statuses = one(member)?;
            if list.contains(&statuses) {
                return Err(format!("`{member}` appears twice in `{text}`"));
            }
            list.push(statuses);
        }
        Ok(StatusList(list))
    }
}

fn one(member: &str) -> Result<Statuses, String> {
    if member.is_empty() {
        return Err("a status is missing beside a comma".into());
    }
    if member == "any" {
        return Ok(Statuses::Any);
    }
    if let Some(digit) = member.strip_suffix("xx").filter(|digit| digit.len() == 1) {
        return match digit.as_bytes()[0] {
            digit @ b'2'..=b'5' => Ok(Statuses::Class(digit - b'0')),
            b'1' => Err("`1xx` are not final: use `2xx`, `3xx`, `4xx` or `5xx`".into()),
            _ => Err(format!("`{member}` is not a class: use `2xx`, `3xx`, `4xx` or `5xx`")),
        };
    }
    if member.bytes().all(|byte| byte.is_ascii_digit()) {
        let status = member.parse().ok().filter(|code| (100..600).contains(code));
        let status = status.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| format!("`{member}` is not a status: use 200 to 599"))?;
        return match status.is_informational() {
            true => Err(format!("{member} is not final, and no response ends with it")),
            false => Ok(Statuses::One(status)),
        };
    }
    let lower = member.to_ascii_lowercase();
    let near = match lower.as_str() {
        "all" | "*" | "default" | "other" | "else" => Some("any"),
        word => nearest(word, ["any", "2xx", "3xx", "4xx", "5xx"].into_iter()),
    };
    Err(match near {
        Some(near) => format!("`{member}` is not a status: did you mean `{near}`?"),
        None => format!("`{member}` is not a status: write one, a class or `any`: `404`, `5xx`, `any`"),
    })
}

/// Checks a list of statuses of responses that are stored.
pub(super) fn check_storable(text: &str) -> Result<(), String> {
    let StatusList(list) = text.parse()?;
    for statuses in &list {
        match statuses {
            Statuses::One(StatusCode::NOT_MODIFIED) => {
                return Err("a 304 is not stored: it renews a response, which keeps its own status".into());
            }
            Statuses::One(StatusCode::PARTIAL_CONTENT) => {
                // Parts are kept as parts of the 200 that they belong to.
                if !list.contains(&Statuses::One(StatusCode::OK)) {
                    return Err("a 206 is a part of a 200: write `200,206`, or `200` alone".into());
                }
            }
            Statuses::One(status) if is_never_stored(*status) => {
                return Err(format!("a {} is never stored", status.as_str()));
            }
            Statuses::One(_) | Statuses::Class(_) | Statuses::Any => {}
        }
    }
    Ok(())
}

/// Checks a list of statuses by which an origin fails.
pub(super) fn check_errors(text: &str) -> Result<(), String> {
    let StatusList(list) = text.parse()?;
    for statuses in &list {
        let is_error = match statuses {
            Statuses::One(status) => status.is_client_error() || status.is_server_error(),
            Statuses::Class(digit) => *digit >= 4,
            Statuses::Any => false,
        };
        if !is_error {
            return Err(format!("`{text}` is no failure of the origin: use 400 to 599, `4xx` or `5xx`"));
        }
    }
    Ok(())
}

/// The statuses of a table's key, which has been checked.
pub(crate) fn statuses(key: &str) -> Vec<Statuses> {
    key.parse().map(|StatusList(list)| list).unwrap_or_default()
}
