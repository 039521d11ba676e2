//! Distributors that are dead, slow, lying, forging, duplicating and reordering.

use super::*;
use crate::format::{DATAGRAM_MAX, Question, plain_answer_text, read_plain_question};

/// Reads questions on a thread and gives each to `play` with its sender, until `count` have come.
fn played(
    socket: UdpSocket,
    count: usize,
    mut play: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static,
) -> std::thread::JoinHandle<UdpSocket> {
    std::thread::spawn(move || {
        let mut bytes = [0; 65_535];
        for _ in 0..count {
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            play(&socket, &bytes[..length], from);
        }
        socket
    })
}

fn id(bytes: &[u8]) -> u64 {
    Question::read(bytes, &Keys::default()).unwrap().id
}

fn answer(answer: &Answer, id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    answer.write(id, &Keys::default(), &mut out);
    out
}

/// Waits until something was counted.
async fn until_counted(asker: &Asker, count: Count, times: u64) {
    while asker.counts().get(count) < times {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Datagrams that wait at a socket.
fn left(socket: &UdpSocket) -> usize {
    socket.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| socket.recv_from(&mut [0; 2048]).ok()).count()
}

#[tokio::test]
async fn a_question_is_answered() {
    let (socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..settings(&[place]) });
    let playing = played(socket, 1, |socket, bytes, from| {
        let question = Question::read(bytes, &Keys::default()).unwrap();
        assert_eq!((question.policy, question.client), ("least_cpu", Some(client())));
        assert!(question.marks == Marks::HTTPS);
        assert_eq!(question.head, b"GET /cart HTTP/1.1\r\nhost: shop.example\r\n\r\n");
        socket.send_to(&answer(&address(), question.id), from).unwrap();
    });
    assert_eq!(ask(&asker).await, Heard::Answer(address()));
    assert_eq!(left(&playing.join().unwrap()), 0);
    counted(
        &asker,
        &[(Count::Questions, 1), (Count::Sent, 1), (Count::Addresses, 1), (Count::Unanswered, 0)],
    );
    assert_eq!(asker.open(), 0);
}

#[tokio::test]
async fn a_dead_distributor_gets_three_datagrams() {
    let (socket, place) = socket();
    let asker = Asker::new(settings(&[place]));
    assert_eq!(ask(&asker).await, Heard::Silence);
    assert_eq!(left(&socket), 3);
    counted(&asker, &[(Count::Sent, 3), (Count::Unanswered, 1)]);
}

#[tokio::test]
async fn each_try_goes_to_the_next_distributor() {
    let ((one, place_one), (two, place_two)) = (socket(), socket());
    let asker = Asker::new(settings(&[place_one.clone(), place_two.clone()]));
    assert_eq!(ask(&asker).await, Heard::Silence);
    assert_eq!((left(&one), left(&two)), (2, 1));
    let ((one, place_one), (two, place_two)) = (socket(), socket());
    let patient = Settings { timeout: Duration::from_secs(1), ..settings(&[place_one, place_two]) };
    let asker = Asker::new(Settings { timeout: Duration::from_millis(200), ..patient });
    let playing = played(two, 1, |socket, bytes, from| {
        socket.send_to(&answer(&address(), id(bytes)), from).unwrap();
    });
    assert_eq!(ask(&asker).await, Heard::Answer(address()));
    playing.join().unwrap();
    assert_eq!(left(&one), 1);
}

#[tokio::test]
async fn a_late_answer_is_dropped_and_counted() {
    let (socket, place) = socket();
    let asker = Asker::new(settings(&[place]));
    assert_eq!(ask(&asker).await, Heard::Silence);
    let mut bytes = [0; 2048];
    let (length, from) = socket.recv_from(&mut bytes).unwrap();
    socket.send_to(&answer(&address(), id(&bytes[..length])), from).unwrap();
    until_counted(&asker, Count::Late, 1).await;
    // One to the first try while the second is under way is not late.
    let asker = Asker::new(Settings { timeout: Duration::from_secs(1), ..asker.settings().clone() });
    let playing = played(socket, 4, {
        let mut asked = 0;
        move |socket, bytes, from| {
            asked += 1;
            if asked == 4 {
                socket.send_to(&answer(&address(), id(bytes)), from).unwrap();
            }
        }
    });
    assert!(matches!(ask(&asker).await, Heard::Answer(_)));
    playing.join().unwrap();
}

#[tokio::test]
async fn second_and_foreign_and_unasked_answers_are_dropped_and_counted() {
    let (socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..settings(&[place]) });
    let playing = played(socket, 1, |socket, bytes, from| {
        let lie: Answer = Answer::Address("6.6.6.6:666".parse().unwrap());
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(&answer(&lie, id(bytes)), from).unwrap();
        socket.send_to(&answer(&lie, id(bytes) ^ 1), from).unwrap();
        socket.send_to(b"WA\x01\x01", from).unwrap();
        socket.send_to(&[b'W'; 3000], from).unwrap();
        socket.send_to(&answer(&address(), id(bytes)), from).unwrap();
        socket.send_to(&answer(&lie, id(bytes)), from).unwrap();
    });
    assert_eq!(ask(&asker).await, Heard::Answer(address()));
    playing.join().unwrap();
    until_counted(&asker, Count::Duplicate, 1).await;
    counted(&asker, &[(Count::Foreign, 1), (Count::Unasked, 1), (Count::Malformed, 2), (Count::Late, 0)]);
}

#[tokio::test]
async fn a_forged_answer_is_dropped_and_counted() {
    let (socket, place) = socket();
    let keys = |text: &[u8]| Keys::read(text).unwrap();
    let both = Settings {
        keys: keys(b"0123456789abcdef-0123456789abcdef-new\n0123456789abcdef-0123456789abcdef-old"),
        ..settings(&[place])
    };
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..both });
    let playing = played(socket, 1, move |socket, bytes, from| {
        let question = Question::read(bytes, &keys(b"0123456789abcdef-0123456789abcdef-new")).unwrap();
        let mut out = Vec::new();
        address().write(question.id, &keys(b"a key that nobody knows, of 32 bytes"), &mut out);
        socket.send_to(&out, from).unwrap();
        socket.send_to(&answer(&address(), question.id), from).unwrap();
        out.clear();
        Answer::Nothing.write(question.id, &keys(b"0123456789abcdef-0123456789abcdef-old"), &mut out);
        socket.send_to(&out, from).unwrap();
    });
    assert_eq!(ask(&asker).await, Heard::Answer(Answer::Nothing));
    playing.join().unwrap();
    counted(&asker, &[(Count::Forged, 2), (Count::Nothing, 1)]);
}

#[tokio::test]
async fn answers_in_another_order_find_their_questions() {
    const QUESTIONS: usize = 150;
    let (socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..settings(&[place]) });
    let mut all = Vec::new();
    let playing = played(socket, QUESTIONS, move |socket, bytes, from| {
        let question = Question::read(bytes, &Keys::default()).unwrap();
        all.push((question.id, question.client.unwrap().port()));
        if all.len() < QUESTIONS {
            return;
        }
        for (id, port) in all.drain(..).rev() {
            let there = Answer::Address(SocketAddr::from(([10, 0, 0, 1], port)));
            socket.send_to(&answer(&there, id), from).unwrap();
        }
    });
    let fields = HeaderMap::new();
    let asking = |port: u16| {
        let head = Head { method: "GET", target: b"/", host: "a", fields: &fields };
        let client = Some(SocketAddr::from(([192, 0, 2, 1], port)));
        let (asker, asked) = (&asker, AskedFor { client, marks: Marks::default(), head });
        async move {
            let heard = asker.ask(&asked, &is_private).await;
            assert_eq!(heard, Heard::Answer(Answer::Address(SocketAddr::from(([10, 0, 0, 1], port)))));
        }
    };
    all_of((0..QUESTIONS as u16).map(|at| asking(1000 + at)).collect()).await;
    playing.join().unwrap();
    counted(&asker, &[(Count::Addresses, QUESTIONS as u64)]);
    assert_eq!(asker.open(), 0);
}

/// Waits for all of these at once.
pub(super) async fn all_of<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut left: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        left.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if left.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_question_up() {
    let (_socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..settings(&[place]) });
    let asking = tokio::time::timeout(Duration::from_millis(30), ask(&asker)).await;
    assert!(asking.is_err());
    assert_eq!(asker.open(), 0);
}

#[tokio::test]
async fn a_head_that_is_too_long_is_reduced_in_a_datagram() {
    let (socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..settings(&[place]) });
    let playing = played(socket, 2, |socket, bytes, from| {
        assert!(bytes.len() <= DATAGRAM_MAX);
        let question = Question::read(bytes, &Keys::default()).unwrap();
        let says =
            Answer::Denial { status: 400 + u16::from(question.marks.has(Marks::REDUCED)), retry_after: None };
        socket.send_to(&answer(&says, question.id), from).unwrap();
    });
    let denied = |status| Heard::Answer(Answer::Denial { status, retry_after: None });
    assert_eq!(ask_with(&asker, &long(800)).await, denied(400));
    assert_eq!(ask_with(&asker, &long(1200)).await, denied(401));
    playing.join().unwrap();
}

#[tokio::test]
async fn one_client_is_skipped_after_silences_and_costs_no_datagram_then() {
    let (socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_millis(2), ..settings(&[place]) });
    for _ in 0..4 {
        assert_eq!(ask(&asker).await, Heard::Silence);
    }
    let sent = asker.counts().get(Count::Sent);
    assert!((5..=6).contains(&sent), "{sent}: five silences in a row, and the try under way");
    assert_eq!(left(&socket) as u64, sent);
    assert!(asker.counts().get(Count::Skipped) >= 2);
}

#[tokio::test]
async fn what_is_no_origin_is_dropped_and_the_next_one_asked() {
    let (socket, place) = socket();
    let asker = Asker::new(Settings { timeout: Duration::from_secs(5), ..settings(&[place]) });
    let playing = played(socket, 3, |socket, bytes, from| {
        let lie = Answer::Address("169.254.169.254:80".parse().unwrap());
        socket.send_to(&answer(&lie, id(bytes)), from).unwrap();
    });
    assert_eq!(ask(&asker).await, Heard::Silence);
    assert_eq!(left(&playing.join().unwrap()), 0);
    counted(&asker, &[(Count::Sent, 3), (Count::NotAllowed, 3), (Count::Unanswered, 1)]);
}

#[tokio::test]
async fn plain_questions_have_a_socket_each() {
    let (socket, place) = socket();
    let plain = Settings { form: Form::Plain, timeout: Duration::from_secs(5), ..settings(&[place]) };
    let asker = Asker::new(plain);
    let mut senders: Vec<SocketAddr> = Vec::new();
    let playing = played(socket, 3, move |socket, bytes, from| {
        assert!(!senders.contains(&from), "a sender that was used before");
        senders.push(from);
        let (policy, of, head) = read_plain_question(bytes).unwrap();
        assert_eq!((policy, of), ("least_cpu", Some(client())));
        assert!(head.starts_with(b"GET /cart HTTP/1.1\r\n"));
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(b"6.6.6.6:666", from).unwrap();
        socket.send_to(b"not an address", from).unwrap();
        socket.send_to(plain_answer_text(&address()).as_bytes(), from).unwrap();
        socket.send_to(b"6.6.6.6:666", from).unwrap();
    });
    for _ in 0..3 {
        assert_eq!(ask(&asker).await, Heard::Answer(address()));
    }
    playing.join().unwrap();
    counted(&asker, &[(Count::Foreign, 3), (Count::Malformed, 3), (Count::Addresses, 3)]);
}

#[tokio::test]
async fn a_plain_distributor_that_is_dead_gets_three_datagrams() {
    let (socket, place) = socket();
    let asker = Asker::new(Settings { form: Form::Plain, ..settings(&[place]) });
    assert_eq!(ask(&asker).await, Heard::Silence);
    assert_eq!(left(&socket), 3);
    assert_eq!(asker.open(), 0);
}
