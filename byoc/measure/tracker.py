"""A tracker of RPC servers inside this process, with TVM's protocol.

TVM's own tracker is a separate process and needs tornado; for servers and clients this one behaves
the same. A message is its length, then JSON: [code, …]. A server keeps a connection open and sends
PUT once for each session that it can serve; a client sends REQUEST and waits.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from .measured import MeasureError

MAGIC = 0x2F271
SUCCESS, PING, PUT, REQUEST, UPDATE_INFO, SUMMARY, PENDING = 0, 1, 3, 4, 5, 6, 7
LARGEST = 1 << 20
#: Seconds that a tracker may take to accept and to answer.
ANSWER = 10.0


@dataclass(frozen=True)
class Tracker:
    """An RPC tracker, and the key of the servers to use.

    Attributes:
        host: The tracker's host name.
        port: Its port.
        key: The servers' key.
    """

    host: str
    port: int
    key: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port} ({self.key})"

    def servers(self) -> int:
        """The number of servers with this key. Raises `MeasureError`."""
        infos = self._ask([SUMMARY], ANSWER)[1]["server_info"]
        return sum(1 for s in infos if s.get("key") == f"server:{self.key}")

    def request(self, timeout: float, stop: threading.Event | None = None) -> tuple[str, int, str]:
        """Wait for a free server, and return its address and the key of the session.

        Raises `MeasureError` if none is free within ``timeout`` seconds, or ``stop`` is set.
        """
        host, port, match = self._ask([REQUEST, self.key, "", 1], timeout, stop)[1]
        return str(host), int(port), str(match)

    def _ask(self, message: Any, timeout: float, stop: threading.Event | None = None) -> Any:
        end = time.monotonic() + timeout
        try:
            with socket.create_connection((self.host, self.port), ANSWER) as connection:
                connection.sendall(struct.pack("<i", MAGIC))
                if struct.unpack("<i", _exactly(connection, 4))[0] != MAGIC:
                    raise MeasureError(f"{self.host}:{self.port} is not an RPC tracker")
                _send(connection, message)
                while not select.select([connection], [], [], min(0.2, timeout))[0]:
                    if stop is not None and stop.is_set():
                        raise MeasureError(f"tracker {self}: the wait for a server was interrupted")
                    if time.monotonic() > end:
                        raise MeasureError(f"tracker {self}: no server was free for {timeout:g} s")
                return _receive(connection)
        except (OSError, ValueError, struct.error) as error:
            raise MeasureError(f"tracker {self}: {error}") from error


@dataclass(eq=False)
class _Peer:
    """A connection; ``waiting`` has the session keys of a server that are still free."""

    socket: Any
    address: str
    info: dict[str, Any] = field(default_factory=dict)
    waiting: list[tuple[str, list[Any]]] = field(default_factory=list)


class LocalTracker:
    """A tracker on a free port of this machine, until it is closed."""

    def __init__(self, key: str) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = Tracker("127.0.0.1", self.listening.getsockname()[1], key)
        self.lock = threading.RLock()
        self.peers: set[_Peer] = set()
        self.requests: dict[str, deque[_Peer]] = defaultdict(deque)
        threading.Thread(target=self._accept, name="opinfo tracker", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        with self.lock:
            for peer in self.peers:
                with contextlib.suppress(OSError):
                    peer.socket.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self.listening.accept()
            except OSError:
                return
            peer = _Peer(connection, address[0])
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: _Peer) -> None:
        with peer.socket, contextlib.suppress(OSError, ValueError, struct.error):
            if struct.unpack("<i", _exactly(peer.socket, 4))[0] != MAGIC:
                return
            peer.socket.sendall(struct.pack("<i", MAGIC))
            with self.lock:
                self.peers.add(peer)
            while True:
                code, *arguments = _receive(peer.socket)
                with self.lock:
                    self._handle(peer, code, arguments)
        with self.lock:
            self.peers.discard(peer)
            for queue in self.requests.values():
                while peer in queue:
                    queue.remove(peer)

    def _handle(self, peer: _Peer, code: int, arguments: list[Any]) -> None:
        if code == REQUEST:
            self.requests[arguments[0]].append(peer)
            self._match(arguments[0])
            return
        answer: Any = SUCCESS
        if code == PUT:
            key, (port, match), *host = arguments
            peer.waiting.append((key, [host[0] if host and host[0] else peer.address, port, match]))
        elif code == UPDATE_INFO:
            peer.info.update(arguments[0])
            if peer.info["addr"][0] is None:
                peer.info["addr"][0] = peer.address
        elif code == PENDING:
            answer = [offer[2] for _, offer in peer.waiting]
        elif code == SUMMARY:
            answer = [SUCCESS, self._summary()]
        elif code != PING:
            raise ValueError(f"unknown code {code}")
        _send(peer.socket, answer)
        if code == PUT:
            self._match(arguments[0])

    def _match(self, key: str) -> None:
        """Assign free servers to waiting clients in order of arrival."""
        while self.requests[key]:
            pair = next(((p, o) for p in self.peers for o in p.waiting if o[0] == key), None)
            if pair is None:
                return
            server, offer = pair
            with contextlib.suppress(OSError):
                _send(self.requests[key].popleft().socket, [SUCCESS, offer[1]])
                server.waiting.remove(offer)

    def _summary(self) -> Any:
        servers = [p.info for p in self.peers if str(p.info.get("key", "")).startswith("server")]
        offers = [key for p in self.peers for key, _ in p.waiting]
        keys = {*offers, *self.requests}
        queues = {k: {"free": offers.count(k), "pending": len(self.requests[k])} for k in keys}
        return {"server_info": servers, "queue_info": queues}


def _exactly(connection: socket.socket, size: int) -> bytes:
    out = b""
    while len(out) < size:
        part = connection.recv(size - len(out))
        if not part:
            raise OSError("the connection was closed")
        out += part
    return out


def _send(connection: socket.socket, message: Any) -> None:
    body = json.dumps(message).encode()
    connection.sendall(struct.pack("<i", len(body)) + body)


def _receive(connection: socket.socket) -> Any:
    (size,) = struct.unpack("<i", _exactly(connection, 4))
    if not 0 < size <= LARGEST:
        raise ValueError(f"a message of {size} bytes")
    return json.loads(_exactly(connection, size))
