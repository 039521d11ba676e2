//! One read of a source. It must not hold more than its bounds say, nor take longer than it may.

use std::collections::HashSet;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use weir_config::value::{Gmond, MetricsUrl, OriginUrl};
use weir_upstream::{OriginAddress, PageFault, PageServer};

use crate::clock;
use crate::exposition::{PAGE_BYTES_MAX, Page};
use crate::ganglia::{self, Host};
use crate::hosts::{Best, Target, Wanted};
use crate::samples::Samples;

/// The hosts of one gmond that are origins.
///
/// # Errors
/// Why it counts for nothing.
pub(crate) async fn gmond(at: &Gmond, wanted: &Wanted, limit: Duration) -> Result<Best<Host>, String> {
    let deadline = Instant::now() + limit;
    let late = || format!("no whole document within {} ms", limit.as_millis());
    let connecting = timeout_at(deadline, TcpStream::connect((at.host.as_str(), at.port))).await;
    let stream = connecting.map_err(|_| format!("no connection within {} ms", limit.as_millis()))?;
    let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
    let origins = |name: &str, ip: &str| wanted.origins(name, ip);
    let document = ganglia::read(stream, (&origins, wanted.count()), clock::now());
    // Bytes that are always there keep no other read from its turn: tokio counts them.
    let read = timeout_at(deadline, document).await;
    read.map_err(|_| late())?.map_err(|error| error.to_string())
}

/// The server and the target of an origin's page.
pub(crate) fn page_of(url: &MetricsUrl, target: &Target) -> Option<(OriginUrl, String)> {
    url.of(|part| target.part(part))
}

/// The samples of a page.
///
/// # Errors
/// Why it counts for nothing.
pub(crate) async fn page(
    (server, target): (&OriginUrl, &str),
    wanted: &HashSet<String>,
    limit: Duration,
) -> Result<Samples, String> {
    let address: OriginAddress = server.to_string().parse().map_err(|error| format!("{error}"))?;
    let server = PageServer::new(address).map_err(|error| error.to_string())?;
    let mut page = Page::new(wanted, clock::now());
    let mut wrong = None;
    let mut feed = |piece: &[u8]| {
        wrong = page.feed(piece).err();
        wrong.is_none()
    };
    let read = server.read(target, (limit, PAGE_BYTES_MAX), &mut feed).await;
    match (read, wrong) {
        (_, Some(error)) => Err(error.to_string()),
        (Err(PageFault::Refused), None) => Err("the page is not understood".to_owned()),
        (Err(fault), None) => Err(fault.to_string()),
        (Ok(()), None) => page.end().map_err(|error| error.to_string()),
    }
}
