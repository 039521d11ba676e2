#!/usr/bin/env python3
"""A distributor: sends each client to an origin by its address, and fills in turn. See docs/format/distributor.md."""
import hashlib, hmac, itertools, socket, sys, zlib

port, key_file, *origins = sys.argv[1:]  # distributor.py 10010 distributor.key 10.0.0.1:8080 10.0.0.2:8080
key = next(line.strip() for line in open(key_file, "rb") if line.strip() and not line.startswith(b"#"))
turns = itertools.cycle(origins)


def pick(policy, client, head):
    # A checksum, since Python's own hash differs in each process.
    return origins[zlib.crc32(client.rpartition(":")[0].encode()) % len(origins)] if client else next(turns)


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", int(port)))
while True:
    question, sender = server.recvfrom(65535)
    body, mac = question[:-32], question[-32:]
    if body[:3] != b"WQ\x01" or not hmac.compare_digest(mac, hmac.digest(key, body, hashlib.sha256)):
        continue
    ends = [16, 16 + body[12], 16 + body[12] + body[13], 16 + body[12] + body[13] + int.from_bytes(body[14:16])]
    policy, client, head = (body[a:b].decode("latin-1") for a, b in itertools.pairwise(ends))
    answer = b"WA\x01\x81" + body[4:12] + pick(policy, client, head).encode()  # 1: an address, 128: signed
    server.sendto(answer + hmac.digest(key, answer, hashlib.sha256), sender)
