"""The program that stands between us and code in a sandbox; it is run as a file, ``python -I -S``.

It makes new namespaces and a root of its own in them, gives up what it may do, and starts the code:

    the caller  →  this process, which waits  →  process 1 of the sandbox  →  the code

Process 1 ends when the code ends, at the time limit, or when the caller closes the control pipe or
dies. When it ends, the system kills whatever else still runs in the sandbox.

Invariant: the code starts only when every step before it has succeeded.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

CONTROL, STATUS = 0, 3
"""Descriptors: requests come and the caller's life is seen on one, the result goes to the other."""
NOBODY = 65534
"""The user that code runs as, in its namespace."""
WORK = "/sandbox"

CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x80, 0x20000, 0x2000000, 0x4000000
CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (1 << n for n in (27, 28, 29, 30))
NAMESPACES = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID
    | CLONE_NEWNET
)  # fmt: skip
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV, MNT_DETACH = 0x1000, 0x4000, 1 << 18, 2, 4, 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38

ALLOW, MASKED_EQUAL = 0x7FFF0000, 7
REFUSED = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd pidfd_open
    unshare setns mount umount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen
    fsmount fsconfig fspick mount_setattr statmount listmount swapon swapoff quotactl quotactl_fd
    keyctl add_key request_key bpf perf_event_open userfaultfd
    io_uring_setup io_uring_enter io_uring_register io_setup io_submit
    socket socketcall shmget shmat shmctl semget semctl semop msgget msgctl msgsnd msgrcv
    mq_open memfd_create memfd_secret
    kexec_load kexec_file_load init_module finit_module delete_module reboot acct syslog
    settimeofday clock_settime clock_adjtime adjtimex stime sethostname setdomainname
    open_by_handle_at name_to_handle_at fanotify_init lookup_dcookie nfsservctl uselib vhangup
    personality iopl ioperm modify_ldt vm86 vm86old mbind set_mempolicy
    set_mempolicy_home_node migrate_pages move_pages
""".split()
"""System calls that fail with ``EPERM`` in the sandbox."""
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423


class Refused(Exception):
    """The machine does not allow a step."""


class _Compare(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operation", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


class System:
    """The calls of the system that Python has no names for."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        try:
            self.seccomp = ctypes.CDLL("libseccomp.so.2")
        except OSError:
            raise Refused(
                "the library libseccomp.so.2 is missing (Debian, Ubuntu: apt install libseccomp2)"
            ) from None
        self.seccomp.seccomp_init.restype = ctypes.c_void_p

    def do(self, what: str, *arguments: Any) -> None:
        """The function *what* of the C library. Raises ``Refused``."""
        self._check(what, getattr(self.libc, what)(*map(_native, arguments)))

    def call(self, name: str, *arguments: Any) -> None:
        """The system call *name*. Raises ``Refused``."""
        number = self.number(name)
        if number < 0:
            raise Refused(f"{name} is not known to libseccomp")
        self._check(name, self.libc.syscall(ctypes.c_long(number), *map(_native, arguments)))

    def number(self, name: str) -> int:
        return int(self.seccomp.seccomp_syscall_resolve_name(name.encode()))

    def _check(self, what: str, result: int) -> None:
        if result < 0:
            raise Refused(f"{what}: {os.strerror(ctypes.get_errno())}")

    # -- mounts

    def mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        self.do("mount", source, target, kind, flags, data)

    def restrict(self, target: str, attributes: int, recursive: bool = True) -> None:
        """Take rights from a mount, and leave those that it lacks already."""
        wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
        flags = AT_RECURSIVE if recursive else 0
        self.call("mount_setattr", AT_FDCWD, target, flags, ctypes.byref(wanted), 32)

    # -- what a process may do

    def bound_rights(self) -> None:
        """Have no program give a capability back; only who has them may say so."""
        for capability in range(64):
            self.libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails above the last one

    def give_up_rights(self) -> None:
        """Drop every capability, for good."""
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        self.do("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
        self.do("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def filter_calls(self) -> None:
        """Have the system refuse the calls of ``REFUSED``, and those of another instruction set."""
        context = ctypes.c_void_p(self.seccomp.seccomp_init(ctypes.c_uint32(ALLOW)))
        if not context.value:
            raise Refused("seccomp_init failed")
        for name in REFUSED:
            self._rule(context, name, errno.EPERM)
        self._rule(context, "clone3", errno.ENOSYS)  # its flags cannot be seen: clone is used then
        for flag in (bit for bit in (1 << n for n in range(32)) if bit & NAMESPACES):
            self._rule(context, "clone", errno.EPERM, _Compare(0, MASKED_EQUAL, flag, flag))
        for request in (TIOCSTI, TIOCLINUX, TIOCSETD):
            compare = _Compare(1, MASKED_EQUAL, 0xFFFFFFFF, request)  # the upper half is ignored
            self._rule(context, "ioctl", errno.EPERM, compare)
        if self.seccomp.seccomp_load(context) != 0:
            raise Refused("the system takes no filter of system calls (seccomp)")

    def _rule(self, context: Any, name: str, code: int, *compare: _Compare) -> None:
        number = self.number(name)
        if number < 0:  # not on this machine
            return
        values = (_Compare * len(compare))(*compare)
        action = ctypes.c_uint32(0x00050000 | code)
        add = self.seccomp.seccomp_rule_add_array
        if add(context, action, number, len(compare), values if compare else None) != 0:
            raise Refused(f"no filter for {name} can be made")


def _native(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return ctypes.c_ulong(value) if isinstance(value, int) and value >= 0 else value


# -- namespaces -------------------------------------------------------------------------------


def enter_namespaces(system: System) -> None:
    """Become a user of new namespaces that has no rights outside of them. Raises ``Refused``.

    The superuser has a second user in it for the code: limits on processes do not hold for the
    first. Only a process outside may say so, which is the helper.
    """
    user, group, us = os.getuid(), os.getgid(), os.getpid()
    ready, told = os.pipe(), os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(ready[1])
        os.read(ready[0], 1)
        result = b"1"
        try:
            for name in ("uid_map", "gid_map") if user == 0 else ():
                Path(f"/proc/{us}/{name}").write_text(f"0 0 1\n{NOBODY} {NOBODY} 1\n")
        except OSError:
            result = b"0"
        os.write(told[1], result)
        os._exit(0)
    try:
        system.do("unshare", NAMESPACES)
    finally:
        os.close(ready[1])
    done = os.read(told[0], 1) == b"1"
    os.waitpid(helper, 0)
    if not done:
        raise Refused("two users cannot be mapped into a user namespace")
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")


def make_root(system: System, request: dict[str, Any]) -> None:
    """Stand in a root folder that holds what the code may read, its work folder, and no more."""
    system.mount("none", "/", "", MS_REC | MS_PRIVATE)
    base = "/tmp"  # any folder: it is covered, and uncovered when the old root is left
    limits = f"mode=755,size={request['limits']['disk_mb']}m,nr_inodes=16384"
    system.mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, limits)
    os.mkdir(f"{base}/.outside")
    system.call("pivot_root", base, f"{base}/.outside")
    os.chdir("/")
    for path, target in request["links"].items():
        _parent(path)
        os.symlink(target, path)
    for path in sorted(request["readable"]):  # a folder comes before what lies in it
        _bind(system, path, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)
    for name in ("null", "zero", "full", "random", "urandom"):
        _bind(system, f"/dev/{name}", ATTR_NOSUID | ATTR_NOEXEC)
    Path("/etc").mkdir(exist_ok=True)
    Path("/etc/passwd").write_text(f"nobody:x:{NOBODY}:{NOBODY}:nobody:{WORK}:/bin/sh\n")
    Path("/etc/group").write_text(f"nobody:x:{NOBODY}:\n")
    os.mkdir(WORK)
    system.mount("tmpfs", WORK, "tmpfs", MS_NOSUID | MS_NODEV, limits.replace("755", "777"))
    if not os.path.lexists("/tmp"):  # something in it may be readable
        os.symlink(WORK, "/tmp")
    system.do("umount2", "/.outside", MNT_DETACH)
    os.rmdir("/.outside")
    system.restrict("/", ATTR_RDONLY, recursive=False)


def _bind(system: System, path: str, attributes: int) -> None:
    outside = f"/.outside{path}"
    if not os.path.exists(outside) or os.path.lexists(path):
        return
    _parent(path)
    if stat.S_ISDIR(os.stat(outside).st_mode):
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    system.mount(outside, path, "", MS_BIND | MS_REC)
    system.restrict(path, attributes)


def _parent(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o755)


# -- processes --------------------------------------------------------------------------------


def start_code(system: System, request: dict[str, Any], work: str, confined: bool) -> int:
    """Start the code, and return the id of its process."""
    path = f"{work}/.stdin"
    Path(path).write_text(request["stdin"], "utf-8", newline="")
    standard_input = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    os.unlink(path)
    broken, tell = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(tell)
        problem = os.read(broken, 4096).decode(errors="replace")
        if problem:
            raise Refused(problem)
        return child
    try:
        os.dup2(standard_input, 0)
        os.dup2(tell, STATUS)  # all others are closed, and this one when the program starts
        os.closerange(STATUS + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        os.set_inheritable(STATUS, False)
        os.chdir(work)
        system.bound_rights()
        ours = 2  # the launcher and process 1
        if confined and os.getuid() == 0:
            ours = 0
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        system.do("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        _limit(request["limits"], confined, ours)
        system.give_up_rights()
        os.umask(0o077)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if number < 32:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        system.filter_calls()
        os.execve(request["command"][0], request["command"], {**request["environment"]})
    except BaseException as error:
        os.write(STATUS, str(error).encode() or b"?")
    os._exit(127)


def _limit(limits: dict[str, Any], confined: bool, ours: int) -> None:
    """Set the limits; *ours* counts the processes of the same user that are not the code's."""
    mega = 2**20
    seconds = int(limits["seconds"]) + 1
    values = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: limits["memory_mb"] * mega,
        resource.RLIMIT_FSIZE: limits["disk_mb"] * mega,
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    if confined:  # elsewhere it would count all processes of the user
        values[resource.RLIMIT_NPROC] = limits["processes"] + ours
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))


def wait_for(child: int, seconds: float) -> dict[str, Any]:
    """The end of the code. The caller may close the control pipe meanwhile: then nobody listens."""
    end = time.monotonic() + seconds
    with_end = os.pidfd_open(child)
    poll = select.poll()
    poll.register(with_end, select.POLLIN)
    poll.register(CONTROL, select.POLLIN)
    while True:
        left = end - time.monotonic()
        if left <= 0:
            return {"ended": "seconds"}
        ready = {descriptor for descriptor, _ in poll.poll(min(left, 0.2) * 1000)}
        if CONTROL in ready:
            return {"ended": "stopped"}
        while (found := os.waitpid(-1, os.WNOHANG))[0]:  # orphans of the sandbox come here
            if found[0] == child:
                return _ended(found[1])


def _ended(status: int) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    return {"ended": "exit" if code >= 0 else "signal", "exit_code": code}


def tell(result: dict[str, Any]) -> None:
    """Write the one result."""
    os.write(STATUS, json.dumps(result).encode() + b"\n")


def run_confined(system: System, request: dict[str, Any]) -> NoReturn:
    """Run the code in namespaces of its own."""
    enter_namespaces(system)
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        os._exit(0)
    system.do("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    make_root(system, request)
    if os.getuid() != 0:
        os.chmod(WORK, 0o700)
    _write_files(request["files"], WORK)
    child = start_code(system, request, WORK, True)
    system.bound_rights()
    system.give_up_rights()
    system.do("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    tell(wait_for(child, request["limits"]["seconds"]))
    os._exit(0)


def run_limited(system: System, request: dict[str, Any]) -> NoReturn:
    """Run the code as the user that we are, with limits only."""
    work = request["work"]
    _write_files(request["files"], work)
    child = start_code(system, request, work, False)
    result = wait_for(child, request["limits"]["seconds"])
    tell(result)
    os.killpg(0, signal.SIGKILL)  # its processes are of our group, unless they left it
    os._exit(0)


def _write_files(files: dict[str, str], work: str) -> None:
    for name, text in files.items():
        path = Path(work, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
    owner = NOBODY if os.getuid() == 0 and work == WORK else -1
    for folder, _, names in os.walk(work):
        for place in (folder, *(f"{folder}/{name}" for name in names)):
            if owner >= 0:
                os.chown(place, owner, owner)


def main() -> None:
    """Read the request, and run its code."""
    status = int(sys.argv[1])
    if status != STATUS:
        os.dup2(status, STATUS)
        os.close(status)
    size = int(os.read(CONTROL, 16), 16)
    text = b""
    while len(text) < size:
        text += os.read(CONTROL, size - len(text)) or sys.exit(1)
    request = json.loads(text)
    try:
        system = System()
        (run_confined if request["isolation"] == "namespaces" else run_limited)(system, request)
    except (Refused, OSError) as error:
        tell({"refused": str(error)})
        os._exit(1)


if __name__ == "__main__":
    main()
