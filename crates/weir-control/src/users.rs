//! The user at the other end of the control socket.

use tokio::net::UnixStream;

/// The names of users.
const PASSWD: &str = "/etc/passwd";

/// The name of the process's user, as the kernel vouches for it; its number where it has no name.
pub(crate) fn of(stream: &UnixStream) -> String {
    match stream.peer_cred() {
        Ok(credentials) => name_of(credentials.uid()),
        Err(_) => "unknown".to_owned(),
    }
}

fn name_of(uid: u32) -> String {
    let number = uid.to_string();
    let all = std::fs::read_to_string(PASSWD).unwrap_or_default();
    let name = all.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid) = (fields.next()?, fields.next()?, fields.next()?);
        (uid == number).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_user_has_a_name_or_a_number() {
        assert_eq!(name_of(0), "root");
        assert_eq!(name_of(4_294_967_000), "4294967000");
    }
}
