"""The generator of the model's training text: seeded, right by its own checks, and honest about what is withheld."""

import gc
import hashlib
import sys
from itertools import islice
from pathlib import Path

import pytest

TRAINING = str(Path(__file__).parents[2] / "backends" / "training")


@pytest.fixture(autouse=True)
def importable():
    """The scripts of the training import each other by their bare names."""
    sys.path.insert(0, TRAINING)
    yield
    sys.path.remove(TRAINING)
    for name in [n for n in sys.modules if n.split(".")[0] in ("generator", "skills")]:
        del sys.modules[name]


def test_the_same_seed_writes_the_same_conversations():
    import generator

    def first(seed):
        return [generator.conversation(e) for e in islice(generator.training(seed, 60), 60)]

    assert first(3) == first(3)
    assert first(3) != first(4)


def test_every_right_answer_passes_its_check():
    import generator
    from skills.core import passed

    for skill in generator.SKILLS:
        for example in generator.held_out(skill, 25):
            role, answer = example.answer
            assert role == "call" or passed(example.check, answer), (skill, answer, example.check)


def test_a_phrasing_that_training_can_say_is_not_measured():
    from skills.core import Pool

    pool = Pool("greeting", "Hello {n}.\n[Hi|Hey] {n}!\nGood day, {n}\nhey, {n}\nWelcome {n}")

    assert [pool.parsed[i] for i in pool.train] == [pool.parsed[i] for i in (0, 1, 2, 4)]
    assert pool.held == pool.train  # the one withheld says what a trained one says


def test_withheld_phrasings_have_words_of_their_own():
    import generator
    from skills.core import Pool, withheld

    assert generator.SKILLS
    pools = [each for each in gc.get_objects() if issubclass(type(each), Pool)]
    measured = [p for p in pools if p.held != p.train]
    assert len(measured) > 150
    assert all(withheld(i) for p in measured for i in p.held)
    assert all(not withheld(i) for p in pools for i in p.train)


def test_an_outline_with_a_heading_twice_does_not_pass():
    import generator
    from skills.core import passed

    example = generator.held_out("outline", 1)[0]
    lines = example.answer[1].split("\n")
    again = [lines[0], *(f"{i}. {lines[0][3:]}" for i in range(2, len(lines) + 1))]

    assert passed(example.check, "\n".join(lines))
    assert not passed(example.check, "\n".join(again))


def test_the_generator_writes_the_text_that_it_always_wrote():
    import generator

    texts = (
        repr([generator.conversation(e) for e in generator.held_out(skill, 40)])
        for skill in generator.SKILLS
    )
    trained = [generator.conversation(e) for e in generator.training(11, 1000)]
    digest = hashlib.sha256("\n".join([*texts, repr(trained)]).encode()).hexdigest()
    assert digest == "a65b64e6aeccdd193c91db4453f307cf76f20f037e2d22ece4fd107bf84186c5"
