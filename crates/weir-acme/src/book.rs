//! The files: one record and one certificate for each host, one record and one account for each CA, all below
//! one folder (`docs/format/acme.md`). Each is replaced whole, so that a crash leaves the old one or the new
//! one. A certificate and its key are one file: they always fit.

use std::io;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;
use weir_disk::Disk;

use crate::certificate;
use crate::clock::Seconds;
use crate::names::Name;
use crate::plan::{BACKOFF_S, Held};
use crate::record::{AuthorityRecord, Record};

const HOSTS: &str = "hosts";
const AUTHORITIES: &str = "ca";
/// The longest file that is read: a chain with its key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The state folder refuses. Nothing is asked of a CA that could not be remembered.
#[derive(Debug, Error)]
#[error("cannot write {file} in the state folder: {source}")]
pub struct BookError {
    file: String,
    source: io::Error,
}

/// The files of one folder.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    disk: Arc<dyn Disk>,
}

/// What the files say of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) certificate: Option<Certificate>,
}

/// A certificate with its key.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
    pub(crate) held: Held,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Certificate").field("held", &self.held).finish_non_exhaustive()
    }
}

/// The account at a CA: a key, what the CA calls it, and the contacts that the CA was told.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct AccountFile {
    /// The key in DER (PKCS #8), base64url. It is written before the CA hears of it.
    pub(crate) key: Option<String>,
    /// As `instant-acme` prints it; none before the CA has answered.
    pub(crate) credentials: Option<Value>,
    pub(crate) contact: Vec<String>,
}

impl Book {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Book {
        Book { disk }
    }

    /// What is known of a host. What cannot be read is logged; the host then waits before its next order.
    pub(crate) fn host(&self, name: &Name, now: Seconds) -> Entry {
        let cautious = || Record { not_before: now + BACKOFF_S[3], ..Record::default() };
        let file = host_file(name, "json");
        let mut record = match self.read(&file) {
            Ok(None) => Record::default(),
            Ok(Some(bytes)) => Record::of_bytes(&bytes).unwrap_or_else(|error| {
                tracing::error!(file, %error, "cannot use what is remembered of a certificate");
                cautious()
            }),
            Err(error) => {
                tracing::error!(file, %error, "cannot read what is remembered of a certificate");
                cautious()
            }
        };
        let certificate = self.certificate(name, now);
        let is_done = |order: &mut crate::record::Pending| {
            certificate.as_ref().is_some_and(|certificate| certificate.key_pem == order.key)
        };
        // The process ended between writing the certificate and writing that the order is done.
        if let Some(order) = record.order.take_if(is_done) {
            record = Record { begun: record.begun, issued_by: Some(order.directory), ..Record::default() };
        }
        Entry { record, certificate }
    }

    fn certificate(&self, name: &Name, now: Seconds) -> Option<Certificate> {
        let file = host_file(name, "pem");
        let bytes = match self.read(&file) {
            Ok(bytes) => bytes?,
            Err(error) => {
                tracing::error!(file, %error, "cannot read a certificate");
                return None;
            }
        };
        let text = String::from_utf8(bytes).unwrap_or_default();
        let Some((key_pem, chain_pem)) = certificate::parted(&text) else {
            tracing::error!(file, "this is no certificate with its key");
            return None;
        };
        match certificate::read(chain_pem, key_pem, name, now) {
            Ok(held) => {
                Some(Certificate { chain_pem: chain_pem.to_owned(), key_pem: key_pem.to_owned(), held })
            }
            Err(error) => {
                tracing::warn!(file, %error, "a certificate cannot be used");
                None
            }
        }
    }

    pub(crate) fn write_host(&self, name: &Name, record: &Record) -> Result<(), BookError> {
        self.write(HOSTS, &host_file(name, "json"), &record.to_bytes())
    }

    pub(crate) fn write_certificate(&self, name: &Name, certificate: &Certificate) -> Result<(), BookError> {
        let text = format!("{}{}", certificate.key_pem, certificate.chain_pem);
        self.write(HOSTS, &host_file(name, "pem"), text.as_bytes())
    }

    /// What is known of a CA.
    pub(crate) fn authority(&self, directory: &str, now: Seconds) -> AuthorityRecord {
        let file = authority_file(directory, "json");
        let new = AuthorityRecord { directory: directory.to_owned(), ..AuthorityRecord::default() };
        let cautious = |error: &dyn std::fmt::Display| {
            tracing::error!(file, %error, "cannot use what is remembered of a CA");
            AuthorityRecord { not_before: now + BACKOFF_S[0], ..new.clone() }
        };
        match self.read(&file) {
            Ok(None) => new,
            Ok(Some(bytes)) => match AuthorityRecord::of_bytes(&bytes) {
                Ok(record) if record.directory == directory => record,
                Ok(_) => new,
                Err(error) => cautious(&error),
            },
            Err(error) => cautious(&error),
        }
    }

    pub(crate) fn write_authority(&self, record: &AuthorityRecord) -> Result<(), BookError> {
        self.write(AUTHORITIES, &authority_file(&record.directory, "json"), &record.to_bytes())
    }

    pub(crate) fn account(&self, directory: &str) -> Result<AccountFile, BookError> {
        let file = authority_file(directory, "account");
        let failed = |source| BookError { file: file.clone(), source };
        match self.read(&file).map_err(failed)? {
            None => Ok(AccountFile::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(error.into())),
        }
    }

    pub(crate) fn write_account(&self, directory: &str, account: &AccountFile) -> Result<(), BookError> {
        let value = json!({ "version": 1, "key": account.key, "credentials": account.credentials,
                            "contact": account.contact });
        self.write(AUTHORITIES, &authority_file(directory, "account"), format!("{value:#}\n").as_bytes())
    }

    fn read(&self, file: &str) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(file, FILE_BYTES_MAX)
    }

    fn write(&self, folder: &str, file: &str, bytes: &[u8]) -> Result<(), BookError> {
        let written = self.disk.make_folder(folder).and_then(|()| self.disk.replace(file, bytes));
        written.map(drop).map_err(|source| BookError { file: file.to_owned(), source })
    }
}

fn host_file(name: &Name, ending: &str) -> String {
    format!("{HOSTS}/{name}.{ending}")
}

/// A directory's URL without its scheme, of letters that any file system takes.
fn authority_file(directory: &str, ending: &str) -> String {
    let rest = directory.split_once("://").map_or(directory, |(_, rest)| rest);
    let letter = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let name: String = rest.chars().take(150).map(letter).collect();
    format!("{AUTHORITIES}/{name}.{ending}")
}

#[cfg(test)]
mod tests;
