//! One server that HTTP is spoken to: where it is, and its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::address::{Addresses, Resolver};
use crate::clock;
use crate::connect::{Place, connect};
use crate::connection::Connection;
use crate::error::{ExchangeError, SetupError};
use crate::pool::carrier::Carrier;
use crate::pool::{Pool, PoolBounds};
use crate::settings::{OriginAddress, TlsSettings};
use crate::tally::{Link, Meter, Trace};
#[cfg(test)]
use crate::tests::scripted;
use crate::tls::{self, Tls};

/// What a server is made of.
#[derive(Clone, Debug)]
pub struct ServerSettings<'s> {
    /// Where it is.
    pub address: &'s OriginAddress,
    /// The one address that it is at, of those that its name has.
    pub at: Option<SocketAddr>,
    /// How TLS is spoken to it.
    pub tls: &'s TlsSettings,
    /// The age at which addresses are looked up again.
    pub resolve_every: Duration,
    /// The longest wait for that.
    pub resolve_max: Duration,
    /// How many connections there may be, and how many requests wait for one.
    pub bounds: PoolBounds,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    place: Place,
    pool: Arc<Pool>,
    /// Where its bytes are counted.
    meter: Option<Arc<dyn Meter>>,
}

impl Server {
    /// A server. Nothing is looked up or connected.
    ///
    /// # Errors
    /// TLS cannot be used as the settings say.
    pub fn new(
        settings: &ServerSettings<'_>,
        resolver: &Resolver,
        meter: Option<Arc<dyn Meter>>,
    ) -> Result<Server, SetupError> {
        let addresses = |host: &str, port| {
            let times = (settings.resolve_every, settings.resolve_max);
            let (host, port) =
                settings.at.map_or((host.to_owned(), port), |at| (at.ip().to_string(), at.port()));
            Arc::new(Addresses::new(&host, port, times, resolver.clone()))
        };
        let place = match settings.address {
            OriginAddress::Unix { path } => Place::Unix { path: path.clone() },
            OriginAddress::Http { host, port } => Place::Tcp { addresses: addresses(host, *port), tls: None },
            OriginAddress::Https { host, port } => {
                let connector = tls::connector(settings.tls)?;
                let name = tls::server_name(settings.tls, settings.address)?;
                Place::Tcp { addresses: addresses(host, *port), tls: Some(Tls { connector, name }) }
            }
        };
        Ok(Server { place, pool: Pool::new(settings.bounds), meter })
    }

    /// A server whose connections are scripted.
    #[cfg(test)]
    pub(crate) fn scripted(script: scripted::Script, bounds: PoolBounds) -> Server {
        Server { place: Place::Scripted(script), pool: Pool::new(bounds), meter: None }
    }

    /// Its connections.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// A new connection, made within `limit`. Name lookups have their own limit.
    ///
    /// # Errors
    /// There is none.
    ///
    /// # Cancel safety
    /// Dropped, it closes what was under way.
    pub(crate) async fn connect(
        &self,
        limit: Duration,
        trace: &mut Option<Box<dyn Trace>>,
    ) -> Result<Box<Connection>, ExchangeError> {
        let since = clock::now();
        let mut connection = Box::pin(connect(&self.place, limit)).await?;
        connection.meter.clone_from(&self.meter);
        if let Some(trace) = trace {
            let took = clock::now().saturating_duration_since(since);
            trace.connected(connection.transport.peer(), Link::New(took));
        }
        Ok(connection)
    }

    /// A place on a new connection, as [`Server::connect`] makes it.
    pub(crate) async fn carrier(
        &self,
        limit: Duration,
        trace: &mut Option<Box<dyn Trace>>,
    ) -> Result<Carrier, ExchangeError> {
        #[cfg(test)]
        if let Place::Scripted(script) = &self.place {
            return Ok(Carrier::Scripted(script.connect()));
        }
        self.connect(limit, trace).await.map(Carrier::H1)
    }

    /// A byte stream to another port of the machine that it answered from at last, or of another one of its
    /// addresses. `None` where there is none, as beside a unix socket.
    pub async fn beside(&self, port: u16) -> Option<impl AsyncRead + AsyncWrite + Send + Unpin + use<>> {
        let known = self.addresses()?.current().await.ok()?;
        let first = known.preferred.load(Ordering::Relaxed);
        let all = known.list.iter().cycle().skip(first).take(known.list.len());
        let all: Vec<SocketAddr> = all.map(|address| SocketAddr::new(address.ip(), port)).collect();
        TcpStream::connect(&all[..]).await.ok()
    }

    /// The addresses of its name; `None` for a unix socket.
    pub fn addresses(&self) -> Option<&Arc<Addresses>> {
        match &self.place {
            Place::Tcp { addresses, .. } => Some(addresses),
            Place::Unix { .. } => None,
            #[cfg(test)]
            Place::Scripted(_) => None,
        }
    }

    /// Its address, where there can be no other: for logs.
    pub fn only_address(&self) -> Option<String> {
        match &self.place {
            Place::Tcp { addresses, .. } => addresses.only().map(|address| address.to_string()),
            Place::Unix { path } => Some(path.display().to_string()),
            #[cfg(test)]
            Place::Scripted(_) => None,
        }
    }
}
