//! How jobs begin, end and are forgotten.

use weir_observe::Actor;

use super::*;
use crate::call::Door;

fn user(name: &str) -> Actor {
    Actor::User(name.to_owned())
}

fn token(name: &str) -> Actor {
    Actor::Token(name.to_owned(), "192.0.2.1".to_owned())
}

fn wanted(
    kind: &'static str,
    actor: Actor,
    work: impl FnOnce(&Progress) -> Result<Value, String> + Send + 'static,
) -> Wanted {
    Wanted {
        id: None,
        kind,
        unit: "objects",
        is_alone: true,
        actor: actor.to_string(),
        owner: actor.to_string(),
        is_of_sites: false,
        work: Box::new(work),
        ended: Box::new(|_| {}),
    }
}

fn ended(job: &Job) -> JobShown {
    for _ in 0..2000 {
        let shown = job.shown();
        if shown.state != JobState::Running {
            return shown;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("the job does not end");
}

/// Works until it is to end.
fn endless(progress: &Progress) -> Result<Value, String> {
    progress.expect(1000);
    while progress.step().is_continue() {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(Value::from("part"))
}

fn caller(actor: Actor, role: Role, sites: Option<&str>) -> Caller {
    Caller {
        identity: actor.to_string(),
        actor,
        role,
        sites: sites.map(|site| vec![site.to_owned()]),
        door: Door::Listener,
    }
}

#[test]
fn a_job_says_how_it_ended() {
    let jobs = Jobs::default();
    let done = jobs.begin(wanted("one", user("root"), |progress| {
        let _ = progress.step();
        Ok(Value::from(7))
    }));
    let shown = ended(&done.unwrap());
    assert_eq!((shown.state, shown.result, shown.done), (JobState::Done, Some(Value::from(7)), 1));
    let failed = ended(&jobs.begin(wanted("one", user("root"), |_| Err("no".to_owned()))).unwrap());
    assert_eq!((failed.state, failed.error.as_deref()), (JobState::Failed, Some("no")));
}

#[test]
fn a_job_that_panics_has_failed_and_another_may_begin() {
    let jobs = Jobs::default();
    let job = jobs.begin(wanted("verify", user("root"), |_| panic!("a fault of the work"))).unwrap();
    let shown = ended(&job);
    assert_eq!(shown.state, JobState::Failed);
    assert!(shown.error.unwrap().contains("panicked"));
    let next = jobs.begin(wanted("verify", user("root"), |_| Ok(Value::Null))).unwrap();
    assert_eq!(ended(&next).state, JobState::Done);
}

#[test]
fn a_job_is_cancelled_or_interrupted() {
    let jobs = Jobs::default();
    let job = jobs.begin(wanted("one", user("root"), endless)).unwrap();
    assert!(matches!(jobs.begin(wanted("one", user("root"), endless)), Err(JobError::Same(_))));
    job.cancel();
    jobs.interrupt();
    let shown = ended(&job);
    assert_eq!((shown.state, shown.result), (JobState::Cancelled, Some(Value::from("part"))));
    assert_eq!(shown.total, Some(1000));
    let job = jobs.begin(wanted("one", user("root"), endless)).unwrap();
    jobs.interrupt();
    assert_eq!(ended(&job).state, JobState::Interrupted);
}

#[test]
fn one_actor_keeps_no_other_from_beginning_one() {
    let jobs = Jobs::default();
    let begin = |kind, actor: &Actor| jobs.begin(wanted(kind, actor.clone(), endless));
    let all = [begin("a", &token("cms")).unwrap(), begin("b", &token("cms")).unwrap()];
    assert!(matches!(begin("c", &token("cms")), Err(JobError::TooMany(2))));
    let other = begin("c", &user("root")).unwrap();
    for job in all.iter().chain([&other]) {
        job.cancel();
        ended(job);
    }
    // The ended jobs of others stay, however many one has.
    for _ in 0..2 * KEPT_OF_ONE_MAX {
        ended(&jobs.begin(wanted("a", token("cms"), |_| Ok(Value::Null))).unwrap());
    }
    let operator = caller(user("root"), Role::Admin, None);
    assert_eq!(jobs.list(&operator).len(), KEPT_OF_ONE_MAX + 1);
    assert!(jobs.find(&other.id, &operator).is_some());
}

#[test]
fn a_token_sees_its_own_jobs_and_a_view_of_the_whole_sees_all() {
    let jobs = Jobs::default();
    let job = jobs.begin(wanted("a", token("cms"), |_| Ok(Value::Null))).unwrap();
    let sees = |caller| jobs.find(&job.id, &caller).is_some();
    assert!(sees(caller(token("cms"), Role::Purge, Some("a.test"))));
    assert!(sees(caller(token("eyes"), Role::View, None)));
    assert!(sees(caller(user("root"), Role::Admin, None)));
    assert!(!sees(caller(token("other"), Role::Purge, None)));
    assert!(!sees(caller(token("other"), Role::View, Some("a.test"))));
    assert!(!sees(caller(token("other"), Role::Admin, Some("a.test"))));
    assert_eq!(jobs.find("none", &caller(user("root"), Role::Admin, None)).map(|job| job.id.clone()), None);
}

#[test]
fn tokens_of_sites_leave_places_for_others() {
    let jobs = Jobs::default();
    let begin = |number: usize, is_of_sites| {
        let wanted = wanted("a", token(&format!("{is_of_sites}{number}")), endless);
        jobs.begin(Wanted { is_alone: false, is_of_sites, ..wanted })
    };
    let mut begun: Vec<_> = (0..RUNNING_OF_SITES_MAX).map(|number| begin(number, true).unwrap()).collect();
    assert!(matches!(begin(9, true), Err(JobError::TooManyOfSites(4))));
    begun.push(begin(0, false).unwrap());
    for job in begun {
        job.cancel();
        ended(&job);
    }
}

#[test]
fn the_rate_counts_what_this_process_did_and_a_job_says_what_it_waits_for() {
    let jobs = Jobs::default();
    let job = jobs.begin(wanted("one", user("root"), |progress| {
        progress.resume(1_000_000);
        progress.wait_for(Some("a trifle"));
        endless(progress)
    }));
    let job = job.unwrap();
    while job.shown().waits_for.is_none() {
        std::thread::yield_now();
    }
    let shown = job.shown();
    assert_eq!(shown.waits_for.as_deref(), Some("a trifle"));
    assert!(shown.done >= 1_000_000 && shown.rate < 500_000.0, "{shown:?}");
    job.cancel();
    assert_eq!(ended(&job).waits_for, None);
}
