"""ReAct: a model reasons and acts, by calling a calculator and a notebook, until it can answer.

appl run examples/react.py
appl run examples/react.py --question 'What is 123 * 45?'
"""

import ast
import operator

from appl import AIRole, Conversation, convo, gen, map, ppl

NOTES = {
    "capital of velmora": "Tarn",
    "author of the slow river": "Mira Holt",
    "price of the brass lamp": "34 dollars",
}
QUESTIONS = (
    "What is 123 * 45?",
    "What is the capital of Velmora?",
    "A box holds 24 plums. How many plums are in 17 boxes?",
    "Look up the price of the brass lamp.",
    "Hello!",
)
SIGNS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def value(node: ast.expr) -> float:
    """The value of an expression of numbers and the four signs."""
    match node:
        case ast.BinOp(left, sign, right) if type(sign) in SIGNS:
            return float(SIGNS[type(sign)](value(left), value(right)))
        case ast.UnaryOp(ast.USub(), inner):
            return -value(inner)
        case ast.Constant(int() | float() as number):
            return float(number)
    raise ValueError(f"{ast.unparse(node)} is not made of numbers and + - * /")


def calculator(expression: str) -> str:
    """Compute an arithmetic expression."""
    return f"{value(ast.parse(expression, mode='eval').body):g}"


def lookup(key: str) -> str:
    """Look up a fact."""
    return NOTES[key.lower()]


@ppl
def react(question: str, steps: int = 5) -> Conversation:
    """Ask, run the tools that the model calls, and ask again, until it calls none."""
    f"{question}"
    for _ in range(steps):
        with AIRole():
            (answer := gen(tools=[calculator, lookup], temperature=0))
        if not answer.tool_calls:
            break
        answer.run_tool_calls()  # the model gets the errors of tools too
    return convo()


MARKS = {"user": "?", "assistant": ">", "tool": "="}


def told(said: Conversation) -> str:
    """The question, the steps and the answer, a line each."""
    lines = [
        (message.role, f"{call.name} {call.arguments}" if call else message.content)
        for message in said
        for call in message.tool_calls or (None,)
    ]
    return "\n".join(f"{MARKS[role]} {text}" for role, text in lines)


def main(question: str | None = None) -> list[str]:
    """Answer one question, or five fixed ones."""
    questions = [question] if question else QUESTIONS
    return [told(said) for said in map(react, questions)]  # side by side


if __name__ == "__main__":
    print(*main(), sep="\n\n")
