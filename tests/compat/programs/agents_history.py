from typing import Optional

import appl
from appl import AIRole, PromptContext, SystemMessage, gen, ppl, records

appl.init()


class Agent:
    def __init__(self, name: Optional[str] = None):
        self._name = name
        self._history = self._setup()

    @ppl
    def _setup(self):
        if self._name:
            SystemMessage(f"You are {self._name}.")
        return records()

    @ppl
    def chat(self, msg):
        self._history
        msg
        with AIRole():
            (reply := gen(max_tokens=50))
        self._history = records()
        return reply


alice, bob = Agent("Alice"), Agent("Bob")
msg = "Hello!"
for i in range(2):
    msg = str(alice.chat(msg))
    print("Alice:", msg)
    msg = str(bob.chat(msg))
    print("Bob:", msg)
