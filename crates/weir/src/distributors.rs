//! Picks that ask distributors, as the configuration says. It must not read an answer.

use std::time::Duration;

use weir_config::model::{AskForm, WrittenPick};
use weir_config::session_keys;
use weir_config::value::{DistributorUrl, FilePath, KeepAnswer, TrustedProxy};
use weir_distributor::format;
use weir_distributor::{Distributor, Form, Keep, Place, Settings};

/// The lines of a file of keys; none where there is no file.
pub(crate) type Keys = Vec<String>;

/// How long a question waits for its answer.
const TIMEOUT: Duration = Duration::from_millis(20);
/// How often a question is sent.
const TRIES: u8 = 3;

/// The keys of a file.
///
/// # Errors
/// Why it is of no use.
pub(crate) fn keys(file: Option<&FilePath>) -> Result<Keys, String> {
    let Some(FilePath(path)) = file else { return Ok(Keys::new()) };
    session_keys::read(path).map_err(|fault| format!("the keys in {} are of no use: {fault}", path.display()))
}

/// Makes the pick of this name.
pub(crate) fn one(name: &str, pick: &WrittenPick, keys: &Keys) -> Distributor {
    let settings = Settings {
        pick: name.to_owned(),
        distributors: pick.distributor.iter().map(place).collect(),
        policy: pick.policy.clone().unwrap_or_else(|| name.to_owned()),
        timeout: pick.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        tries: pick.tries.unwrap_or(TRIES),
        send: pick.send.iter().map(|name| name.0.clone()).collect(),
        keys: format::Keys::of(keys),
        form: form(pick.form.unwrap_or_default()),
    };
    let keep = match pick.keep {
        None => Keep::Never,
        Some(KeepAnswer::Session) => Keep::Session,
        Some(KeepAnswer::For(time)) => Keep::For(time.0),
    };
    Distributor::new(name, settings, keep, networks(&pick.allow))
}

/// A place of the configuration.
pub(crate) fn place(url: &DistributorUrl) -> Place {
    match url {
        DistributorUrl::Udp(address) => Place::Udp(*address),
        DistributorUrl::Tcp(address) => Place::Tcp(*address),
        DistributorUrl::Unix(path) => Place::Unix(path.clone()),
    }
}

/// A form of the configuration.
pub(crate) fn form(form: AskForm) -> Form {
    match form {
        AskForm::Full => Form::Full,
        AskForm::Plain => Form::Plain,
    }
}

/// The networks of a list; the check refuses others.
pub(crate) fn networks<N: FromIterator<ipnet::IpNet>>(list: &[TrustedProxy]) -> N {
    let net = |entry: &TrustedProxy| match entry {
        TrustedProxy::Net(net) => Some(*net),
        TrustedProxy::Unix => None,
    };
    list.iter().filter_map(net).collect()
}
