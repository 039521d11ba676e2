"""Lints responses with httplint and prints a line a finding: page, level, note, subject and summary, tab-separated.

Standard input has one page a line: name, method, target, the request's field lines and the response as it came off the
wire, both in hexadecimal. Notes that praise or merely inform are no findings.
"""

import sys

from httplint import HttpRequestLinter, HttpResponseLinter
from httplint.note import levels

FINDINGS = (levels.WARN, levels.BAD)


def split(wire):
    """The start line, the fields and the rest of a message."""
    head, rest = wire.split(b"\r\n\r\n", 1)
    start, *lines = head.split(b"\r\n")
    return start, fields_of(lines), rest


def fields_of(lines):
    return [tuple(part.strip() for part in line.split(b":", 1)) for line in lines if line]


def chunks(rest):
    """The chunks of a chunked body and its trailer fields."""
    found = []
    while True:
        size, rest = rest.split(b"\r\n", 1)
        length = int(size, 16)
        if length == 0:
            return found, fields_of(rest.split(b"\r\n"))
        found.append(rest[:length])
        rest = rest[length + 2:]


def lint(name, method, target, asked, wire, at):
    request = HttpRequestLinter(start_time=at)
    request.process_request_topline(method, target, b"1.1")
    request.process_headers(fields_of(asked.split(b"\r\n")))
    request.finish_content(True)
    start, fields, rest = split(wire)
    while start.split(b" ")[1].startswith(b"1"):
        start, fields, rest = split(rest)
    version, status, phrase = (start.split(b" ", 2) + [b""])[:3]
    response = HttpResponseLinter(start_time=at, no_content=method == b"HEAD")
    response.request = request
    response.process_response_topline(version.split(b"/")[1], status, phrase)
    response.process_headers(fields)
    names = {key.lower(): value for key, value in fields}
    trailers = []
    if method != b"HEAD":
        parts = [rest]
        if names.get(b"transfer-encoding") == b"chunked":
            parts, trailers = chunks(rest)
        for part in parts:
            response.feed_content(part)
    response.finish_content(True, trailers)
    notes = [note for top in response.notes for note in [top, *top.subnotes]]
    for note in notes:
        if note.level in FINDINGS:
            print("\t".join([name, note.level.name, type(note).__name__, str(note.subject), str(note.summary)]))


def main():
    for line in sys.stdin:
        name, method, target, asked, wire, at = line.rstrip("\n").split("\t")
        lint(name, method.encode(), target.encode(), bytes.fromhex(asked), bytes.fromhex(wire), float(at))
    print("linted")


main()
