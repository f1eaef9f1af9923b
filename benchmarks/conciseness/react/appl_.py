from tools import calculate, search

from appl import SystemMessage, gen_with_tools, ppl


@ppl
def react(question: str, max_steps: int) -> str:
    SystemMessage("Use the tools to answer the question.")
    f"{question}"
    return str(gen_with_tools(tools=[search, calculate], max_steps=max_steps))
