"""A support agent that pays money back, and asks a person before it pays much.

appl run examples/approvals.py --model openai/gpt-5-mini
cd examples && appl run --backend approvals:clerk approvals.py

At a terminal you are asked there. Elsewhere, as in CI or under cron, the run ends with exit code 75
and says what to type: `appl trace answer last refund.0=yes`, then `appl trace resume last`. The
embedded model writes no sensible arguments: without a model of yours, a script plays it (`clerk`).
"""

import re

from appl import Generation, SystemMessage, as_tool, gen_with_tools, ppl
from appl.backend import Request, Response
from appl.testing import Scripted, calling

COMPLAINT = "The lamp of order 7 came broken. It cost 40 EUR."
LIMIT = 25


def refund(order: int, amount: int) -> str:
    """Pay money back.

    order: The number of the order.
    amount: In EUR.
    """
    return f"{amount} EUR for order {order} are on their way"


def is_much(order: int, amount: int) -> str | bool:
    """The question to a person; smaller amounts are paid without one."""
    return amount > LIMIT and f"Pay {amount} EUR back for order {order}?"


@ppl
def main(complaint: str = COMPLAINT) -> Generation:
    SystemMessage("You answer customers of a shop. Pay back what did not arrive in order.")
    f"{complaint}"
    return gen_with_tools(tools=[as_tool(refund, approve=is_much, expires=7 * 86400)])


def clerk(**_: object) -> Scripted:
    """A script in place of a model: it pays back what the complaint names."""

    def answer(request: Request) -> str | Response:
        last = list(request.messages or ())[-1]
        if last.role == "tool":
            return f"Dear customer, {last.content}."
        order, amount = map(int, re.findall(r"\d+", last.content)[:2])
        return calling(("refund", {"order": order, "amount": amount}))

    return Scripted(answer)
