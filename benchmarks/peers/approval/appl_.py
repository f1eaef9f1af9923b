from data import COMPLAINT

from appl import SystemMessage, as_tool, gen_with_tools, ppl


def refund(order: int, amount: int) -> str:
    """Pay money back."""
    return f"{amount} EUR for order {order} are on their way"


def is_much(order: int, amount: int) -> str | bool:
    return amount > 25 and f"Pay {amount} EUR back for order {order}?"


@ppl
def main() -> object:
    SystemMessage("You answer customers of a shop.")
    f"{COMPLAINT}"
    return gen_with_tools(tools=[as_tool(refund, approve=is_much)])
