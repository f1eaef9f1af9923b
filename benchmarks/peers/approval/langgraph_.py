import sys

from data import COMPLAINT
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt


@tool
def refund(order: int, amount: int) -> str:
    """Pay money back."""
    if amount > 25 and interrupt(f"Pay {amount} EUR back for order {order}?") != "yes":
        return "refused"
    return f"{amount} EUR for order {order} are on their way"


def main(answer: str | None) -> str:
    with SqliteSaver.from_conn_string("runs.sqlite") as runs:
        model = ChatOpenAI(model="m")
        prompt = "You answer customers of a shop."
        agent = create_agent(model, [refund], system_prompt=prompt, checkpointer=runs)
        asked = Command(resume=answer) if answer else {"messages": [("user", COMPLAINT)]}
        state = agent.invoke(asked, {"configurable": {"thread_id": "1"}})
    if waits := state.get("__interrupt__"):
        return waits[0].value
    return state["messages"][-1].content


print(main(*(sys.argv[1:] or [None])))
