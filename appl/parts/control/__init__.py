"""The control of a live run from another terminal: see what it waits for, and act on it.

``protocol`` defines the messages, ``folder`` the place of sockets, ``peer`` the check of the other
user, ``view`` the data that a run shows, ``requests`` the operations, ``server`` the run's end and
``client`` the other end.

Invariant: until a client connects, a run only listens and imports nothing but ``server``. Only the
same user is answered, and never over a network.
"""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "client": "ask find live_runs",
        "requests": "RequestHandler",
        "server": "ControlServer",
        "view": "About",
    },
)
