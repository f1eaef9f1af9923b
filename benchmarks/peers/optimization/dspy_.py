import json
import os
import sys

import dspy
from gepa.utils.stop_condition import MaxCandidateProposalsStopper, ScoreThresholdStopper
from tasks import CASES, LEARN, TEXTS, proposals


class Plain(dspy.Adapter):
    """Sends the instructions with the inputs in place of their names, and takes the whole answer.

    The small model does not write the marks that dspy's own adapters look for.
    """

    def format(self, signature, demos, inputs):
        text = signature.instructions
        for name, value in inputs.items():
            text = text.replace("{" + name + "}", str(value))
        return [{"role": "user", "content": text}]

    def parse(self, signature, completion):
        return {name: completion.strip() for name in signature.output_fields}


def step(task, name, inputs):
    signature = dspy.Signature(f"{inputs} -> {name}", TEXTS[task][name][0])
    return dspy.Predict(signature)


class Reviews(dspy.Module):
    def __init__(self):
        self.mood = step("reviews", "mood", "text")

    def forward(self, text):
        return dspy.Prediction(answer=[self.mood(text=text).mood])


class Desk(dspy.Module):
    def __init__(self):
        self.kind = step("desk", "kind", "text")
        self.who = step("desk", "who", "facts, kind")

    def forward(self, text, facts):
        kind = self.kind(text=text).kind
        return dspy.Prediction(answer=[kind, self.who(facts=facts, kind=kind).who])


class Towns(dspy.Module):
    def __init__(self):
        self.mood = step("towns", "mood", "text")
        self.name = step("towns", "name", "facts, job")
        self.town = step("towns", "town", "facts, name")

    def forward(self, facts, job, text):
        mood = self.mood(text=text).mood
        name = self.name(facts=facts, job=job).name
        town = self.town(facts=facts, name=name).town
        return dspy.Prediction(answer=[mood, name, town])


def right(gold, pred, trace=None, pred_name=None, pred_trace=None):
    found = [part == wanted for part, wanted in zip(pred.answer, gold.target, strict=True)]
    feedback = f"The answer should be: {gold.target}"
    return dspy.Prediction(score=sum(found) / len(found), feedback=feedback)


def main():
    task, way = sys.argv[1:3]
    batch, seed = map(int, sys.argv[3:5])
    caches, shipped = way != "anew", way == "shipped"
    url = os.environ["OPENAI_BASE_URL"]
    made = {"api_base": url, "api_key": "k", "temperature": 0, "cache": caches}
    dspy.configure(lm=dspy.LM("openai/m", max_tokens=24, **made), adapter=Plain())
    program = {"reviews": Reviews, "desk": Desk, "towns": Towns}[task]()
    inputs = [name for name in CASES[task][0] if name != "target"]
    cases = [dspy.Example(**case).with_inputs(*inputs) for case in CASES[task]]
    train, held = cases[:LEARN], cases[LEARN:]
    measure = dspy.Evaluate(devset=held, metric=lambda *a: right(*a).score, num_threads=4)
    before = measure(program).score / 100
    ends = [MaxCandidateProposalsStopper(proposals(task)), ScoreThresholdStopper(1.0)]
    own = {"auto": "light"} if shipped else {"max_metric_calls": 100_000}
    gepa = dspy.GEPA(
        metric=right,
        reflection_minibatch_size=3 if shipped else batch,
        reflection_lm=dspy.LM("openai/m", max_tokens=4000, **made),
        num_threads=4,
        seed=seed,
        track_stats=True,
        gepa_kwargs={} if shipped else {"stop_callbacks": ends},
        **own,
    )
    better = gepa.compile(program, trainset=train, valset=train)
    after = measure(better).score / 100
    trained = max(better.detailed_results.val_aggregate_scores)
    print(json.dumps({"before": before, "after": after, "train": trained}))


main()
