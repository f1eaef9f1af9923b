"""``embed``: the vectors of texts, as a future at once.

Invariant: nothing here waits, but for texts that are not there yet, and in sequential runs; an
impossible option is refused before any call.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload
from weakref import ref

from appl.backend import Response, Sampling
from appl.errors import InvalidOption, MalformedResponse, UnknownOption, Unsupported, nearest
from appl.prompt import Message, Messages
from appl.runtime.answers.call import Call, CallIdentity
from appl.runtime.answers.gen_options import LIMITS, check_number
from appl.runtime.answers.models import named
from appl.runtime.concurrency.fiber import hub_here, wait
from appl.runtime.concurrency.future import Future, finished
from appl.runtime.concurrency.promise import Value
from appl.runtime.embedding.batches import Batches
from appl.runtime.frame import here

if TYPE_CHECKING:
    Vector = array[float]
    """The embedding of a text: an ``array('f')`` of 32-bit floats."""

_OPTIONS = ("model", "dimensions", "timeout", "priority")
_MOST_DIMENSIONS = 1 << 20


class EmbedCall(Call):
    """A question for the vectors of texts, ``many`` of them or the one of a single text."""

    __slots__ = ("batches", "many")
    batches: Batches
    many: bool

    def answered(self, response: Response) -> None:
        """End the call with its vectors."""
        vectors, texts = response.vectors, self.messages or ()
        if vectors is None or len(vectors) != len(texts):
            got = 0 if vectors is None else len(vectors)
            self.failed(MalformedResponse(f"{got} vectors came for {len(texts)} texts"))
            return
        value = [array("f", vector) for vector in vectors]
        if sys.byteorder == "big":
            for vector in value:
                vector.byteswap()
        self._end(Value(value if self.many else value[0]), response, None)


@overload
def embed(  # type: ignore[overload-overlap]  # a text is an iterable of texts, too
    texts: str,
    model: str | None = None,
    *,
    dimensions: int | None = None,
    timeout: float | None = None,
    priority: int = 0,
) -> Future[Vector]: ...
@overload
def embed(
    texts: Iterable[str],
    model: str | None = None,
    *,
    dimensions: int | None = None,
    timeout: float | None = None,
    priority: int = 0,
) -> Future[list[Vector]]: ...
def embed(
    texts: str | Iterable[str], model: str | None = None, **options: Any
) -> Future[Vector] | Future[list[Vector]]:
    """Ask a model for the vectors of *texts*; returns the future of them at once.

    One text has one vector, several have a list of them in the same order::

        vectors = appl.embed(["a cat", "a dog"], model="openai/text-embedding-3-small")
        nearest = max(vectors, key=lambda vector: math.sumprod(vector, question))

    A vector is an ``array('f')`` of 32-bit floats, which NumPy, sqlite-vec and others take as it
    is. Texts that wait together go in one request. A text that was embedded before in this run, or
    in the run that it goes on with or repeats, is not asked for again.

    texts: A text, or several. None may be empty.
    model: ``BACKEND/MODEL``, a model of the run's backend, or a name of ``[models]``; by default
        that of the run, which must be a model for embeddings.
    dimensions: The length of the vectors, for models that can shorten them.
    timeout: In seconds, for each attempt and all of them.
    priority: Higher ones are sent first.

    Raises ``Unsupported`` where the backend has no embeddings, before anything is asked.
    """
    for name in options:
        if name not in _OPTIONS:
            options_list = ", ".join(_OPTIONS)
            raise UnknownOption(
                f"embed() has no option {name!r}{nearest(name, _OPTIONS)} (it has: {options_list})"
            )
    texts = finished(texts)
    many = not isinstance(texts, str)
    checked_texts = _checked(texts)
    messages = Messages.of(Message("user", text) for text in checked_texts)
    frame = here(repr, checked_texts)
    run = frame.run
    if run.closed or run.refusal:
        run.check_open()
    meant = run.dispatch.models.resolve(named(finished(model)) or frame.model)
    profile = run.dispatch.models.profile_of(meant.name or "")
    if "embeddings" not in profile.features:
        raise Unsupported(
            f"backend {profile.name!r} has no embeddings; openai (and servers that speak its "
            "interface), litellm, sglang and embedded have: write embed(texts, "
            'model="openai/text-embedding-3-small")'
        )
    dimensions = finished(options.get("dimensions"))
    if dimensions is not None and (
        type(dimensions) is not int or not 0 < dimensions <= _MOST_DIMENSIONS
    ):
        raise InvalidOption(
            f"embed(dimensions=...) takes a whole number from 1, got {dimensions!r:.40}"
        )
    sampling = Sampling(dimensions=dimensions or 0, salt=run.services.salt)
    for name in ("timeout", "priority"):
        options[name] = finished(options.get(name))
        if options[name] is not None:
            check_number(name, options[name], *LIMITS[name])
    place = _source() or frame.call_place
    call = EmbedCall(
        frame.issue("embed"), hub_here(), ref(frame), run, frame.account,
        CallIdentity("embed", frame.generations, *(place or (None, None))), None, messages,
        meant.name or "", sampling, 1, options["timeout"], options["priority"] or 0,
    )  # fmt: skip
    call.batches, call.many = run.dispatch.embeddings, many
    frame.add(call)
    run.submit(call)
    if run.services.sequential:
        wait(call)
    return Future(call)


def _checked(texts: object) -> list[str]:
    if isinstance(texts, str):
        texts = [texts]
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise InvalidOption(f"embed(texts) takes a text or several, got {texts!r:.80}")
    checked: list[str] = []
    for number, text in enumerate(texts):
        text = finished(text)
        if not isinstance(text, str):
            raise InvalidOption(f"embed(texts): text {number} is {text!r:.80}; write str(...)")
        if not text:
            raise InvalidOption(f"embed(texts): text {number} is empty, and has no vector")
        checked.append(str.__str__(text))
    if not checked:
        raise InvalidOption("embed([]) asks for nothing: give it at least one text")
    return checked


_PACKAGE = __name__.partition(".")[0]


def _source() -> tuple[str, int] | None:
    """The user's file and line: the innermost frame that is not of this package."""
    frame = sys._getframe(2)
    while True:
        name = frame.f_globals.get("__name__", "")
        if name != _PACKAGE and not name.startswith(_PACKAGE + "."):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
