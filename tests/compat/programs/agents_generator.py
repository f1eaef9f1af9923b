from typing import Optional

import appl
from appl import AIRole, SystemMessage, gen, ppl

appl.init()


class Agent:
    def __init__(self, name: Optional[str] = None):
        self._name = name
        self.chat = self._chat().send

    @ppl(auto_prime=True)
    def _chat(self):
        if self._name:
            SystemMessage(f"You are {self._name}.")
        reply = None
        while True:
            yield reply
            with AIRole():
                (reply := gen(max_tokens=50))


alice, bob = Agent("Alice"), Agent("Bob")
msg = "Hello!"
for i in range(2):
    msg = str(alice.chat(msg))
    print("Alice:", msg)
    msg = str(bob.chat(msg))
    print("Bob:", msg)
