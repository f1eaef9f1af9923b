"""JSON extraction from many documents in parallel: a typed answer and a row for each.

appl run examples/extraction.py
appl run examples/extraction.py --concurrency 4 --json

The type constrains the answer. A backend that can constrain decoding produces nothing else. With
other backends the model is asked again, with the error, when its answer does not fit.
"""

from collections.abc import Iterator

from pydantic import BaseModel

from appl import gen, map, ppl

DOCUMENTS = [
    "Olaf Brand, 34, lives in Lund and works as a pilot.",
    "Mira Holt is a teacher from Tarn. She is 61 years old.",
    "Leo Marsh is a baker. He is 44 years old and lives in Riga.",
    "Anna Reed is 29. She lives in Delft and works as a tailor.",
    "Hugo Lind works as a farmer in Oslo. He is 52.",
    "Ines Vega, a nurse, is 38 years old and lives in Bergen.",
]


class Person(BaseModel):
    name: str
    age: int | None
    city: str | None
    job: str | None


@ppl
def extract(text: str) -> Person:
    f"Extract name, age, city and job as JSON.\nText: {text}"
    return gen(temperature=0, response_format=Person).result()


@ppl
def everybody(documents: list[str], at_once: int) -> list[Person]:
    return list(map(extract, documents, concurrency=at_once))


def main(at_once: int = 16) -> Iterator[str]:
    """A table of the extracted data, and the mean age."""
    people = everybody(DOCUMENTS, at_once)
    for each in people:
        yield f"{each.name:12} {each.age!s:>4}  {each.city!s:8} {each.job!s}"
    ages = [each.age for each in people if each.age is not None]
    yield f"{len(people)} documents, mean age {sum(ages) / len(ages):.1f}"


if __name__ == "__main__":
    print(*main(), sep="\n")
