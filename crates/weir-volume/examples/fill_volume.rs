//! Makes a volume with many small objects, for `bench/inventory`: `fill_volume FOLDER SIZE_MIB OBJECTS`; with
//! `plain` behind it for `bench/scale`: `/o/0`, `/o/1` and so on, all of them 200.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use weir_policy::{CacheKey, Now, Stored, Tags, site_hash};
use weir_volume::{Clock, OsDisk, PutError, Volume, VolumeSettings, codec, key};

/// Different heads: they are encoded once.
const HEADS: u64 = 1000;
/// Folders below the site.
const FOLDERS: u64 = 1000;
const BODY_BYTES: u64 = 200;

#[allow(clippy::disallowed_methods)]
fn now() -> Now {
    Now { mono: Instant::now(), wall: SystemTime::now() }
}

fn head(number: u64) -> Bytes {
    let kind = ["text/html", "image/png", "image/webp", "application/json"][(number % 4) as usize];
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(tag) = HeaderValue::from_str(&format!("tag{number}")) {
        headers.insert("cache-tag", tag);
    }
    let tags = Tags::read(&headers);
    let status = if number.is_multiple_of(50) { StatusCode::NOT_FOUND } else { StatusCode::OK };
    let mut stored = Stored::of_own(status, headers, now());
    stored.facts.lifetime = Duration::from_secs(3600 * (1 + number % 48));
    stored.tags = tags;
    codec::encode(&stored, now()).into()
}

#[allow(clippy::disallowed_methods)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let mut next = || given.next().ok_or("fill_volume FOLDER SIZE_MIB OBJECTS");
    let (folder, size, count) = (next()?, next()?.parse::<u64>()? << 20, next()?.parse::<u64>()?);
    let is_plain = given.next().is_some_and(|word| word == "plain");
    let since = Instant::now();
    let settings = VolumeSettings::of(size, Clock::new(move || since.elapsed()));
    let disk = Arc::new(OsDisk::take(std::path::Path::new(&folder))?);
    let volume = Arc::new(Volume::open(disk, &settings)?.0);
    let heads: Vec<Bytes> = (0..HEADS).map(head).collect();
    let (body, site) = (Bytes::from(vec![b'x'; BODY_BYTES as usize]), site_hash("localhost"));
    for number in 0..count {
        let url = match is_plain {
            true => format!("http://localhost/o/{number}"),
            false => format!("http://localhost/{:03}/page-{number:09}.html", number % FOLDERS),
        };
        let key = key::on_volume(&CacheKey::new(Bytes::from(url)).of_site(site));
        let body = [body.slice(..(number * 7919 % BODY_BYTES) as usize)];
        let head = if is_plain { &heads[1] } else { &heads[(number % HEADS) as usize] };
        while let Err(error) = volume.store(&key, head.clone(), 1, &body) {
            if error != PutError::QueueFull {
                return Err(Box::new(error));
            }
            volume.sync();
        }
    }
    volume.sync();
    volume.close();
    Ok(())
}
