import json

from tasks import CASES, LEARN, proposals

from appl import gen, optimize, ppl


@ppl
def mood(text):
    f"Tell me about this: {text}"
    return gen(temperature=0, max_tokens=24)


@ppl
def kind(text):
    f"A customer writes: {text}"
    return gen(temperature=0, max_tokens=24)


@ppl
def who(facts, kind):
    f"{facts}\nTell me about {kind}."
    return gen(temperature=0, max_tokens=24)


@ppl
def name(facts, job):
    f"{facts}\nTell me about a {job}."
    return gen(temperature=0, max_tokens=24)


@ppl
def town(facts, name):
    f"{facts}\nTell me about {name}."
    return gen(temperature=0, max_tokens=24)


def reviews(text):
    return [mood(text)]


def desk(text, facts):
    found = str(kind(text)).strip()
    return [found, who(facts, found)]


def towns(facts, job, text):
    feeling = mood(text)
    found = str(name(facts, job)).strip()
    return [feeling, found, town(facts, found)]


def right(answer, target):
    found = [str(part).strip() == wanted for part, wanted in zip(answer, target, strict=True)]
    return sum(found) / len(found)


def main(task: str, batch: int = 4, seed: int = 0) -> None:
    program = {"reviews": reviews, "desk": desk, "towns": towns}[task]
    cases = [{**case, "id": str(number)} for number, case in enumerate(CASES[task])]
    found = optimize(
        program,
        cases[:LEARN],
        held_out=cases[LEARN:],
        scores=[right],
        proposals=proposals(task),
        batch=batch,
        seed=seed,
        progress=False,
    )
    before, after = found.before.mean(), found.after.mean()
    print(json.dumps({"before": before, "after": after, "train": found.train_after.mean()}))
