//! A CA, and our account there. The account's key is written before the CA hears of it, so that a crash
//! leaves no account behind that nobody can use; with external account binding the library makes the key.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, Key, NewAccount};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::sync::Mutex;

use crate::book::{AccountFile, Book};
use crate::clock::{Clock, Seconds};
use crate::fault::Fault;
use crate::settings::{AuthoritySettings, ExternalAccount};
use crate::transport::{Transport, TransportError};

/// After this the directory is read again.
const ACCOUNT_AGE_S_MAX: Seconds = 86_400;

/// A CA that can be asked.
pub(crate) struct Authority {
    pub(crate) settings: AuthoritySettings,
    transport: Transport,
    clock: Clock,
    /// The account, and since when it is open.
    account: Mutex<Option<(Account, Seconds)>>,
}

impl Authority {
    /// # Errors
    /// The roots cannot be used.
    pub(crate) fn new(settings: AuthoritySettings, clock: Clock) -> Result<Authority, TransportError> {
        let transport = Transport::new(settings.roots.as_deref(), clock.clone())?;
        Ok(Authority { settings, transport, clock, account: Mutex::new(None) })
    }

    /// Our account, made if there is none. `register` says whether the CA may be asked for one now.
    ///
    /// # Errors
    /// The CA refuses, or does not answer.
    pub(crate) async fn account(
        &self,
        book: &Book,
        register: impl Fn() -> Result<(), Fault>,
    ) -> Result<Account, Fault> {
        let mut open = self.account.lock().await;
        let now = self.clock.now();
        if let Some((account, since)) = &*open
            && now < since + ACCOUNT_AGE_S_MAX
        {
            return Ok(account.clone());
        }
        let account = self.open(book, register).await.map_err(Fault::of_account)?;
        *open = Some((account.clone(), now));
        Ok(account)
    }

    async fn open(&self, book: &Book, register: impl Fn() -> Result<(), Fault>) -> Result<Account, Fault> {
        let directory = &self.settings.directory;
        let mut file = book.account(directory)?;
        let account = match file.credentials.take() {
            Some(credentials) => {
                let credentials = serde_json::from_value::<AccountCredentials>(credentials)
                    .map_err(|error| Fault::refused(format!("its file is damaged: {error}")))?;
                file.credentials = Some(printed(&credentials)?);
                self.builder().from_credentials(credentials).await?
            }
            None => {
                register()?;
                self.register(book, &mut file).await?
            }
        };
        if file.contact != self.settings.contact {
            let contact: Vec<&str> = self.settings.contact.iter().map(String::as_str).collect();
            account.update_contacts(&contact).await?;
            file.contact = self.settings.contact.clone();
            book.write_account(directory, &file)?;
        }
        Ok(account)
    }

    async fn register(&self, book: &Book, file: &mut AccountFile) -> Result<Account, Fault> {
        let directory = &self.settings.directory;
        tracing::info!(
            directory,
            "asks the CA for an account, and agrees to its terms of service as the configuration says"
        );
        let (account, credentials) = match &self.settings.external {
            Some(external) => {
                let contact: Vec<&str> = self.settings.contact.iter().map(String::as_str).collect();
                let wanted = NewAccount {
                    contact: &contact,
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                let external = external_key(external)?;
                let made = self.builder().create(&wanted, directory.clone(), Some(&external)).await?;
                file.contact = self.settings.contact.clone();
                made
            }
            None => {
                let key = match &file.key {
                    Some(key) => decoded(key).map_err(Fault::refused)?,
                    None => {
                        let (_, key) = Key::generate_pkcs8()?;
                        let key = key.secret_pkcs8_der().to_vec();
                        file.key = Some(BASE64_URL_SAFE_NO_PAD.encode(&key));
                        book.write_account(directory, file)?;
                        key
                    }
                };
                let key = PrivatePkcs8KeyDer::from(key);
                let pair = (Key::from_pkcs8_der(key.clone_key())?, key.into());
                file.contact = Vec::new();
                self.builder().create_from_key(pair, directory.clone()).await?
            }
        };
        file.credentials = Some(printed(&credentials)?);
        book.write_account(directory, file)?;
        Ok(account)
    }

    /// Forgets the account as the CA has: the next order asks for one again, with the same key.
    ///
    /// # Errors
    /// The state folder refuses.
    pub(crate) async fn forget(&self, book: &Book) -> Result<(), Fault> {
        *self.account.lock().await = None;
        let mut file = book.account(&self.settings.directory)?;
        file.credentials = None;
        Ok(book.write_account(&self.settings.directory, &file)?)
    }

    /// Closes the account: the directory is read again before the next request.
    pub(crate) async fn close(&self) {
        *self.account.lock().await = None;
    }

    fn builder(&self) -> instant_acme::AccountBuilder {
        Account::builder_with_http(Box::new(self.transport.clone()))
    }
}

fn printed(credentials: &AccountCredentials) -> Result<serde_json::Value, Fault> {
    serde_json::to_value(credentials).map_err(|error| Fault::refused(error.to_string()))
}

/// Base64url, with the padding that some CAs print.
fn decoded(text: &str) -> Result<Vec<u8>, String> {
    BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| error.to_string())
}

fn external_key(external: &ExternalAccount) -> Result<ExternalAccountKey, Fault> {
    let key = decoded(&external.hmac_key).map_err(|error| {
        Fault::refused(format!("the key of the external account is no base64url: {error}"))
    })?;
    Ok(ExternalAccountKey::new(external.key_id.clone(), &key))
}
