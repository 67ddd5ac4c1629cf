"""The loopback page at which a sign-in ends: the browser brings the code there."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Callback", "free_port", "query_of"]

HOST, PATH = "127.0.0.1", "/callback"
_DONE = "<!doctype html><title>Signed in</title><p>You are signed in. You may close this page."
_REFUSED = "<!doctype html><title>Not signed in</title><p>You are not signed in; the notebook says why."
_OTHER = "<!doctype html><title>Unknown</title><p>This is no sign-in that the notebook waits for."


class Callback:
    """Waits on 127.0.0.1 for the one request that brings the code of this sign-in; others are turned away.

    Parameters
    ----------
    port
        The port, which must be free.
    state
        What the request must repeat: a page that does not know it can't end the sign-in.
    came
        Called with the request's parameters, on a thread of its own.

    Raises
    ------
    OSError
        The port is taken.
    """

    def __init__(self, port: int, state: str, came: Callable[[Mapping[str, str]], None]) -> None:
        class Page(BaseHTTPRequestHandler):
            timeout = 10  # browsers open connections that they don't use

            def do_GET(self) -> None:
                query = query_of(self.path)
                ours = urlsplit(self.path).path == PATH and bool(state) and query.get("state") == state
                body = (_DONE if "code" in query else _REFUSED) if ours else _OTHER
                if ours:
                    came(query)
                data = body.encode()
                self.send_response(200 if ours else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # the address holds the code
                pass

        self._server = _Server((HOST, port), Page)
        run = self._server.serve_forever
        threading.Thread(target=run, args=(0.1,), name="cumulus-mcp-sign-in", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    allow_reuse_address = os.name != "nt"  # there it would share the port with whoever holds it


def query_of(address: str) -> dict[str, str]:
    """The parameters of an address."""
    return dict(parse_qsl(urlsplit(address).query))


def free_port(wanted: int) -> int:
    """Give this port where it is free (and not 0), else a random one that is."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            if os.name != "nt":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port is free on 127.0.0.1")
