//! How long a compaction rests.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Works through `steps` of (CPU, other time) and returns the share of a core that it took, in thousandths.
fn share(permille: u32, steps: &[(Duration, Duration)]) -> u128 {
    let mut pace = Pace::new(permille);
    let (mut wall, mut own) = (1000 * MS, 7 * MS);
    let begin = wall + pace.rest(wall, own);
    for (worked, waited) in steps {
        own += *worked;
        wall += *worked + *waited;
        wall += pace.rest(wall, own);
    }
    (own - 7 * MS).as_micros() * 1000 / (wall - begin).as_micros()
}

#[test]
fn a_thread_that_only_works_takes_its_share() {
    assert_eq!(share(500, &[(MS, Duration::ZERO); 40]), 500);
    assert_eq!(share(250, &[(2 * MS, Duration::ZERO); 40]), 250);
}

#[test]
fn waiting_for_the_drive_counts_as_rest() {
    assert_eq!(share(500, &[(MS, MS); 40]), 500);
    assert_eq!(share(500, &[(MS, 3 * MS); 40]), 250);
}

#[test]
fn idleness_is_not_saved_up() {
    let mut pace = Pace::new(500);
    pace.rest(Duration::ZERO, Duration::ZERO);
    assert_eq!(pace.rest(5000 * MS, MS), Duration::ZERO);
    assert_eq!(pace.rest(5004 * MS, 5 * MS), 4 * MS);
}

#[test]
fn a_rest_is_bounded() {
    let mut pace = Pace::new(1);
    pace.rest(Duration::ZERO, Duration::ZERO);
    assert_eq!(pace.rest(10 * MS, 10 * MS), REST_MAX);
}
