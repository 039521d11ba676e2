//! What becomes of the word of a decider: a script or a distributor.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;

use super::scripted::{Peer, Scripted, get, gone, ok, serve, settings, text};
use crate::choice::decider::{
    About, Decider, DeciderForm, DeciderSnapshot, Deciders, Deciding, Decision, Denial, Kind, Question,
};
use crate::sessions::affinity::{OriginId, Session};
use crate::{OriginError, OriginRequest, PickWord, Picking, Reason, Role, Upstream, UpstreamSettings, Whose};

/// A decider that says what it is told, after a turn of the runtime where it is slow.
#[derive(Debug)]
struct Told {
    says: Mutex<Decision>,
    is_slow: bool,
    heard: Mutex<Vec<String>>,
}

impl Decider for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn form(&self) -> DeciderForm {
        if self.is_slow { DeciderForm::Distributor } else { DeciderForm::Script }
    }

    fn decide<'q>(&'q self, question: Question<'q>) -> Deciding<'q> {
        let target = String::from_utf8_lossy(question.target).into_owned();
        self.heard.lock().push(format!("{} {target} {:?}", question.method, question.about.client));
        let said = self.says.lock().clone();
        match self.is_slow {
            false => Deciding::Now(said),
            true => Deciding::Later(Box::pin(async move {
                tokio::task::yield_now().await;
                said
            })),
        }
    }

    fn snapshot(&self) -> DeciderSnapshot {
        DeciderSnapshot::default()
    }
}

fn told(is_slow: bool, says: Decision) -> Arc<Told> {
    Arc::new(Told { says: Mutex::new(says), is_slow, heard: Mutex::default() })
}

async fn named(name: &'static str) -> Scripted {
    serve(move |mut peer: Peer| async move {
        while peer.request().await.is_some() {
            peer.send(ok(name)).await;
        }
    })
    .await
}

fn with(told: &Arc<Told>, settings: UpstreamSettings) -> Arc<Upstream> {
    let deciders: Deciders = [told.clone() as Arc<dyn Decider>].into_iter().collect();
    Upstream::new(UpstreamSettings { deciders, ..settings }).unwrap()
}

fn of(kind: Kind) -> OriginRequest {
    let client = (kind == Kind::Pass).then(|| "192.0.2.1:1".parse().unwrap());
    let whose = if kind == Kind::Pass { Whose::Client } else { Whose::Nobody };
    let about = Some(Arc::new(About { kind, client, ..About::default() }));
    OriginRequest { picking: Picking { whose, about, ..Picking::default() }, ..get("/a") }
}

async fn answer(upstream: &Arc<Upstream>, request: OriginRequest) -> (String, PickWord, Reason) {
    let mut response = upstream.send(request, None).await.unwrap();
    let picked = response.picked.unwrap();
    (text(&mut response.body).await.unwrap(), picked.pick, picked.reason)
}

#[tokio::test]
async fn the_origin_that_is_named_gets_the_request() {
    let (a, b) = (named("a").await, named("b").await);
    for (is_slow, word) in [(false, PickWord::Script), (true, PickWord::Distributor)] {
        let told = told(is_slow, Decision::Origin(1));
        let upstream = with(&told, settings(&[a.url(), b.url()]));
        for _ in 0..4 {
            assert_eq!(answer(&upstream, of(Kind::Pass)).await, ("b".into(), word, Reason::Answered));
        }
        *told.says.lock() = Decision::At(b.url()["http://".len()..].parse().unwrap());
        assert_eq!(answer(&upstream, of(Kind::Pass)).await, ("b".into(), word, Reason::Answered));
        assert_eq!(told.heard.lock().len(), 5);
    }
}

#[tokio::test]
async fn where_nothing_is_said_the_next_pick_decides() {
    let (a, b) = (named("a").await, named("b").await);
    for said in [Decision::Open, Decision::Failed, Decision::Origin(7), Decision::Unanswered] {
        let upstream = with(&told(false, said.clone()), settings(&[a.url(), b.url()]));
        let (one, pick, _) = answer(&upstream, of(Kind::Pass)).await;
        let (two, ..) = answer(&upstream, of(Kind::Pass)).await;
        assert_ne!(one, two, "{said:?}");
        assert_eq!(pick, PickWord::RoundRobin);
    }
}

#[tokio::test]
async fn an_address_that_is_no_origin_is_asked_for_that_request_alone() {
    let (a, b, guest) = (named("a").await, named("b").await, named("guest").await);
    let told = told(false, Decision::At(guest.url()["http://".len()..].parse().unwrap()));
    let upstream = with(&told, settings(&[a.url(), b.url()]));
    for _ in 0..3 {
        assert_eq!(answer(&upstream, of(Kind::Pass)).await.0, "guest");
    }
    *told.says.lock() = Decision::Open;
    for _ in 0..4 {
        assert_ne!(answer(&upstream, of(Kind::Pass)).await.0, "guest");
    }
    assert_eq!(upstream.origins_count(), 2);
}

#[tokio::test]
async fn a_denial_concerns_a_pass_and_no_fill() {
    let a = named("a").await;
    let denial = Denial::new(429, Some(7)).unwrap();
    let upstream = with(&told(false, Decision::Deny(denial)), settings(&[a.url()]));
    let error = upstream.send(of(Kind::Pass), None).await.unwrap_err();
    assert!(matches!(error, OriginError::Denied(_)), "{error}");
    assert_eq!((error.status(), error.retry_after_s()), (StatusCode::TOO_MANY_REQUESTS, Some(7)));
    assert!(a.seen().is_empty());
    assert_eq!(answer(&upstream, of(Kind::Fill)).await.0, "a");
    assert_eq!(Denial::new(200, None), None);
    assert_eq!(Denial::new(600, None), None);
}

#[tokio::test]
async fn a_request_stays_among_the_origins_that_are_named() {
    let (a, c, dead) = (named("a").await, named("c").await, gone());
    let urls = [a.url(), format!("http://{dead}"), c.url()];
    let told = told(false, Decision::Among([1, 2].into()));
    let upstream = with(&told, settings(&urls));
    for _ in 0..8 {
        assert_eq!(answer(&upstream, of(Kind::Pass)).await.0, "c");
    }
    *told.says.lock() = Decision::Among([1].into());
    assert!(upstream.send(of(Kind::Pass), None).await.is_err());
    *told.says.lock() = Decision::Among([].into());
    let error = upstream.send(of(Kind::Pass), None).await.unwrap_err();
    assert!(matches!(error, OriginError::NoOrigin), "{error}");
    assert!(a.seen().is_empty());
}

#[tokio::test]
async fn a_distributor_that_is_silent_leaves_a_backup() {
    let (a, b) = (named("a").await, named("b").await);
    let mut settings = settings(&[a.url(), b.url()]);
    settings.origins[1].role = Role::Backup;
    let upstream = with(&told(true, Decision::Unanswered), settings);
    for _ in 0..3 {
        let said = answer(&upstream, of(Kind::Pass)).await;
        assert_eq!(said, ("b".into(), PickWord::Distributor, Reason::Backup));
    }
}

#[tokio::test]
async fn an_origin_that_takes_no_share_is_passed_over() {
    let (a, dead) = (named("a").await, gone());
    let urls = [a.url(), format!("http://{dead}")];
    let upstream = with(&told(false, Decision::Origin(1)), settings(&urls));
    // The retry goes elsewhere; once it is ejected, nothing is sent there.
    for _ in 0..20 {
        assert_eq!(answer(&upstream, of(Kind::Pass)).await.0, "a");
    }
    let said = answer(&upstream, of(Kind::Pass)).await;
    assert_ne!(said.1, PickWord::Script, "{said:?}");
}

#[tokio::test]
async fn the_rest_of_a_body_is_asked_where_its_beginning_came_from() {
    let (a, b) = (named("a").await, named("b").await);
    let told = told(false, Decision::Origin(1));
    let upstream = with(&told, settings(&[a.url(), b.url()]));
    let first = Some(Arc::<str>::from(upstream.listed().origins[0].name.as_str()));
    let said = answer(&upstream, OriginRequest { prefer: first, ..of(Kind::Fill) }).await;
    assert_eq!((said.0.as_str(), said.2), ("a", Reason::Preferred));
    assert!(told.heard.lock().is_empty());
}

#[tokio::test]
async fn a_decider_goes_before_a_hash_and_behind_a_session_that_is_at_an_origin() {
    let (a, b) = (named("a").await, named("b").await);
    let at_a = Session::At(OriginId::of_address(&a.url()));
    for is_slow in [false, true] {
        let told = told(is_slow, Decision::Open);
        let upstream = with(&told, settings(&[a.url(), b.url()]));
        let of = |session| OriginRequest { session: Some(session), ..of(Kind::Pass) };
        let (home, _, reason) = answer(&upstream, of(Session::Hashed(7))).await;
        assert_eq!(reason, Reason::Session);
        for (at, name) in ["a", "b"].into_iter().enumerate() {
            *told.says.lock() = Decision::Origin(at);
            let (answered, _, reason) = answer(&upstream, of(Session::Hashed(7))).await;
            assert_eq!((answered.as_str(), reason), (name, Reason::Answered), "{home}");
            let (answered, _, reason) = answer(&upstream, of(at_a)).await;
            assert_eq!((answered.as_str(), reason), ("a", Reason::Session));
        }
        // It is asked all the same: it may deny.
        *told.says.lock() = Decision::Deny(Denial::new(403, None).unwrap());
        assert!(upstream.send(of(at_a), None).await.is_err());
    }
}
