from data import REVIEWS

from appl import evaluate, gen, ppl


@ppl
def short(review: str) -> str:
    f"Good or bad? {review}"
    return gen()


@ppl
def careful(review: str) -> str:
    f"Read carefully and say good or bad. {review}"
    return gen()


def main() -> str:
    result = evaluate(careful, REVIEWS, against=short, scores=["exact"])
    return "\n".join([result.title(), *result.table()])
