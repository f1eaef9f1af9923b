from inspect import signature
from typing import Callable

from appl import SystemMessage, as_func, convo, gen, ppl, wraps

SETTING = """
The user is Jo Doe.
"""


def virtual_tool(func: Callable):
    """Have a model play a function."""

    @ppl
    def wrapper(**kwargs):
        SystemMessage("You play a function.")
        SETTING
        f"{func.__name__}{signature(func)}"
        func.__doc__
        "Input"
        str(sorted(kwargs.items()))
        return gen()

    return wraps(func)(as_func(wrapper))


@virtual_tool
def search_mail(words: list[str], limit: int) -> list[dict]:
    """Search the mail.

    Args:
        words: What to look for.
        limit: How many at most.
    """


@ppl
def main():
    "Show my last mail."
    action = gen(tools=[search_mail])
    return action.run_tool_calls()[0].content


print(main())
