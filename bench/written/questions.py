"""Asks a distributor as fast as it answers: many datagrams a system call, by `sendmmsg` and `recvmmsg` of the C library."""
import ctypes
import os
import socket
import struct
import sys
import time

BATCH, OPEN, ANSWER = 64, 512, 128
HEAD = (b"GET /o/%d HTTP/1.1\r\nhost: bench.test\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
        b"accept: text/html,application/xhtml+xml\r\naccept-language: en\r\naccept-encoding: gzip, br\r\n\r\n")
LIBC = ctypes.CDLL(None, use_errno=True)


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("vectors", ctypes.POINTER(Vector)), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t), ("flags", ctypes.c_int)]


class Message(ctypes.Structure):
    _fields_ = [("header", Header), ("length", ctypes.c_uint)]


def question(number, policy, form):
    """The bytes of one question (docs/format/distributor.md)."""
    head, client = HEAD % number, b"192.0.2.%d:%d" % (number % 250, 10000 + number % 50000)
    if form == "plain":
        return policy + b"\n" + client + b"\n" + head
    text = b"WQ\x01\x00" + struct.pack(">QBBH", number, len(policy), len(client), len(head)) + policy + client + head
    return text.ljust(96, b"\0")


def messages(texts):
    """An array of messages, each with a buffer of its own."""
    buffers = [ctypes.create_string_buffer(text, len(text)) for text in texts]
    vectors = (Vector * len(texts))(*[Vector(ctypes.addressof(one), len(one)) for one in buffers])
    array = (Message * len(texts))()
    for at in range(len(texts)):
        array[at].header.vectors = ctypes.pointer(vectors[at])
        array[at].header.count = 1
    return array, buffers, vectors


def ask(port, policy, form, seconds):
    """Answers a second of one socket that keeps OPEN questions open. What does not come in 0.1 s is given up."""
    policy = policy.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            one.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        one.connect(("127.0.0.1", port))
        one.settimeout(None)
        # One second of patience in the kernel: recvmmsg returns with what is there.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
        sent = [messages([question(first + at, policy, form) for at in range(BATCH)]) for first in range(0, 64 * BATCH, BATCH)]
        received, buffers, _ = messages([b"\0" * ANSWER] * BATCH)
        fd, turn, answers, lost, wrong = one.fileno(), 0, 0, 0, 0

        def send(count):
            nonlocal turn
            while count > 0:
                done = LIBC.sendmmsg(fd, sent[turn % len(sent)][0], min(count, BATCH), 0)
                if done <= 0:
                    raise OSError(ctypes.get_errno(), "sendmmsg")
                turn, count = turn + 1, count - done
        send(OPEN)
        begun = time.perf_counter()
        while time.perf_counter() < begun + seconds:
            count = LIBC.recvmmsg(fd, received, BATCH, 0x10000, None)  # MSG_WAITFORONE
            if count <= 0:
                lost += OPEN
                send(OPEN)
                continue
            answers += count
            text = buffers[count - 1].raw[:received[count - 1].length]
            wrong += not (text[:2] == b"WA" and b"127.0.0.1:" in text if form == "full" else text.startswith(b"127.0.0.1:"))
            send(count)
        return answers / (time.perf_counter() - begun), lost, wrong, time.process_time()


def main():
    """PORT POLICY FORM SECONDS CPU; prints the figures of `ask`."""
    port, policy, form, seconds, cpu = sys.argv[1:]
    os.sched_setaffinity(0, {int(cpu)})
    print(*ask(int(port), policy, form, float(seconds)))


if __name__ == "__main__":
    main()
