from abc import ABC, abstractmethod
from typing import Optional

import appl
from appl import AIRole, PromptContext, SystemMessage, gen, ppl, records
from appl.func import wraps

appl.init()


class AgentBase(ABC):
    def __init__(self):
        self._ctx = PromptContext()
        self._setup(_ctx=self._ctx)

    @abstractmethod
    @ppl(ctx="same")
    def _setup(self):
        raise NotImplementedError

    @abstractmethod
    @ppl(ctx="same")
    def _chat(self, msg: str):
        raise NotImplementedError

    @wraps(_chat)
    def chat(self, *args, **kwargs):
        return self._chat(*args, _ctx=self._ctx, **kwargs)

    setattr(chat, "__isabstractmethod__", False)


class Agent(AgentBase):
    def __init__(self, name: Optional[str] = None):
        self._name = name
        super().__init__()

    @ppl(ctx="same")
    def _setup(self):
        if self._name:
            SystemMessage(f"You are {self._name}.")

    @ppl(ctx="same")
    def _chat(self, msg: str):
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
