from typing import Optional

import appl
from appl import AIRole, SystemMessage, gen, ppl

appl.init()


class Agent:
    def __init__(self, name: Optional[str] = None):
        self._name = name
        self._setup()

    @ppl
    def _setup(self):
        if self._name:
            SystemMessage(f"You are {self._name}.")
        self.chat(None)

    @ppl(ctx="resume")
    def chat(self, msg: Optional[str]):
        if msg is None:
            return
        msg
        with AIRole():
            (reply := gen(max_tokens=50))
        return reply


alice, bob = Agent("Alice"), Agent("Bob")
msg = "Hello!"
for i in range(2):
    msg = str(alice.chat(msg))
    print("Alice:", msg)
    msg = str(bob.chat(msg))
    print("Bob:", msg)
