import inspect

import sglang as sgl
from tools import calculate, search

TOOLS = {"search": search, "calculate": calculate}


def described(name, function) -> str:
    return f"{name}{inspect.signature(function)}: {function.__doc__}"


def result(name: str, argument: str) -> str:
    try:
        return str(TOOLS[name](argument))
    except Exception as error:
        return f"Error: {error!r}"


@sgl.function
def steps(s, question: str, max_steps: int):
    s += sgl.system(
        "Use the tools to answer the question. Write `Action: tool` and `Input: argument` "
        "in lines of their own, or `Action: finish` and `Input: answer`.\n"
        + "\n".join(described(name, function) for name, function in TOOLS.items())
    )
    s += sgl.user(question)
    for _ in range(max_steps):
        s += sgl.assistant_begin() + "Action: " + sgl.select("action", [*TOOLS, "finish"])
        s += "\nInput: " + sgl.gen("input", stop="\n") + sgl.assistant_end()
        if s["action"] == "finish":
            s.set_var("answer", s["input"])
            return
        s += sgl.user(f"Result: {result(s['action'], s['input'])}")


def react(question: str, max_steps: int) -> str:
    state = steps.run(question, max_steps)
    if "answer" not in state:
        raise RuntimeError("no answer after max_steps")
    return state["answer"]
