"""A live run as seen from another terminal: what it waits for, and what can be done about it.

``protocol`` is what is said, ``folder`` and ``peer`` where and with whom, ``view`` what a run
shows, ``acts`` what it can be asked for, ``door`` the run's end and ``client`` the other one.

Invariant: nothing is done before somebody asks but to listen, so a run imports ``door`` alone until
then; only the same user is answered, and never over a network.
"""
