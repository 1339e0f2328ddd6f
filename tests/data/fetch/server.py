"""A web server on this machine that does what servers do: ranges, cut connections, refusals."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Server:
    """What it has and does.

    Attributes:
        files: Content by name.
        ranges: Whether it knows them.
        cuts: For each of the next answers, after how many bytes the connection breaks.
        refusals: Codes of the next answers.
        kind: Content type.
        requests: `Range` of every request so far, None without one.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.files: dict[str, bytes] = {}
        self.ranges = True
        self.cuts: list[int] = []
        self.refusals: list[int] = []
        self.kind = "application/octet-stream"
        self.requests: list[str | None] = []


@contextmanager
def serving() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, here)

        def log_message(self, *arguments: object) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        here = Server(f"http://127.0.0.1:{http.server_port}")
        thread = Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield here
        finally:
            http.shutdown()
            thread.join()


def answer(request: BaseHTTPRequestHandler, here: Server) -> None:
    wanted = request.headers.get("Range")
    here.requests.append(wanted)
    content = here.files.get(request.path.lstrip("/"))
    if here.refusals or content is None:
        request.send_error(here.refusals.pop(0) if here.refusals else 404)
        return
    tag = f'"{hashlib.md5(content).hexdigest()}"'
    start = 0
    if wanted and here.ranges and request.headers.get("If-Range", tag) == tag:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    else:
        request.send_response(200)
    request.send_header("Content-Type", here.kind)
    request.send_header("ETag", tag)
    request.send_header("Content-Length", str(len(content) - start))
    request.end_headers()
    end = start + here.cuts.pop(0) if here.cuts else len(content)
    request.wfile.write(content[start:end])
