"""An origin behind a narrow link that counts what it sends: the offset file (nine digits of their own offset and a line
feed every ten bytes) at every path, ranges, If-Range, ETag, a delay before each head, and one rate for all together."""
import email.utils
import http.server
import re
import socket
import threading
import time

LENGTH = 10_485_760
TAG = '"offsets-1"'
PIECES_PER_SECOND = 100


def offsets(first, end):
    """The bytes [first, end) of the file."""
    start = first // 10 * 10
    return b"".join(b"%09d\n" % at for at in range(start, end, 10))[first - start:end - start]


BODY = memoryview(offsets(0, LENGTH))


def interval(text):
    """[first, end) of a Range of one interval, None for the whole; empty where it cannot be satisfied."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", text or "")
    if not found or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        return max(LENGTH - int(last), 0), LENGTH
    return min(int(first), LENGTH), min(int(last) + 1, LENGTH) if last else LENGTH


class Link:
    """So many bytes a second, from any sender."""

    def __init__(self, bytes_per_second):
        self.rate, self.lock, self.free_at = bytes_per_second, threading.Lock(), 0.0

    def wait(self, count):
        """Waits until so many bytes have gone through."""
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + count / self.rate
            until = self.free_at
        time.sleep(max(until - time.monotonic(), 0))


class Origin:
    """Listens on a port of 127.0.0.1 as long as the process lives."""

    def __init__(self, bytes_per_second, delay):
        self.link, self.delay, self.lock = Link(bytes_per_second), delay, threading.Lock()
        self.answers, self.running = [], 0
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                origin.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass  # a peer that leaves in the middle is no fault of the origin

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        # What waits in the socket has been counted: little may wait.
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)
        record = dict(path=request.path, range=request.headers.get("Range"), bytes=0)
        with self.lock:
            self.answers.append(record)
            self.running += 1
        try:
            time.sleep(self.delay)
            self.send(request, record)
        except OSError:
            request.close_connection = True
        finally:
            with self.lock:
                self.running -= 1

    def send(self, request, record):
        condition = request.headers.get("If-Range")
        part = interval(record["range"]) if condition in (None, TAG) else None
        status, (first, end) = (206, part) if part else (200, (0, LENGTH))
        if request.headers.get("If-None-Match") == TAG:
            status, first, end = 304, 0, 0
        elif first >= end:
            status, first, end = 416, 0, 0
        request.send_response(status)
        fields = {"ETag": TAG, "Cache-Control": "max-age=3600", "Accept-Ranges": "bytes", "Content-Type": "text/plain",
                  "Last-Modified": email.utils.formatdate(1700000000, usegmt=True)}
        if status != 304:
            fields["Content-Length"] = end - first
        if status == 206:
            fields["Content-Range"] = f"bytes {first}-{end - 1}/{LENGTH}"
        if status == 416:
            fields["Content-Range"] = f"bytes */{LENGTH}"
        for name, value in fields.items():
            request.send_header(name, str(value))
        request.end_headers()
        piece = max(self.link.rate // PIECES_PER_SECOND, 1)
        while first < end and request.command != "HEAD":
            count = min(piece, end - first)
            self.link.wait(count)
            request.wfile.write(BODY[first:first + count])
            record["bytes"] += count
            first += count

    def count(self, path, after=0):
        """Requests for a path and the bytes sent for them, leaving out the first `after`."""
        with self.lock:
            found = [record for record in self.answers if record["path"] == path][after:]
            return len(found), sum(record["bytes"] for record in found)

    def await_idle(self, longest=60.0, still=0.3):
        """Waits until nothing has been sent for a while."""
        quiet_since, end = None, time.monotonic() + longest
        while time.monotonic() < end:
            with self.lock:
                running = self.running
            now = time.monotonic()
            quiet_since = (quiet_since or now) if running == 0 else None
            if quiet_since and now - quiet_since >= still:
                return
            time.sleep(0.02)
