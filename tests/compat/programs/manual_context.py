from typing import Optional

from appl import Generation, PromptContext, convo, gen, need_ctx, ppl, traceable
from appl.compositor import Tagged


@traceable
def manual_ctx_func(p: Optional[PromptContext] = None) -> Generation:
    p = p or PromptContext()
    with Tagged("example", _ctx=p):
        p.grow("1+2=3")
    p.grow("2+3=")
    print(p.messages)
    return gen(_ctx=p)


print("answer:", manual_ctx_func())


@ppl(ctx="copy")
def ppl_func():
    "3+4="
    print(convo())
    return gen()


p = PromptContext().grow("<example>").grow("1+2=3").grow("</example>")
print("answer:", ppl_func(_ctx=p))


@need_ctx
@traceable
def manual_func_with_ctx(_ctx: Optional[PromptContext] = None):
    _ctx = _ctx or PromptContext()
    _ctx.grow("4+5=")
    print(_ctx.messages)
    return gen(_ctx=_ctx)


@ppl
def another_ppl_func():
    with Tagged("example"):
        "1+2=3"
    return manual_func_with_ctx()


print("answer:", another_ppl_func())
