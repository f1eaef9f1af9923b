"""Misspelled options of gen, select and map."""

from __future__ import annotations

from typing import Any

from appl import gen, gen_with_tools, map as side_by_side, select


def search(query: str) -> str:
    return query


gen(temperature=0.5, max_tokens=10, stop=["x"], seed=1, n=2, stream=True, cache="run")
gen(backend_options={"top_k": 40})
gen(temprature=0.5)  # type: ignore[call-overload]
gen(max_token=10)  # type: ignore[call-overload]
gen(top_k=40)  # type: ignore[call-overload]
gen(max_tokens="ten")  # type: ignore[call-overload]
gen(response_format=int, max_ask=2)  # type: ignore[call-overload]
select(["a", "b"], method="logprob")
select(["a", "b"], metod="logprob")  # type: ignore[call-arg]
select(["a", "b"], max_tokens=3)  # type: ignore[call-arg]
gen_with_tools(tools=search, max_tokens=10, max_steps=3)
gen_with_tools(tools=search, max_step=3)  # type: ignore[call-overload]
side_by_side(search, ["a"], concurency=3)  # type: ignore[call-overload]
options: dict[str, Any] = {"temperature": 0.5}
gen(**options)
