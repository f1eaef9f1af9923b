"""The user at the other end of a local socket.

Invariant: the answer comes from the kernel, never from the other end.
"""

from __future__ import annotations

import os
import socket
import struct

_PAIR = struct.Struct("iII")  # pid, uid, gid: struct ucred of Linux


def user_of(sock: socket.socket) -> int:
    """The effective user id of the other end. Raises ``OSError`` if the kernel does not tell it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is not None:
        _, user, _ = _PAIR.unpack(sock.getsockopt(socket.SOL_SOCKET, option, _PAIR.size))
        return int(user)
    import ctypes  # macOS and the BSDs have a function of C for it

    owner, group = ctypes.c_uint32(), ctypes.c_uint32()
    library = ctypes.CDLL(None, use_errno=True)
    if library.getpeereid(sock.fileno(), ctypes.byref(owner), ctypes.byref(group)):
        raise OSError(ctypes.get_errno(), "getpeereid failed")
    return int(owner.value)


def is_mine(sock: socket.socket) -> bool:
    """True if the other end is a process of this very user."""
    try:
        return user_of(sock) == os.geteuid()
    except (OSError, AttributeError):
        return False
