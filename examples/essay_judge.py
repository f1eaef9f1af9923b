"""Branch, solve, merge: two reports are judged question by question, in parallel, then in total.

appl run examples/essay_judge.py

After Saha et al., "Branch-Solve-Merge" (arXiv 2310.15123). Branch: the questions that a good report
answers. Solve: each question is judged alone, in both orders, because judges favour a position.
Merge: the log-probabilities are added up.
"""

from collections.abc import Iterator

from appl import Generation, gen, ppl, select

NOTES = [
    "Mira Holt was born in 1921 in Tarn.",
    "Mira Holt was a teacher.",
    'Mira Holt wrote "The Slow River".',
    "Mira Holt had two cats.",
]
REPORTS = {
    "first": [
        "Mira Holt was born in 1921 in Tarn.",
        "Mira Holt was a teacher.",
        'Mira Holt wrote "The Cold Night".',
        "Mira Holt had two cats.",
    ],
    "second": [
        "Mira Holt was born in 1934 in Lund.",
        "Mira Holt was a pilot.",
        'Mira Holt wrote "The Slow River".',
        "Mira Holt had five cats.",
    ],
}
QUESTIONS = [
    "When was Mira Holt born?",
    "What work did Mira Holt do?",
    "Which book did Mira Holt write?",
    "How many cats did Mira Holt have?",
]


@ppl
def answer(facts: list[str], question: str) -> Generation:
    """The answer that a text gives to a question."""
    "Facts:"
    for fact in facts:
        f"- {fact}"
    f"Question: {question} Answer with the answer only."
    return gen(temperature=0)


@ppl
def judge(question: str, a: Generation, b: Generation) -> Generation:
    f"Facts: {' '.join(NOTES)}"
    f"Question: {question}"
    f"Answer A: {a}"
    f"Answer B: {b}"
    "Which answer is right? Reply with A or B."
    return select(["A", "B"])


def lead(verdict: Generation) -> float:
    a, b = verdict.scores or (0.0, 0.0)
    return a - b


def main() -> Iterator[str]:
    """The verdict on each question, and on the reports."""
    told = {name: [answer(text, each) for each in QUESTIONS] for name, text in REPORTS.items()}
    pairs = list(zip(QUESTIONS, told["first"], told["second"], strict=True))
    verdicts = [(judge(q, a, b), judge(q, b, a)) for q, a, b in pairs]
    total = 0.0
    for (question, a, b), (there, back) in zip(pairs, verdicts, strict=True):
        margin = lead(there) - lead(back)
        total += margin
        better = "first" if margin > 0 else "second"
        yield f"{question:34} {a!s:22} {b!s:22} {better} ({margin:+.1f})"
    yield ""
    yield f"The {'first' if total > 0 else 'second'} report is better ({total:+.1f})."


if __name__ == "__main__":
    print(*main(), sep="\n")
