"""Connections to the replica beside this process."""

from __future__ import annotations

import http.client
import os
import socket
import struct

Connection = http.client.HTTPConnection


def _check_peer(to: socket.socket, path: str) -> None:
    """Refuse a replica of another user: in a directory that others may write to, anybody can listen at its path."""
    if hasattr(socket, "SO_PEERCRED"):
        _, owner, _ = struct.unpack("3i", to.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    else:
        owner = os.lstat(path).st_uid
    if owner not in (0, os.geteuid()):
        to.close()
        raise PermissionError(f"{path} is user {owner}'s: must be of user {os.geteuid()}, as this process, or root")


def connect_to(address: str, timeout: float) -> Connection:
    unix = address.startswith("unix:")
    connection = Connection("localhost" if unix else address, timeout=timeout)
    if unix:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(timeout)
        connection.sock.connect(address[len("unix:"):])
        _check_peer(connection.sock, address[len("unix:"):])
    else:
        connection.connect()
    return connection
