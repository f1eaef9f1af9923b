from functools import partial

import appl
from appl import call, gen, ppl
from appl import partial as appl_partial

appl.init()


@ppl
def judge(thought: str, scale: int = 10):
    f"Rate from 1 to {scale}: {thought}"
    return gen()


@ppl(ctx="copy")
def think(step: int):
    f"Step {step}."
    return gen()


@ppl
def search(question: str, width: int):
    question
    thoughts = [call(think, i) for i in range(width)]
    scores = [call(partial(judge, scale=5), str(t)) for t in thoughts]
    hot = appl_partial(gen, temperature=1.0)
    "Go on."
    return max(zip(map(len, map(str, scores)), map(str, thoughts))), hot()


best, more = search("How?", 3)
print(best, more)
