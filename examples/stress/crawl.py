#!/usr/bin/env python3
"""A module for `weir stress` (docs/guide/stress.md): asks for pages one after the other over one connection, and says
that something is wrong where two responses with the same version differ.

The job comes as a line of JSON; what happened goes out as lines of JSON."""
import hashlib
import http.client
import json
import sys
import time
import urllib.parse

job = json.loads(sys.stdin.readline())
settings = {"path": "/pages/", "pages": 20, "pause": 0.0, **job["settings"]}
server = urllib.parse.urlsplit(job["server"])
known = {}


def say(line):
    print(json.dumps(line), flush=True)


def microseconds(since):
    return (time.perf_counter() - since) * 1e6


def ask(connection, path):
    begun, connect = time.perf_counter(), None
    if connection.sock is None:
        connection.connect()
        connect = microseconds(begun)
    connection.request("GET", server.path + path)
    response = connection.getresponse()
    first = microseconds(begun)
    body = response.read()
    said = {"status": response.status, "bytes": len(body), "first_byte_us": first, "whole_us": microseconds(begun)}
    if connect is not None:
        said["connect_us"] = connect
    say({"response": said})
    if response.status != 200:
        return say({"fault": {"kind": "status", "detail": f"{response.status} for {path}"}})
    version = (path, response.getheader("Stress-Version"))
    digest = hashlib.sha256(body).hexdigest()
    if known.setdefault(version, digest) != digest:
        say({"fault": {"kind": "content", "detail": f"two bodies of {path}, version {version[1]}"}})


connection = http.client.HTTPConnection(server.hostname, server.port, timeout=30)
end, page = time.monotonic() + job["seconds"], 0
while time.monotonic() < end:
    try:
        ask(connection, f"{settings['path']}{page % settings['pages']}")
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        say({"fault": {"kind": "closed", "detail": str(error) or type(error).__name__}})
        time.sleep(0.1)
    page += 1
    # Versions that are gone are not asked for again.
    if len(known) > 100_000:
        known.clear()
    time.sleep(settings["pause"])
say({"figure": {"name": "pages", "value": page}})
