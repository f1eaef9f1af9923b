from appl import AIRole, CallFuture, SystemMessage, as_tool, convo, gen, need_ctx, ppl
from appl.types import ToolCall


def double(x: int) -> int:
    """Double a number.

    Args:
        x: the number
    """
    return 2 * x


def length(text: str) -> int:
    return len(text)


@need_ctx
def ask_politely(_ctx):
    _ctx.grow("Please.")
    return gen(_ctx=_ctx, logprobs=None, max_completion_tokens=20)


@ppl
def chat(question):
    SystemMessage("Be loud.")
    f"{question}"
    with AIRole():
        (answer := gen())
    print(answer.message)
    print(str(convo()))
    return ask_politely()


print(chat("who is there?"))

future = CallFuture(length, "four")
print(future(), future.val)

tool = as_tool(double)
print(tool.params.model_json_schema()["properties"]["x"]["description"])
call = ToolCall(id="1", name="double", args='{"x": 2}')
print(call.args, call.get_dict()["function"]["name"])
