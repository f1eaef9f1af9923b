"""Who is at the other end of a local socket.

Invariant: the kernel says it, never the other end.
"""

from __future__ import annotations

import importlib
import os
import socket
import struct

_PAIR = struct.Struct("iII")  # pid, uid, gid: struct ucred of Linux


def user_of(sock: socket.socket) -> int:
    """The effective user of the other end. Raises ``OSError`` where the kernel does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is not None:
        _, user, _ = _PAIR.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _PAIR.size))
        return int(user)
    return _by_getpeereid(sock)


def _by_getpeereid(sock: socket.socket) -> int:
    """As macOS and the BSDs have it."""
    ctypes = importlib.import_module("ctypes")
    user, group = ctypes.c_uint32(), ctypes.c_uint32()
    library = ctypes.CDLL(None, use_errno=True)
    if library.getpeereid(sock.fileno(), ctypes.byref(user), ctypes.byref(group)):
        raise OSError(ctypes.get_errno(), "getpeereid failed")
    return int(user.value)


def is_mine(sock: socket.socket) -> bool:
    """Whether the other end is a process of this very user."""
    try:
        return user_of(sock) == os.geteuid()
    except (OSError, AttributeError):
        return False
