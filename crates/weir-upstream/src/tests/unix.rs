//! Origins behind a unix socket.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::UnixListener;

use super::scripted::{Peer, fetch, get, settings};
use crate::Upstream;

#[tokio::test]
async fn a_unix_socket_serves_and_its_connection_serves_again() {
    let folder = std::env::temp_dir().join(format!("weir-upstream-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("origin.sock");
    let _ = std::fs::remove_file(&path);
    let upstream = Upstream::new(settings(&[format!("unix:{}", path.display())])).unwrap();
    let error = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!(error.proxy_status(), "connection_refused");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        Peer::new(Box::new(stream), 0, Arc::new(Mutex::new(Vec::new()))).answer_all("local").await;
    });
    for _ in 0..3 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "local");
    }
    assert_eq!(upstream.snapshot().origins[0].connects, 1);
    serving.abort();
    std::fs::remove_dir_all(&folder).unwrap();
}
