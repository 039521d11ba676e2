#!/usr/bin/env python3
"""A module for `weir stress` (docs/guide/stress.md): so many purges a second, evenly spaced, of what nobody asks for."""
import asyncio
import json
import sys
import time
import urllib.parse

job = json.loads(sys.stdin.readline())
server = urllib.parse.urlsplit(job["server"])
settings = {"rate": 1000, "by": "tag", "host": server.netloc, **job["settings"]}
HEADS = {
    "tag": "PURGE / HTTP/1.1\r\nHost: {host}\r\nxkey: other-{number}\r\n\r\n",
    "url": "PURGE /other/{number} HTTP/1.1\r\nHost: {host}\r\n\r\n",
}


def say(line):
    print(json.dumps(line), flush=True)


async def user(at, begun):
    """Every `users`-th purge, over one connection."""
    reader, writer = await asyncio.open_connection(server.hostname, server.port)
    each = settings["rate"] / job["users"]
    for turn in range(int(each * job["seconds"])):
        await asyncio.sleep(max(0, begun + (turn + at / job["users"]) / each - time.perf_counter()))
        number, sent = job["seed"] * 1_000_000 + turn * job["users"] + at, time.perf_counter()
        writer.write(HEADS[settings["by"]].format(host=settings["host"], number=number).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        first = time.perf_counter() - sent
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
        await reader.readexactly(length)
        status = int(head.split(b" ", 2)[1])
        if status != 200:
            say({"fault": {"kind": "status", "detail": f"{status} for a purge"}})
        whole = time.perf_counter() - sent
        say({"response": {"status": status, "bytes": length, "first_byte_us": first * 1e6, "whole_us": whole * 1e6}})
        say({"figure": {"name": "purges", "value": 1}})
    writer.close()


async def main():
    begun = time.perf_counter()
    for ended in await asyncio.gather(*(user(at, begun) for at in range(job["users"])), return_exceptions=True):
        if isinstance(ended, BaseException):
            say({"fault": {"kind": "closed", "detail": repr(ended)}})


asyncio.run(main())
