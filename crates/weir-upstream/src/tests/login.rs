//! Connections on which a client logs in, against an origin that knows who somebody is by the connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::scripted::{Peer, Scripted, fetch, get, head, ok, serve, settings, text};
use crate::{Carries, LoginUse, Logins, OriginError, OriginRequest, Retries, RetryOn, Upstream};

/// Answers as servers with NTLM do: three messages, and from then on the connection is the user's.
async fn ntlm(mut peer: Peer) {
    let (mut is_midway, mut user) = (false, None);
    while let Some(request) = peer.request().await {
        if request.starts_with("GET /hold") {
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
            continue;
        }
        let said = request.lines().find_map(|line| line.strip_prefix("authorization: NTLM "));
        let challenge = match said {
            Some("one") => " two",
            Some(name) if is_midway => {
                user = Some(name.to_owned());
                ""
            }
            _ => "",
        };
        is_midway = !challenge.is_empty();
        let answer = match &user {
            Some(user) if !is_midway => ok(&format!("{user} on {}", peer.index)),
            _ => format!("HTTP/1.1 401 No\r\nwww-authenticate: NTLM{challenge}\r\ncontent-length: 0\r\n\r\n"),
        };
        peer.send(answer).await;
    }
}

fn with(request: OriginRequest, credentials: &str) -> OriginRequest {
    let mut request = request;
    let value = HeaderValue::from_str(credentials).unwrap();
    Arc::make_mut(&mut request.headers).insert("authorization", value);
    request
}

/// A client's connection.
struct Client {
    logins: Arc<Logins>,
    upstream: Arc<Upstream>,
    carries: Carries,
    address: IpAddr,
}

impl Client {
    fn new(upstream: &Arc<Upstream>, number: u8) -> Client {
        let address = IpAddr::from([192, 0, 2, number]);
        Client { logins: Arc::default(), upstream: upstream.clone(), carries: Carries::One, address }
    }

    fn login(&self) -> LoginUse {
        self.logins.for_request(self.address, self.carries)
    }

    /// Status and text of a response, read to its end.
    async fn ask(&self, request: OriginRequest) -> Result<(u16, String), OriginError> {
        let request = OriginRequest { client: Some(self.address.into()), ..request };
        let mut response = self.upstream.send_for(Some(self.login()), request, None).await?;
        let status = response.status.as_u16();
        Ok((status, text(&mut response.body).await?))
    }

    async fn says(&self, credentials: &str) -> (u16, String) {
        self.ask(with(get("/"), credentials)).await.unwrap()
    }

    async fn get(&self) -> (u16, String) {
        self.ask(get("/")).await.unwrap()
    }

    async fn logs_in(&self, name: &str) -> (u16, String) {
        assert_eq!(self.says("NTLM one").await.0, 401);
        self.says(&format!("NTLM {name}")).await
    }
}

fn bounded(origin: &Scripted, connections: usize, streams: usize) -> Arc<Upstream> {
    let mut settings = settings(&[origin.url()]);
    (settings.bounds.connections_max, settings.bounds.streams_max) = (connections, streams);
    Upstream::new(settings).unwrap()
}

fn streams(upstream: &Upstream) -> usize {
    upstream.snapshot().origins[0].streams
}

#[tokio::test]
async fn a_login_is_its_clients_alone_and_ends_with_its_connection() {
    let origin = serve(ntlm).await;
    let upstream = bounded(&origin, 8, 8);
    let (one, other) = (Client::new(&upstream, 1), Client::new(&upstream, 2));
    assert_eq!(one.get().await.0, 401);
    assert_eq!(one.logs_in("one's").await, (200, "one's on 0".to_owned()));
    for _ in 0..3 {
        assert_eq!(other.get().await.0, 401);
        // A request of nobody.
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "");
        assert_eq!(one.get().await, (200, "one's on 0".to_owned()));
    }
    let second = other.logs_in("other's").await;
    assert!(
        second.0 == 200 && second.1.starts_with("other's on ") && !second.1.ends_with(" 0"),
        "{second:?}"
    );
    assert_eq!(one.get().await.1, "one's on 0");
    assert!(one.logins.has("test") && streams(&upstream) == 2);
    drop(one);
    assert_eq!(streams(&upstream), 1);
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "");
    assert_eq!(upstream.snapshot().origins[0].connections_open, 0, "none of them lies in the pool");
}

#[tokio::test]
async fn a_connection_for_many_is_not_used_again_once_somebody_may_be_logged_in() {
    let origin = serve(ntlm).await;
    let upstream = bounded(&origin, 8, 8);
    let proxy = Client { carries: Carries::Many, ..Client::new(&upstream, 1) };
    assert_eq!(proxy.logs_in("one's").await.0, 200);
    assert_eq!((proxy.get().await.0, streams(&upstream)), (401, 1));
    assert!(!proxy.logins.has("test"));
    // Another client that the proxy names does not go on with the login of the first.
    assert_eq!(proxy.says("NTLM one").await.0, 401);
    let other = Client {
        address: IpAddr::from([192, 0, 2, 2]),
        logins: proxy.logins.clone(),
        ..Client::new(&upstream, 2)
    };
    let other = Client { carries: Carries::Many, ..other };
    assert_eq!(other.says("NTLM other's").await.0, 401);
}

#[tokio::test]
async fn what_belongs_to_nobody_is_closed() {
    let origin = serve(ntlm).await;
    let upstream = bounded(&origin, 8, 8);
    for request in [get("/"), with(get("/"), "NTLM one"), with(get("/"), "NTLM three")] {
        let before = origin.accepted();
        assert_eq!(fetch(&upstream, request).await.unwrap(), "");
        assert_eq!(origin.accepted(), before + 1);
        assert_eq!(upstream.snapshot().origins[0].connections_open, 0);
    }
}

#[tokio::test]
async fn a_login_takes_no_connection_of_others_and_has_a_place_among_streams() {
    let origin = serve(ntlm).await;
    let upstream = bounded(&origin, 1, 2);
    // A client has half of the streams.
    let all: Vec<Client> = (1..4).map(|number| Client::new(&upstream, number)).collect();
    for (number, client) in all.iter().enumerate() {
        client.logs_in("x").await;
        assert_eq!(streams(&upstream), (number + 1).min(2));
    }
    assert_eq!((all[0].get().await.0, all[1].get().await.0, all[2].get().await.0), (200, 200, 401));
    // A request that finds no connection leaves the login as it was.
    let held = head(&upstream, get("/hold")).await;
    assert!(all[0].ask(get("/")).await.is_err());
    drop(held);
    assert_eq!(all[0].get().await, (200, "x on 0".to_owned()));
}

#[tokio::test]
async fn a_login_is_sent_once_and_not_hedged() {
    let silent = |mut peer: Peer| async move {
        peer.request().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let origins = [serve(silent).await, serve(silent).await];
    let mut settings = settings(&[origins[0].url(), origins[1].url()]);
    settings.retries = Retries { on: vec![RetryOn::Closed], times: 3, ..settings.retries };
    let upstream = Upstream::new(settings).unwrap();
    let client = Client::new(&upstream, 1);
    assert!(client.ask(with(get("/"), "NTLM one")).await.is_err());
    assert_eq!(origins.iter().map(|origin| origin.seen().len()).sum::<usize>(), 1);
    assert!(client.ask(get("/")).await.is_err());
    assert!(origins.iter().map(|origin| origin.seen().len()).sum::<usize>() > 2, "others are sent again");
}
