"""An interview: one answer becomes part of the prompt that the next questions share.

appl run examples/interview.py
appl run examples/interview.py:interview --quote '"…" (…)' --questions 'Who …?' --questions '…'
appl graph examples/interview.py:interview
"""

from appl import AIRole, Generation, gen, ppl

QUOTE = (
    '"A river does not ask the way." '
    '(Mira Holt, born 1921 in Tarn, wrote "The Slow River". She was a teacher.)'
)
QUESTIONS = (
    "When was the author born?",
    "Where was the author born?",
    "Which book did the author write?",
    "What was the work of the author?",
)


@ppl(ctx="copy")  # sees the caller's prompt, cannot change it
def answer(question: str) -> Generation:
    f"{question}"  # an expression statement is prompt text
    return gen()  # starts at once, returns a future


@ppl
def interview(quote: str, questions: list[str]) -> list[Generation]:
    "Name the author of the quotation, then answer the questions."
    f"{quote}"
    with AIRole():
        f"The author is {gen(stop='.')}"  # gen sees "The author is " as its prefix
    return [answer(q) for q in questions]  # all of them run in parallel


def main() -> list[str]:
    """The interview, questions beside their answers."""
    answers = interview(QUOTE, list(QUESTIONS))
    pairs = zip(QUESTIONS, answers, strict=True)
    return [QUOTE, *(f"  {question:34} {answer}" for question, answer in pairs)]


if __name__ == "__main__":
    print(*main(), sep="\n")
