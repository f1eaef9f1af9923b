import appl
from appl import convo, gen, ppl, records

appl.init()


@ppl
def intro():
    f"It is the first of May."
    return records()


@ppl(ctx="same")
def addon():
    f"Write dates as DD.MM."


@ppl(ctx="copy")
def query(question: str):
    f"Q: {question}"
    f"A: "
    seen.append(str(convo()))
    return gen()


@ppl
def ask_all(questions: list[str]):
    intro()
    addon()
    return [query(q) for q in questions]


seen = []
for res in ask_all(["tomorrow?", "yesterday?"]):
    print(res)
print(seen[0])
