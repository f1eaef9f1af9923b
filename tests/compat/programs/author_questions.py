import appl
from appl import AIRole, gen, ppl
from appl.const import NEWLINE

appl.init()


@ppl(ctx="copy")
def get_answer(question: str):
    question
    return gen()


@ppl
def answer_questions(quotation: str, questions: list[str]):
    "Find out who wrote the quotation, then answer what is asked."
    quotation
    with AIRole():
        f"It was written by {gen(stop=NEWLINE)}"
    return [get_answer(q) for q in questions]


for answer in answer_questions('"To be brave is to be early." -- Mira Holt', ["When?", "Where?"]):
    print(answer)
