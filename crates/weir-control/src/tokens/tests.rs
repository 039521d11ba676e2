//! Tokens in a folder.

use super::*;

/// What a text is once the file was read.
fn look(tokens: &Tokens, presented: &str, now: SystemTime) -> Presented {
    tokens.kept.look();
    tokens.look(presented, now)
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("weir-tokens-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn order(name: &str, expires_s: Option<u64>) -> TokenOrder {
    TokenOrder { name: name.to_owned(), role: Role::Purge, sites: vec!["a.test".to_owned()], expires_s }
}

#[test]
fn a_token_is_shown_once_and_kept_as_a_hash() {
    let folder = folder("once");
    let (tokens, now) = (Tokens::of(&folder), SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let made = tokens.add(order("cms", Some(60)), now).unwrap();
    assert!(made.token.starts_with(PREFIX) && made.token.len() == PREFIX.len() + 64, "{}", made.token);
    let text = std::fs::read_to_string(folder.join(TOKENS)).unwrap();
    assert!(!text.contains(&made.token[PREFIX.len()..]), "the secret is kept: {text}");
    assert_eq!(std::fs::metadata(folder.join(TOKENS)).unwrap().mode() & 0o777, 0o600);

    assert_eq!(look(&tokens, &made.token, now), Presented::Good(made.shown.clone(), hash_of(&made.token)));
    assert_eq!(look(&tokens, &made.token[..20], now), Presented::Unknown);
    assert_eq!(look(&tokens, "", now), Presented::Unknown);
    let later = now + Duration::from_secs(60);
    assert_eq!(look(&tokens, &made.token, later), Presented::Expired("cms".to_owned()));
    assert!(tokens.list(later).unwrap()[0].expired && !tokens.list(now).unwrap()[0].expired);
    assert!(matches!(tokens.add(order("cms", None), now), Err(TokenError::Taken(_))));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_another_process_changes_counts_at_once() {
    let folder = folder("other");
    let (one, other, now) = (Tokens::of(&folder), Tokens::of(&folder), SystemTime::UNIX_EPOCH);
    let made = one.add(order("cms", None), now).unwrap();
    assert!(matches!(look(&other, &made.token, now), Presented::Good(..)));
    one.remove("cms", now).unwrap();
    assert_eq!(look(&other, &made.token, now), Presented::Unknown);
    let again = other.add(order("cms", None), now).unwrap();
    assert!(matches!(look(&one, &again.token, now), Presented::Good(..)));
    std::fs::remove_file(folder.join(TOKENS)).unwrap();
    assert_eq!(look(&one, &again.token, now), Presented::Unknown);
    std::fs::write(folder.join(TOKENS), "{").unwrap();
    assert_eq!(look(&one, &again.token, now), Presented::Unknown, "what cannot be read admits nobody");
    assert!(matches!(one.add(order("x", None), now), Err(TokenError::File(_))));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn names_and_times_have_bounds() {
    let folder = folder("bounds");
    let tokens = Tokens::of(&folder);
    for name in ["", "a b", "a:b", "ö", "a/b", "\u{202e}", &"x".repeat(65)] {
        assert!(
            matches!(tokens.add(order(name, None), SystemTime::UNIX_EPOCH), Err(TokenError::Name)),
            "{name}"
        );
    }
    let far = tokens.add(order("far", Some(u64::MAX)), SystemTime::UNIX_EPOCH);
    assert!(matches!(far, Err(TokenError::TooLong)));
    assert!(matches!(tokens.remove("none", SystemTime::UNIX_EPOCH), Err(TokenError::Unknown(_))));
    assert!(!folder.join(TOKENS).exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = folder("pipe");
    let made = std::process::Command::new("mkfifo").arg(folder.join(TOKENS)).status();
    assert!(made.unwrap().success());
    let (tokens, now) = (Tokens::of(&folder), SystemTime::UNIX_EPOCH);
    assert_eq!(look(&tokens, "weir_1", now), Presented::Unknown);
    assert!(!tokens.is_good("1", now) && tokens.list(now).is_err());
}

#[tokio::test(start_paused = true)]
#[expect(clippy::await_holding_lock, reason = "the lock is the drive that does not answer")]
async fn a_file_that_hangs_keeps_nobody_waiting_and_what_was_read_counts() {
    let folder = folder("hangs");
    let (tokens, now) = (Tokens::of(&folder), SystemTime::UNIX_EPOCH);
    let made = tokens.add(order("cms", None), now).unwrap();
    // As a look that the drive does not answer.
    let hung = tokens.kept.file.lock();
    let begun = tokio::time::Instant::now();
    for _ in 0..100 {
        tokens.read_again().await;
        assert!(matches!(tokens.look(&made.token, now), Presented::Good(..)));
        assert_eq!(tokens.look("weir_wrong", now), Presented::Unknown);
    }
    assert_eq!(begun.elapsed(), looker::LOOK_TIME_MAX, "the first waits, and for so long");
    drop(hung);
    std::fs::remove_file(folder.join(TOKENS)).unwrap();
    // The look that hung ends, and the next one counts at once.
    while tokens.looker.is_late() {
        std::thread::yield_now();
    }
    tokens.read_again().await;
    assert_eq!(tokens.look(&made.token, now), Presented::Unknown);
    std::fs::remove_dir_all(folder).unwrap();
}
