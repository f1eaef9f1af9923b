from collections import Counter

import appl
from appl import gen, ppl

appl.init()


def get_mode(answers: list[str]):
    return max(set(answers), key=answers.count)


def marginalize(results: list):
    answers = [str(res).split()[-1] for res in results]
    return get_mode(answers)


@ppl
def cot_consistency(cot_examples: list[str], question: str, num_trials: int):
    cot_examples
    question
    results = [gen() for _ in range(num_trials)]
    return marginalize(results)


@ppl
def counted(question: str, num_trials: int):
    question
    answers = [gen() for _ in range(num_trials)]
    return Counter(answers).most_common(1)[0][0]


print(cot_consistency(["1 + 1: that is 2", "2 + 2: that is 4"], "3 + 3", 5))
print(counted("3 + 3", 3))
