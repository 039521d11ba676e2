//! Promises of the readers of questions and answers that hold for any bytes. For fuzz targets and tests.

use super::{
    ANSWER_BYTES_MAX, Answer, AnswerHead, Keys, QUESTION_BYTES_MIN, Question, plain_answer,
    plain_answer_text, read_plain_question,
};

/// Reads any bytes as a question: no panic; what is read is in them, and is read again from what it is
/// written as; a signature is never taken from bytes that nobody has signed.
pub fn distributor_question(data: &[u8]) {
    let none = Keys::default();
    if let Ok(question) = Question::read(data, &none) {
        assert!(data.len() >= QUESTION_BYTES_MIN && (1..=64).contains(&question.policy.len()));
        assert!(question.head.len() <= data.len());
        let mut out = Vec::new();
        question.write(&none, &mut out);
        assert_eq!(Question::read(&out, &none), Ok(question));
    }
    let keys = Keys::of(&["a key that no bytes are signed with"]);
    assert!(Question::read(data, &keys).is_err());
}

/// Reads any bytes as an answer, with the same promises; an answer with an address has it in numbers.
pub fn distributor_answer(data: &[u8]) {
    let Ok(head) = AnswerHead::read(data) else { return };
    assert!(data.len() <= ANSWER_BYTES_MAX);
    let none = Keys::default();
    if let Ok(answer) = head.answer(data, &none) {
        if let Answer::Denial { status, .. } = answer {
            assert!((400..600).contains(&status));
        }
        let mut out = Vec::new();
        answer.write(head.id, &none, &mut out);
        let again = AnswerHead::read(&out).and_then(|head| head.answer(&out, &none));
        // Only a scope, which no answer of a server has, makes an address too long.
        assert!(again == Ok(answer) || out.len() > ANSWER_BYTES_MAX);
    }
    assert!(head.answer(data, &Keys::of(&["a key that no bytes are signed with"])).is_err());
}

/// Reads any bytes as a plain question and as a plain answer: no panic; what an answer says is what its text
/// says.
pub fn distributor_plain(data: &[u8]) {
    if let Ok((policy, _, head)) = read_plain_question(data) {
        assert!(!policy.contains('\n') && (1..=64).contains(&policy.len()));
        assert!(data.ends_with(head));
    }
    if let Ok(answer) = plain_answer(data) {
        let text = plain_answer_text(&answer);
        assert_eq!(plain_answer(text.as_bytes()), Ok(answer));
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::fuzz;

    const WORDS: &[&[u8]] = &[
        b"WQ\x01",
        b"WA\x01",
        b"\x01",
        b"\x02",
        b"\x80",
        b"\0\0\0\0",
        b"least_cpu",
        b"10.0.0.1:8080",
        b"[2001:db8::1]:8080",
        b"[fe80::1%1]:80",
        b"429 30",
        b"403",
        b" ",
        b"\n",
        b"-\n",
        b"\r\n",
        b"\xff",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    ];

    #[test]
    fn questions() {
        fuzz("distributor_question", WORDS, super::distributor_question);
    }

    #[test]
    fn answers() {
        fuzz("distributor_answer", WORDS, super::distributor_answer);
    }

    #[test]
    fn plain() {
        fuzz("distributor_plain", WORDS, super::distributor_plain);
    }
}
