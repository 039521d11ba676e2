//! What the files give back: whole, damaged, or cut off between two of them.

use rcgen::{CertificateParams, KeyPair};
use weir_disk::testing::CrashDisk;

use super::*;
use crate::record::Pending;

const NOW: Seconds = 1_800_000_000;

fn certificate(host: &str) -> Certificate {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
    let (chain_pem, key_pem) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let held = certificate::read(&chain_pem, &key_pem, &Name::of(host).unwrap(), NOW).unwrap();
    Certificate { chain_pem, key_pem, held }
}

fn name() -> Name {
    Name::of("www.example.com").unwrap()
}

#[test]
fn a_certificate_and_its_key_are_one_file() {
    let disk = CrashDisk::new(1);
    let book = Book::new(Arc::new(disk.clone()));
    let made = certificate("www.example.com");
    book.write_certificate(&name(), &made).unwrap();
    let kept = book.host(&name(), NOW).certificate.unwrap();
    assert_eq!((kept.chain_pem, kept.key_pem), (made.chain_pem.clone(), made.key_pem.clone()));
    assert_eq!(disk.paths(), ["hosts/www.example.com.pem"]);
    // One for another name, another key, one that has expired, and one that is none.
    let other = certificate("other.example.com");
    book.write_certificate(&name(), &other).unwrap();
    assert!(book.host(&name(), NOW).certificate.is_none());
    book.write_certificate(&name(), &Certificate { key_pem: other.key_pem, ..made.clone() }).unwrap();
    assert!(book.host(&name(), NOW).certificate.is_none());
    book.write_certificate(&name(), &made).unwrap();
    assert!(book.host(&name(), made.held.not_after + 1).certificate.is_none());
    disk.put("hosts/www.example.com.pem", Some(b"nothing"));
    assert!(book.host(&name(), NOW).certificate.is_none());
}

#[test]
fn an_order_whose_certificate_is_written_is_done() {
    let book = Book::new(Arc::new(CrashDisk::new(1)));
    let made = certificate("www.example.com");
    let order = Pending {
        directory: "https://ca.example/dir".to_owned(),
        key: made.key_pem.clone(),
        ..Pending::default()
    };
    let record = Record { failures: 1, not_before: NOW + 60, order: Some(order), ..Record::default() };
    book.write_host(&name(), &record).unwrap();
    assert_eq!(book.host(&name(), NOW).record, record);
    book.write_certificate(&name(), &made).unwrap();
    let kept = book.host(&name(), NOW).record;
    assert_eq!((kept.failures, kept.order), (0, None));
    assert_eq!(kept.issued_by.as_deref(), Some("https://ca.example/dir"));
}

#[test]
fn what_cannot_be_read_makes_it_wait() {
    let disk = CrashDisk::new(1);
    let book = Book::new(Arc::new(disk.clone()));
    disk.put("hosts/www.example.com.json", Some(b"{"));
    assert_eq!(book.host(&name(), NOW).record.not_before, NOW + BACKOFF_S[3]);
    disk.put("ca/ca.example_dir.json", Some(b"{"));
    assert_eq!(book.authority("https://ca.example/dir", NOW).not_before, NOW + BACKOFF_S[0]);
    assert_eq!(book.authority("https://other.example/dir", NOW).not_before, 0);
    disk.put("ca/ca.example_dir.account", Some(b"{"));
    assert!(book.account("https://ca.example/dir").is_err());
}
