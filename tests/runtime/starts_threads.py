"""Look at the stack of another thread; start a thread whenever garbage is looked for meanwhile."""

import gc
import threading

from appl.base.collecting import stack_of

due, started = threading.Semaphore(0), threading.Semaphore(0)
looker = threading.get_ident()


def starter() -> None:
    while True:
        due.acquire()
        threading.Thread(target=int).start()
        started.release()


def wait_for_a_thread(phase: str, _info: object) -> None:
    if phase == "start" and threading.get_ident() == looker:
        due.release()
        started.acquire()


other = threading.Thread(target=starter, daemon=True)
other.start()
gc.callbacks.append(wait_for_a_thread)
gc.set_threshold(1)
for _ in range(50):
    stack_of(other.ident)
gc.set_threshold(0)
gc.callbacks.clear()
