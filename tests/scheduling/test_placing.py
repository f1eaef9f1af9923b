"""Several backends in one run: names lead to them, and calls fall back down a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Profile, Request
from appl.backend.price import Price
from appl.config import Config, load
from appl.errors import (
    BackendBusy,
    BackendRefused,
    BackendTimeout,
    BackendUnavailable,
    BudgetExceeded,
    ConfigError,
    ModelNotFound,
    Unsupported,
)
from appl.runtime import Route, Spot, models_from
from appl.session import check, choose, replayed
from appl.testing import (
    Allowance,
    AttemptFailed,
    BackendEndpoint,
    CallDispatched,
    CallEnded,
    CallStarted,
    Fake,
    Late,
    Limits,
    Log,
    Model,
    Models,
    Policy,
    Retries,
    Run,
    Streamed,
    VirtualClock,
)
from tests.sessions import open_run

DEAD = BackendUnavailable("nobody is there")
LIST = Model("near", "n", others=(Model("far", "f"),))


class Two:
    """A run on the backend *near*, with *far* beside it; names lead to both."""

    def __init__(
        self,
        near: Any = lambda _: "near",
        far: Any = lambda _: "far",
        *,
        names: dict[str, Model] | None = None,
        delays: tuple[float, float] = (1.0, 1.0),
        default: Model | None = None,
        far_features: tuple[str, ...] = ("n", "prefill", "seed", "stream", "tools"),
        **policy: Any,
    ) -> None:
        self.clock, self.log = VirtualClock(), Log()
        self.near = Late(near, self.clock, delays[0], name="near", default_model="n")
        self.far = Late(
            far, self.clock, delays[1], name="far", default_model="f", features=far_features
        )
        self.policy = Policy(clock=self.clock, **{"retries": Retries(attempts=1), **policy})
        self.models = Models(
            self.near.profile, default, {"both": LIST} if names is None else names, "near",
            {"far": self.far.profile},
        )  # fmt: skip

    def run(self, **options: Any) -> Run:
        return Run(
            self.near, policy=self.policy, models=self.models, instruments=[self.log],
            places={"far": BackendEndpoint(self.far, self.policy)}, **options,
        )  # fmt: skip

    @property
    def answered(self) -> list[str]:
        """Whose the answers were, in the order in which they came."""
        return [each.response.model for each in self.log.of(CallEnded) if each.response]

    @property
    def asked(self) -> tuple[list[str], list[str]]:
        """The models that both backends were asked for."""
        return [r.model for r in self.near.requests], [r.model for r in self.far.requests]


def failing(error: BaseException, times: int = 10**9) -> Any:
    left = [times]

    def answer(request: Request) -> Any:
        left[0] -= 1
        return error if left[0] >= 0 else "near"

    return answer


def ask(two: Two, model: str | None = "both", **options: Any) -> tuple[str, str]:
    """The answer, and the name of the model that gave it."""
    with two.run():
        answer = str(gen(model, messages="x", **options))
    return answer, two.answered[-1]


# -- names


def test_a_name_leads_to_another_backend() -> None:
    two = Two(names={"small": Model("far", "f"), "cold": Model("far", None, {"temperature": 0.0})})

    @ppl(model="small")
    def program() -> list[str]:
        "x"
        return [str(gen()), str(gen("cold")), str(gen("n")), str(gen("far/g"))]

    with two.run():
        assert program() == ["far", "far", "near", "far"]
    assert two.asked == (["n"], ["f", "f", "g"])
    assert two.far.requests[1].sampling.temperature == 0.0


def test_the_default_may_be_a_list() -> None:
    two = Two(failing(DEAD), default=LIST, names={})
    assert ask(two, None) == ("far", "far/f")
    assert ask(two, "small") == ("far", "far/f")


def test_the_request_names_all_who_may_answer_and_the_response_who_did() -> None:
    two = Two()
    assert ask(two) == ("near", "near/n")
    assert two.asked == (["n"], [])
    started = [each.request.model for each in two.log.of(CallStarted)]
    assert started == ["near/n | far/f"]


# -- falling back


@pytest.mark.parametrize(
    "error",
    [DEAD, BackendTimeout("slow", deadline="first token"), BackendBusy("no", retry_after=99)],
)
def test_who_fails_is_followed_by_the_next(error: Exception) -> None:
    two = Two(failing(error))
    assert ask(two) == ("far", "far/f")
    assert [(each.attempt, each.wait_s) for each in two.log.of(AttemptFailed)] == [(1, 0.0)]
    assert [each.attempt for each in two.log.of(CallDispatched)] == [1, 2]


def test_retries_come_first_and_every_backend_has_its_own() -> None:
    two = Two(failing(DEAD), failing(DEAD), retries=Retries(attempts=3, base_s=0.1))
    with pytest.raises(BackendUnavailable):
        ask(two)
    assert [len(each) for each in two.asked] == [3, 3]
    assert [each.attempt for each in two.log.of(CallDispatched)] == [1, 2, 3, 4, 5, 6]


def test_what_no_other_could_do_better_is_not_asked_again() -> None:
    two = Two(failing(BackendRefused("this is no question", status=400)))
    with pytest.raises(BackendRefused, match="no question"):
        ask(two)
    assert two.asked == (["n"], [])


def test_an_answer_that_was_read_in_part_is_not_begun_elsewhere() -> None:
    two = Two(lambda _: Streamed(("Once ", "upon "), DEAD))
    with two.run(), pytest.raises(BackendUnavailable):
        str(gen("both", messages="x", stream=True))
    assert two.asked == (["n"], [])


def test_a_stream_of_which_nothing_came_is_another_backends() -> None:
    two = Two(lambda _: Streamed((), DEAD), lambda _: Streamed(("all ", "of it")))
    with two.run():
        answer = gen("both", messages="x", stream=True)
        assert "".join(answer.text_stream) == "all of it"
    assert two.answered == ["far/f"]


def test_nobody_waits_for_a_server_that_is_left_alone_who_may_go_elsewhere() -> None:
    two = Two(failing(DEAD, 5), retries=Retries(attempts=5, base_s=8))
    times: list[float] = []

    @ppl
    def program() -> list[str]:
        "x"
        first = [str(gen("both")), times.append(two.clock.now()) or str(gen("both"))]
        times.append(two.clock.now())
        return [*first, str(gen("n"))]  # which has no other: it waits until it may be asked

    with two.run():
        assert program() == ["far", "far", "near"]
    assert len(two.near.requests) == 6 and times[1] == times[0] + 1.0
    assert times[0] - 1.0 + 15.0 + 1.0 == two.clock.now()  # a quarter of the patience later


def test_nobody_waits_for_a_busy_server_who_may_go_elsewhere() -> None:
    two = Two(failing(BackendBusy("tomorrow", retry_after=90_000.0), 1), retries=Retries())

    @ppl
    def program() -> list[str]:
        "x"
        return [str(gen("both")) for _ in range(3)]

    with two.run():
        assert program() == ["far"] * 3
        with pytest.raises(BackendBusy, match=r"tomorrow; .* retries.patience"):
            str(gen("n", messages="x"))  # which has no other
    assert len(two.near.requests) == 1 and two.clock.now() == 1.0 + 3 * 1.0


class Unreached(Late):
    """A backend that nobody can connect with."""

    probes = 0

    async def connect(self) -> None:
        self.probes += 1
        raise DEAD


def test_a_backend_that_cannot_be_reached_is_left_alone_for_a_while() -> None:
    two = Two(delays=(1.0, 10.0))
    two.near = near = Unreached(lambda _: "near", two.clock, name="near", default_model="n")

    @ppl
    def program() -> list[str]:
        "x"
        return [str(gen("both")) for _ in range(5)]

    with two.run():
        assert program() == ["far"] * 5
    assert near.probes == 2  # at 0 and, half a minute later, at 30 seconds


def test_one_deadline_holds_for_all() -> None:
    two = Two(failing(DEAD), delays=(2.0, 5.0))
    with pytest.raises(BackendTimeout) as caught:
        ask(two, timeout=4.0)
    assert caught.value.deadline == "total" and two.clock.now() == 4.0


def test_a_cancelled_call_is_cancelled_where_it_is() -> None:
    def near(request: Request) -> Exception:
        return DEAD if request.model == "n" else BackendRefused("a mistake", status=400)

    delay: Any = lambda request: 1.0 if request.model == "n" else 3.0  # noqa: E731
    two = Two(near, delays=(delay, 50.0))
    with pytest.raises(BackendRefused), two.run():
        gen("both", messages="x")
        str(gen("other", messages="x"))
    assert two.far.cancelled == [two.far.requests[0].address]
    assert two.clock.now() == 3.0


# -- limits


def test_a_full_backend_holds_nobody_up_who_asks_another() -> None:
    two = Two(limits=Limits(concurrency=1), names={"small": Model("far", "f")})
    with two.run():
        answers = [gen(name, messages="x") for name in ("n", "n", "n", "small", "small")]
        assert [str(each) for each in answers] == ["near"] * 3 + ["far"] * 2
    assert (two.near.most, two.far.most, two.clock.now()) == (1, 1, 3.0)


def test_what_all_backends_take_counts_for_one_budget() -> None:
    two = Two(budget=Allowance(calls=2), names={"small": Model("far", "f")})
    with two.run():
        answers = [gen(name, messages="x") for name in ("n", "small", "n", "small")]
        got = []
        for each in answers:
            try:
                got.append(str(each))
            except BudgetExceeded as error:
                got.append(error.limit)
    assert sorted(got) == ["calls", "calls", "far", "near"]


# -- rules


def preferring(rule: str) -> dict[str, Model]:
    return {"both": Model("near", "n", others=(Model("far", "f"),), prefer=rule)}


def test_the_cheapest_goes_first() -> None:
    prices = {"n": Price(2.0, 8.0), "f": Price(3.0, 4.0)}
    two = Two(names=preferring("cost"), prices=prices)
    assert ask(two) == ("far", "far/f")
    assert two.log.of(CallStarted)[0].request.model == "near/n | far/f (cost)"
    dear = Two(far=failing(DEAD), names=preferring("cost"), prices=prices)
    assert ask(dear) == ("near", "near/n")  # which is better than nothing


def test_what_the_request_would_cost_decides_and_not_the_sum_of_prices() -> None:
    prices = {"n": Price(1.0, 10.0), "f": Price(4.0, 4.0)}  # long answers, or long prompts
    for text, most, cheapest in (("x", 1000, "far"), ("x" * 9000, 10, "near")):
        two = Two(names=preferring("cost"), prices=prices)
        with two.run():
            assert str(gen("both", messages=text, max_tokens=most)) == cheapest


def test_prices_that_cannot_be_read_end_the_call() -> None:
    class Unreadable(dict[str, Price]):
        def get(self, model: object, default: object = None) -> Any:
            raise LookupError(f"no table for {model}")

    two = Two(names=preferring("cost"), prices=Unreadable({"n": Price(1.0, 1.0)}))
    with pytest.raises(LookupError, match="no table for"):
        ask(two)
    assert two.asked == ([], [])


def test_one_without_a_price_goes_last() -> None:
    two = Two(names=preferring("cost"), prices={"f": Price(100.0, 100.0)})
    assert ask(two)[0] == "far"


def test_the_quickest_goes_first_as_far_as_is_known() -> None:
    seconds = [4.0, *[1.0] * 7]
    delay: Any = lambda _: seconds.pop(0)  # noqa: E731
    two = Two(names=preferring("latency"), delays=(delay, 2.0))

    @ppl
    def program() -> list[str]:
        "x"
        return [str(gen("both")) for _ in range(4)]

    with two.run():
        assert program() == ["near", "far", "far", "far"]
    slower = Two(names=preferring("latency"), delays=(2.0, 4.0))
    with slower.run():
        assert program() == ["near", "far", "near", "near"]


def test_a_slow_backend_gets_a_second_look_now_and_then() -> None:
    slow = [10.0]
    delay: Any = lambda _: slow[0]  # noqa: E731
    two = Two(names=preferring("latency"), delays=(delay, 2.0))

    @ppl
    def program() -> list[str]:
        "x"
        first = [str(gen("both")) for _ in range(300)]
        slow[0] = 1.0
        return first + [str(gen("both")) for _ in range(300)]

    with two.run():
        said = program()
    looks = [i for i, each in enumerate(said[:300]) if each == "near"]
    assert looks == [0, 246]  # after fifty times the ten seconds that it took
    then = said[300:].index("near")
    assert then <= 251
    quick = said[300 + then :]
    assert quick.count("far") <= 1 + len(quick) // 30, (
        "and now it is the other's turn to be looked at"
    )


def test_the_second_look_goes_by_one_call_alone() -> None:
    two = Two(names=preferring("latency"), delays=(10.0, 0.5))

    @ppl
    def program() -> list[str]:
        "x"
        first = [str(gen("both")) for _ in range(1100)]
        return first[-200:] + [str(each) for each in [gen("both") for _ in range(50)]]

    with two.run():
        said = program()
    assert said.count("near") <= 2


# -- what may be asked


def test_the_backend_that_answers_says_what_may_be_asked() -> None:
    two = Two(far_features=("regex", "stream"), names={"both": LIST, "small": Model("far", "f")})
    with two.run():
        assert str(gen("small", messages="x", regex="f.*")) == "far"
        with pytest.raises(Unsupported, match="'near' cannot do"):
            gen(messages="x", regex="f.*")
        with pytest.raises(Unsupported, match=r"'near \| far' cannot do"):
            gen("both", messages="x", regex="f.*")


def test_a_list_is_held_to_what_any_of_it_cannot_do() -> None:
    far = Profile("far", frozenset({"schema", "schema_object", "regex"}), context=10)
    near = Profile("near", frozenset({"schema"}), default_model="n", context=20)
    models = Models(near, None, {"both": LIST}, "near", {"far": far})
    joint = models.profile_of(models.resolve("both").name or "")
    assert joint.features == {"schema", "schema_object"} and joint.context == 10


# -- names that are wrong


def test_slips_are_answered_with_the_nearest() -> None:
    near = Profile("near", models=("n",), default_model="n")
    far = Profile("far", models=("fast", "flat"), default_model="flat")
    models = Models(near, None, {"both": LIST}, "near", {})
    with pytest.raises(
        ModelNotFound, match=r"'both' is far/f, and this run is answered by .*alone"
    ):
        models.resolve("both")
    with pytest.raises(ModelNotFound, match=r"no model 'fst'.*did you mean 'fast'"):
        Models(near, None, {"x": Model("far", "fst")}, "near", {"far": far})
    broken = Models(near, None, {"x": Model("far")}, "near", {"far": ConfigError("no key")})
    with pytest.raises(ModelNotFound, match="that backend cannot be made: no key"):
        broken.resolve("x")


def test_a_name_of_ones_own_that_reads_like_anothers_is_told_apart() -> None:
    own = Profile("gateway", default_model="far/f")
    models = Models(own, None, None, "gateway", {"far": Profile("far")})
    assert models.route(models.default.name or "") == Route((Spot("gateway", "far/f"),))
    assert models.route(models.resolve("far/f").name or "") == Route((Spot("far", "f"),))
    mine = models.resolve("gateway/far/f").name or ""
    assert models.route(mine) == Route((Spot("gateway", "far/f"),))


def test_lists_go_through_the_header_of_a_trace() -> None:
    near, far = Profile("near", default_model="n"), Profile("far", default_model="f")
    names = {**preferring("latency"), "small": Model("far", None, {"stop": ("\n",)})}
    models = Models(near, LIST, names, "near", {"far": far})
    again = models_from(models.as_data(), near, "near", {"far": far})
    assert again is not None and again.default == models.default
    for name in names:
        assert again.resolve(name) == models.resolve(name)


# -- in the settings


def settings(folder: Path, text: str, **given: Any) -> Config:
    (folder / "appl.toml").write_text(text)
    return load(given, directory=folder, environ={})


def test_settings_list_models(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        '[models]\nsmall = ["embedded/embedded", "openai/gpt"]\n'
        'judge = {model = ["small2", "openai/gpt"], prefer = "cost", temperature = 0.5}\n'
        'small2 = "litellm/mini"\n',
        model="judge",
    )
    shown = {key: value for key, value, _ in found.shown()}
    assert shown["models.small"] == "embedded/embedded, else openai/gpt"
    assert shown["models.judge"] == "small2, else openai/gpt prefer='cost' temperature=0.5"
    choice = choose(found)
    assert (choice.backend, choice.model) == ("litellm", "mini")
    assert choice.placed == Model(
        "litellm", "mini", {"temperature": 0.5}, (Model("openai", "gpt"),), "cost"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("small = []", "must list models"),
        ('small = ["a", 3]', "must list models"),
        ('small = {model = ["a", "b"], prefer = "costs"}', "did you mean 'cost'"),
        ('small = {model = "a", prefer = "cost"}', "prefer is for lists"),
        ('small = ["a", "b"]\nlarge = ["c", "small"]', "write the models of both into one"),
        ('small = ["b", "c"]\nlarge = ["small", "a"]', "write the models of both into one"),
        ('small = ["embedded/embedded", "opnai/gpt"]', "did you mean 'openai'"),
    ],
)
def test_lists_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        for name in ("small", "large"):
            choose(settings(tmp_path, f"[models]\n{text}\n", model=name))


class Dead(Fake):
    """A backend that cannot be reached."""

    def __init__(self, model: str = "d") -> None:
        super().__init__(lambda _: DEAD, name="dead", default_model=model)


class Alive(Fake):
    """A backend that says which model it was asked for."""

    features = frozenset({"stream", "regex"})

    def __init__(self, model: str = "a", key: str = "") -> None:
        super().__init__(lambda r: f"I am {r.model}", name="alive", default_model=model)


OPEN = f"""
home = "runs"
model = "small"

[retries]
attempts = 1

[models]
small = ["first/d", "second/b"]
large = "second/c"
spare = "third/f"

[backends.first]
type = "{__name__}:Dead"

[backends.second]
type = "{__name__}:Alive"

[backends.third]
type = "{__name__}:Alive"
key = {{env = "NOT_SET_ANYWHERE"}}
"""


@ppl
def open_program() -> list[str]:
    "x"
    return [str(gen()), str(gen("large", regex="I.*")), str(gen("second/e"))]


def test_a_run_with_several_backends_is_recorded_and_replayed_without_any(tmp_path: Path) -> None:
    with open_run(settings(tmp_path, OPEN), say=lambda line: None) as session:
        answers = open_program()
    assert answers == ["I am b", "I am c", "I am e"]
    assert session.path is not None
    with replayed(session.path) as replayer:
        assert open_program() == answers
    models = [call.response.model for call in replayer.trace.calls if call.response]
    assert models == ["second/b", "second/c", "second/e"]
    assert all(isinstance(each, Fake) and each.closed for each in session.others.values())


def test_what_cannot_be_made_is_told_to_who_asks_for_it(tmp_path: Path) -> None:
    found = settings(tmp_path, OPEN)
    quietly = open_run(found, say=lambda line: None)
    wanted = r"'spare' is third/f, .* NOT_SET_ANYWHERE is not set"
    with quietly, pytest.raises(ModelNotFound, match=wanted):
        gen("spare", messages="x")
    assert [each for each in check(found) if "'third' is not checked" in each]
