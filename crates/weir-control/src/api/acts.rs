//! The operations that change something. Each leaves an entry in the history before it is answered.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;
use weir_observe::{Act, Entry};

use crate::answer::{self, Answer, Refusal, Waiting};
use crate::call::{Call, Caller, Door};
use crate::control::{Control, PurgeError, ReloadError, RetainError};
use crate::data_plane::{PurgeOrder, PurgeScope, RetentionOrder, RetentionRefusal, SCOPES_MAX, UpgradeOrder};
use crate::history::RETENTION;
use crate::jobs::beside;
use crate::turns::Kind;

/// Why more went than was named.
const WIDER: &str =
    "more than was asked for: it could not be told apart, or the ledger has no room for so many marks";
/// Seconds until the sweeper has made room in the ledger.
const RETRY_AFTER_S: &str = "10";

pub(super) fn reload(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let reloaded = control.reload().map_err(|error| match error {
        error @ ReloadError::NoFile => Refusal::new(StatusCode::CONFLICT, "no-file", error.to_string()),
        // Over the network nothing of the file is shown.
        ReloadError::Mistakes { sentences, .. } if call.caller.door == Door::Listener => {
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration", sentences)
        }
        error @ ReloadError::Hangs => Refusal::new(StatusCode::GATEWAY_TIMEOUT, "hangs", error.to_string()),
        error => Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration", error.to_string()),
    });
    settled(control, entry(call, "reload"), reloaded)
}

pub(super) fn upgrade(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let order: UpgradeOrder = call.content("an order")?;
    let mut entry = entry(call, "upgrade");
    if let Some(program) = &order.program {
        entry.scope = Value::from(program.to_string_lossy());
    }
    if order.program.is_some() && call.caller.door != Door::Socket {
        let message = "only the control socket may name the program";
        let refusal = Refusal::new(StatusCode::FORBIDDEN, "program", message)
            .help("leave `program` out: the one that lies where this one was started from is used");
        return settled(control, entry, Err::<(), _>(refusal));
    }
    let upgraded = control
        .upgrade(&order)
        .map_err(|sentence| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "upgrade", sentence));
    settled(control, entry, upgraded)
}

/// It waits for the disk without holding a thread. What is long in it (a thousand scopes) has one.
pub(super) fn purge(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let turn = control.turns().take(call.caller.door, Kind::Done, &call.caller.identity).await?;
        let (own, whose) = (control.clone(), call);
        let begun = beside(turn, move || {
            let order = ordered(&whose)?;
            let mut entry = entry(&whose, "purge");
            entry.scope = serde_json::to_value(&order).unwrap_or_default();
            let begun = check(&own, &whose.caller, &order, &mut entry);
            let begun = begun.and_then(|()| own.begin_purge(&order).map_err(unpurged));
            Ok::<_, Refusal>((order, entry, begun))
        });
        let (order, mut entry, begun) = begun.await??;
        let purged = match begun {
            Ok(begun) => control.purged(order, begun).await.map_err(unpurged),
            Err(refusal) => Err(refusal),
        };
        entry.mark = purged.as_ref().ok().map(|purged| purged.mark);
        if purged.as_ref().is_ok_and(|purged| !purged.wider.is_empty()) {
            entry.why = WIDER.to_owned();
        }
        ended(&mut entry, &purged);
        control.record(entry).await;
        Ok(answer::ok(&purged.map_err(Refusal::recorded)?))
    })
}

fn unpurged(error: PurgeError) -> Refusal {
    match error {
        PurgeError::Order(sentence) => Refusal::unfit(sentence),
        error @ PurgeError::Unwritten(_) => {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "ledger-unwritten", error.to_string())
        }
    }
}

/// As [`purge`], for a retention.
pub(super) fn retain(control: Arc<Control>, call: Call) -> Waiting {
    Box::pin(async move {
        let turn = control.turns().take(call.caller.door, Kind::Done, &call.caller.identity).await?;
        let (own, whose) = (control.clone(), call);
        let begun = beside(turn, move || {
            let order: RetentionOrder = whose.content("a retention")?;
            order.check().map_err(Refusal::unfit)?;
            let lifetime_s = order.lifetime_s;
            let meant = PurgeOrder { scope: order.scope, scopes: order.scopes, soft: false };
            let meant = limited(&whose.caller, meant)?;
            let mut entry = entry(&whose, RETENTION);
            let order =
                RetentionOrder { scope: meant.scope.clone(), scopes: meant.scopes.clone(), lifetime_s };
            entry.scope = serde_json::to_value(&order).unwrap_or_default();
            let begun = check(&own, &whose.caller, &meant, &mut entry);
            let scopes: Vec<_> = meant.all().cloned().collect();
            let begun = begun.and_then(|()| own.begin_retention(&scopes, lifetime_s).map_err(unretained));
            Ok::<_, Refusal>((scopes, lifetime_s, entry, begun))
        });
        let (scopes, lifetime_s, mut entry, begun) = begun.await??;
        let retained = match begun {
            Ok(begun) => control.retained(scopes, lifetime_s, begun).await.map_err(unretained),
            Err(refusal) => Err(refusal),
        };
        entry.mark = retained.as_ref().ok().map(|retained| retained.mark);
        ended(&mut entry, &retained);
        control.record(entry).await;
        Ok(answer::ok(&retained.map_err(Refusal::recorded)?))
    })
}

/// Notes the sites of an order, and refuses one of which a scope goes beyond the caller's. Each scope is
/// looked up once. No sites are noted where a scope is in no single one.
pub(super) fn check(
    control: &Control,
    caller: &Caller,
    order: &PurgeOrder,
    entry: &mut Entry,
) -> Result<(), Refusal> {
    let sites: Vec<Option<String>> = order.all().map(|scope| site_of(control, scope)).collect();
    let own = order.all().zip(&sites).try_for_each(|(scope, site)| own(caller, scope, site.as_deref()));
    let known: Option<BTreeSet<String>> = sites.into_iter().collect();
    entry.sites = known.unwrap_or_default().into_iter().collect();
    own
}

fn unretained(error: RetainError) -> Refusal {
    match error {
        RetainError::Refused(RetentionRefusal::Unfit(sentence)) => Refusal::unfit(sentence),
        RetainError::Refused(RetentionRefusal::NoRoom(sentence)) => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no-room", sentence)
                .field(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S))
        }
        RetainError::Unwritten(why) => {
            let message = format!(
                "in force until a restart only: {why}; mend the disk of the state folder and order it again"
            );
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "ledger-unwritten", message)
        }
    }
}

/// The purge that is asked for. Tags mean those of the caller's sites.
pub(super) fn ordered(call: &Call) -> Result<PurgeOrder, Refusal> {
    limited(&call.caller, call.content("a purge")?)
}

/// The same of an order. Tags mean those of the caller's sites.
fn limited(caller: &Caller, mut order: PurgeOrder) -> Result<PurgeOrder, Refusal> {
    if order.all().count() > SCOPES_MAX {
        return Err(Refusal::unfit(format!("name at most {SCOPES_MAX} scopes at once")));
    }
    if let Some(own) = &caller.sites {
        let scopes = order.all().flat_map(|scope| match scope {
            PurgeScope::Tags(tags) => {
                let of = |site: &String| PurgeScope::TagsOf { site: site.clone(), tags: tags.clone() };
                own.iter().map(of).collect()
            }
            other => vec![other.clone()],
        });
        order = PurgeOrder { scopes: scopes.collect(), scope: None, ..order };
    }
    if order.all().next().is_none() {
        return Err(Refusal::unfit("name what is meant: `scope` or `scopes`".to_owned()));
    }
    Ok(order)
}

/// The site that a scope is in, if it is in one.
fn site_of(control: &Control, scope: &PurgeScope) -> Option<String> {
    match scope {
        PurgeScope::Url(url) | PurgeScope::Prefix(url) => control.site_of_url(url),
        PurgeScope::Site(name) | PurgeScope::TagsOf { site: name, .. } => control.site_named(name),
        PurgeScope::Tags(_) | PurgeScope::All => None,
    }
}

/// Refuses a scope that goes beyond the caller's sites.
fn own(caller: &Caller, scope: &PurgeScope, site: Option<&str>) -> Result<(), Refusal> {
    match scope {
        PurgeScope::Tags(_) | PurgeScope::All => crate::access::check_whole(caller),
        _ => caller.check_site(site),
    }
}

/// The entry of a call, without what it concerns and how it ended.
pub(super) fn entry(call: &Call, act: &str) -> Entry {
    let (actor, request_id) = (call.caller.actor.clone(), call.request_id.clone());
    Entry { actor, act: act.to_owned(), request_id, ..Entry::default() }
}

/// Records how a call ended, waits until that is written, and answers. Blocks.
pub(super) fn settled<T: Serialize>(
    control: &Control,
    mut entry: Entry,
    result: Result<T, Refusal>,
) -> Result<Answer, Refusal> {
    ended(&mut entry, &result);
    control.record_now(entry);
    Ok(answer::ok(&result.map_err(Refusal::recorded)?))
}

/// Notes how a call ended.
pub(super) fn ended<T>(entry: &mut Entry, result: &Result<T, Refusal>) {
    let Err(refusal) = result else { return };
    let is_refused = refusal.status.is_client_error();
    entry.result = if is_refused { Act::Refused } else { Act::Failed };
    entry.why = refusal.refused.message.lines().next().unwrap_or_default().to_owned();
}
