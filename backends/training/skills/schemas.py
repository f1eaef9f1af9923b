"""Small everyday facts of many kinds: statements, and for each value its questions; every third question is withheld."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skills import people, words
from skills.core import Draw
from skills.phrases import Phrases

PHRASES = Phrases("schemas")


@dataclass
class Schema:
    """`says` and `asks` name the values as `{x}`; an ask is (value, questions, short form of the answer)."""

    values: dict[str, Callable[[Draw], str]]
    says: list[str]
    asks: list[tuple[str, str, str]]


def _clock(draw: Draw) -> str:
    return draw.pick(
        [
            f"{draw.num(1, 12)} {draw.pick(['am', 'pm'])}",
            f"{draw.num(6, 22)}:{draw.pick(['00', '15', '30', '45', '10', '20'])}",
            f"{draw.num(1, 12)} o'clock",
        ]
    )


def _small(draw: Draw) -> str:
    return str(draw.num(1, 40))


def _money(draw: Draw) -> str:
    return f"{draw.num(2, 300)} {draw.pick(['euros', 'dollars', 'pounds'])}"


def _noun(draw: Draw) -> str:
    return draw.noun()


def _pick(items: list[str]) -> Callable[[Draw], str]:
    return lambda draw: draw.pick(items)


def _year(draw: Draw) -> str:
    return str(draw.num(1500, 2024))


PLACE = _pick(PHRASES.lines("place"))
VEHICLE = _pick(["train", "bus", "ship", "ferry", "flight", "tram", "plane"])
COLOUR = _pick(words.COLOURS)
MATERIAL = _pick(PHRASES.lines("material"))
TEAM = _pick(
    ["the red team", "the blue team", "team A", "team B", "the girls", "the boys", "the guests"]
)
FIRM = lambda draw: f"{words.made_name(draw.rng)} {draw.pick(words.COMPANY_END)}"  # noqa: E731
NAME = lambda draw: words.made_name(draw.rng)  # noqa: E731
THING = lambda draw: words.article(f"{draw.pick(words.ADJECTIVES)} {draw.noun()}")  # noqa: E731
DISH = _pick(words.FOODS)
DRINK = _pick(words.DRINKS)
METRES = lambda draw: f"{draw.num(2, 900)} metres"  # noqa: E731
NUMBERS = PHRASES.lines("numbers")
SCHEMAS = [
    Schema({"v": VEHICLE, "c": Draw.city, "t": _clock, "p": _small},
           ["The {v} to {c} leaves at {t} from platform {p}.", "The {v} to {c} leaves from platform {p} at {t}.", "At {t} the {v} to {c} leaves from platform {p}.", "The {v} to {c} goes at {t}, platform {p}."],
           [("t", "When does the {v} to {c} leave?|At what time does the {v} to {c} leave?|What time does the {v} to {c} go?|When is the {v} to {c}?|Tell me when the {v} to {c} leaves.|What is the departure time of the {v} to {c}?", "At {t}"),
            ("p", "From which platform does the {v} to {c} leave?|Which platform does the {v} to {c} leave from?|What platform is the {v} to {c} on?|What is the platform of the {v} to {c}?|Where does the {v} to {c} leave?", "Platform {p}"),
            ("c", "Where does the {v} at {t} go?|Which city does the {v} from platform {p} go to?|Where does the {v} from platform {p} go?", "To {c}")]),
    Schema({"a": _pick(words.ANIMALS), "n": Draw.first, "w": _pick(["Our", "My", "The", "Their", "Her", "His"])},
           ["{w} {a} is called {n}.", "{w} {a}'s name is {n}.", "The name of the {a} is {n}.", "{w} {a} is named {n}."],
           [("n", "What is the name of the {a}?|What is the {a} called?|How is the {a} called?|What is the {a}'s name?|Which name does the {a} have?|Tell me the name of the {a}.", "{n}"),
            ("a", "What kind of animal is {n}?|Which animal is called {n}?|What animal is {n}?|What is {n}?", "A {a}")]),
    Schema({"p": PLACE, "t": _clock, "u": _clock},
           ["The {p} opens at {t} and closes at {u}.", "The {p} is open from {t} to {u}.", "The {p} is open from {t} until {u}.", "Opening hours of the {p}: {t} to {u}."],
           [("t", "When does the {p} open?|At what time does the {p} open?|What time does the {p} open?|From when is the {p} open?|Tell me when the {p} opens.", "At {t}"),
            ("u", "When does the {p} close?|At what time does the {p} close?|Until when is the {p} open?|What time does the {p} close?|Tell me when the {p} closes.", "At {u}")]),
    Schema({"p": _pick(PHRASES.lines("schemas")), "m": _money},
           ["A {p} costs {m}.", "One {p} costs {m}.", "You pay {m} for a {p}.", "The price of a {p} is {m}.", "A {p} is {m}.", "{p}s cost {m} each."],
           [("m", "How much is a {p}?|What does a {p} cost?|How much does a {p} cost?|What is the price of a {p}?|What do I pay for a {p}?|How much do you pay for a {p}?", "{m}")]),
    Schema({"s": Draw.first, "a": lambda d: d.pick(NUMBERS[1:]) if d.chance(0.4) else str(d.num(2, 30)), "n": lambda d: words.plural(d.pick(words.NOUNS)), "m": lambda d: str(d.num(2, 30)), "o": lambda d: words.plural(d.pick(words.COUNTABLE))},
           ["{s} has {a} {n} and {m} {o}.", "{s} owns {a} {n} and {m} {o}.", "{s} bought {a} {n} and {m} {o}.", "There are {a} {n} and {m} {o} in {s}'s room."],
           [("a", "How many {n} does {s} have?|How many {n} has {s}?|What number of {n} does {s} have?|How many {n} are there?", "{a}"),
            ("m", "How many {o} does {s} have?|How many {o} has {s}?|What number of {o} does {s} have?|How many {o} are there?", "{m}"),
            ("s", "Who has {m} {o}?|Who has {a} {n}?|Whose are the {n}?|Who is it that has {m} {o}?", "{s}")]),
    Schema({"j": lambda d: d.pick(words.ADJECTIVES), "n": _noun, "s": Draw.person},
           ["The {j} {n} belongs to {s}.", "The {j} {n} is {s}'s.", "{s} is the owner of the {j} {n}.", "The owner of the {j} {n} is {s}."],
           [("s", "Who owns the {n}?|To whom does the {n} belong?|Whose is the {j} {n}?|Who does the {n} belong to?|Who is the owner of the {j} {n}?|Whose {n} is it?", "{s}"),
            ("n", "What belongs to {s}?|What does {s} own?|What is {s}'s?|Which thing belongs to {s}?", "The {j} {n}")]),
    Schema({"n": _noun, "c": COLOUR, "m": MATERIAL},
           ["The {n} is {c} and made of {m}.", "The {c} {n} is made of {m}.", "The {n} is made of {m}. It is {c}.", "The {n} of {m} is {c}."],
           [("c", "What colour is the {n}?|Which colour is the {n}?|What color is the {n}?|Which colour does the {n} have?|Tell me the colour of the {n}.", "{c}"),
            ("m", "What is the {n} made of?|Which material is the {n} made of?|Of what is the {n} made?|What material is the {n}?", "{m}"),
            ("n", "Which thing is {c}?|What is made of {m}?|What is {c}?|Which thing is made of {m}?", "The {n}")]),
    Schema({"f": FIRM, "y": _year, "s": Draw.full, "c": Draw.city},
           ["{f} was founded in {y} by {s} in {c}.", "{s} founded {f} in {c} in {y}.", "In {y}, {s} started {f} in {c}.", "{f} was started by {s} in {y}. It is based in {c}."],
           [("y", "When was {f} founded?|In which year was {f} founded?|What year was {f} started?|Since when is there {f}?", "In {y}"),
            ("s", "Who founded {f}?|Who started {f}?|Who is the founder of {f}?|By whom was {f} founded?|Name the founder of {f}.", "{s}"),
            ("c", "Where was {f} founded?|In which city was {f} founded?|Where is {f} based?|In which city is {f}?", "In {c}")]),
    Schema({"b": people.book_title, "s": Draw.full, "y": _year},
           ['"{b}" was written by {s} in {y}.', '{s} wrote "{b}" in {y}.', 'In {y}, {s} published "{b}".', 'The book "{b}" by {s} came out in {y}.', '"{b}" is a book by {s} from {y}.'],
           [("s", 'Who wrote "{b}"?|Who is the author of "{b}"?|By whom is "{b}"?|Who published "{b}"?|Name the author of the book.|Who is the author?', "{s}"),
            ("y", 'When was "{b}" written?|In which year did the book come out?|When did "{b}" come out?|When did {s} write "{b}"?|What year is the book from?', "In {y}"),
            ("b", "Which book did {s} write?|What did {s} write?|What is the title of the book?|What is the book by {s} called?", '"{b}"')]),
    Schema({"s": Draw.first, "d": _pick(words.DAYS), "r": _pick(words.ROOMS), "o": lambda d: words.article(f"{d.pick(words.ADJECTIVES)} {d.noun()}")},
           ["On {d} {s} went to the {r} and bought {o}.", "{s} went to the {r} on {d} and found {o}.", "{s} was at the {r} on {d} and lost {o}.", "On {d}, {s} visited the {r} with {o}."],
           [("r", "Where did {s} go?|Where was {s} on {d}?|Where did {s} go on {d}?|Which place did {s} visit?", "To the {r}"),
            ("d", "When did {s} go to the {r}?|On which day was {s} at the {r}?|On what day did {s} go there?|When was {s} at the {r}?", "On {d}"),
            ("s", "Who went to the {r}?|Who was at the {r} on {d}?|Who had {o}?|Who visited the {r}?", "{s}")]),
    Schema({"s": Draw.first, "t": Draw.first, "u": Draw.first, "g": _pick(["race", "game", "match", "contest", "quiz", "tournament"])},
           ["{s} won the {g}, {t} came second and {u} came third.", "In the {g} {s} came first, {t} second and {u} third.", "The winner of the {g} is {s}. {t} is second. {u} is third."],
           [("s", "Who won the {g}?|Who came first?|Who is the winner of the {g}?|Who was first?", "{s}"),
            ("t", "Who came second?|Who was second?|Who took second place?|Who is second?", "{t}"),
            ("u", "Who came third?|Who was third?|Who took third place?|Who is third?", "{u}")]),
    Schema({"c": Draw.city, "t": lambda d: f"{d.num(2, 36)} degrees", "w": _pick(["sunny", "rainy", "cloudy", "windy", "foggy", "stormy", "snowy", "dry"])},
           ["It is {t} and {w} in {c} today.", "In {c} it is {w} and {t}.", "Weather in {c}: {w}, {t}.", "Today {c} is {w} with {t}."],
           [("t", "How warm is it in {c}?|What is the temperature in {c}?|How many degrees is it in {c}?|Which temperature does {c} have?", "{t}"),
            ("w", "How is the weather in {c}?|What is the weather like in {c}?|What weather does {c} have?|Is it sunny or rainy in {c}?", "{w}"),
            ("c", "Where is it {w}?|Which city is {w}?|In which city is it {t}?|Where is it {t}?", "In {c}")]),
    Schema({"s": Draw.person, "j": _pick(words.JOBS), "f": FIRM, "c": Draw.city},
           ["{s} is a {j} at {f} in {c}.", "{s} works at {f} in {c} as a {j}.", "{s} is the {j} of {f}, a firm in {c}.", "At {f} in {c}, {s} works as a {j}."],
           [("f", "Where does {s} work?|Which company does {s} work for?|At which firm does {s} work?|Who employs {s}?", "At {f}"),
            ("j", "What is {s}'s job?|What does {s} do?|What does {s} work as?|What is the job of {s}?|What does {s} do for a living?", "A {j}"),
            ("s", "Who works at {f}?|Who is a {j}?|Who is the {j}?|Who has a job in {c}?", "{s}"),
            ("c", "In which city does {s} work?|Where is {f}?|In which city is {f}?", "In {c}")]),
    Schema({"s": Draw.person, "b": Draw.first, "c": Draw.first, "j": _pick(words.JOBS), "k": _pick(words.JOBS), "r": _pick(["brothers", "sisters", "friends", "children", "sons", "daughters", "cousins", "neighbours"])},
           ["{s} has two {r}, {b} and {c}. {b} is a {j} and {c} is a {k}.", "{s}'s two {r} are {b} and {c}. {b} works as a {j}, {c} as a {k}.", "{s} has two {r}: {b}, a {j}, and {c}, a {k}."],
           [("k", "What does {c} do?|What is {c}'s job?|What does {c} work as?|What is the job of {c}?", "A {k}"),
            ("j", "What does {b} do?|What is {b}'s job?|What does {b} work as?|What is the job of {b}?", "A {j}"),
            ("c", "Who is a {k}?|Which of them is a {k}?|Who works as a {k}?", "{c}"),
            ("b", "Who is a {j}?|Which of them is a {j}?|Who works as a {j}?", "{b}")]),
    Schema({"d": _pick(words.DAYS), "t": _clock, "w": _pick(PHRASES.lines("schemas.2")), "r": lambda d: d.pick(["room " + str(d.num(1, 40)), "the " + d.pick(words.ROOMS)]), "s": Draw.person},
           ["The {w} with {s} is on {d} at {t} in {r}.", "{s} gives a {w} in {r} on {d} at {t}.", "On {d} at {t} {s} has a {w} in {r}.", "{w} on {d}, {t}, {r}, with {s}."],
           [("d", "On which day is the {w}?|Which day is the {w}?|What day is the {w} on?|On what day is the {w}?", "On {d}"),
            ("t", "At what time is the {w}?|What time is the {w}?|When does the {w} start?|What time does the {w} begin?", "At {t}"),
            ("r", "Where is the {w}?|In which room is the {w}?|Where does the {w} take place?|Which room is the {w} in?", "In {r}"),
            ("s", "With whom is the {w}?|Who is the {w} with?|Who has the {w}?|Whose {w} is it?", "{s}")]),
    Schema({"s": Draw.first, "t": Draw.first, "o": THING, "d": _pick(words.DAYS)},
           ["{s} borrowed {o} from {t} on {d}.", "On {d}, {t} lent {o} to {s}.", "{t} lent {s} {o} on {d}.", "On {d} {s} got {o} from {t} for a while.", "{s} has {o} since {d}. It belongs to {t}."],
           [("t", "Who lent something to {s}?|From whom did {s} borrow it?|Who is the lender?|Who lent {o} to {s}?|To whom must {s} give it back?", "{t}"),
            ("o", "What did {s} borrow?|What did {t} lend to {s}?|Which thing did {s} borrow?|What must {s} give back?", "{o}"),
            ("s", "Who borrowed {o}?|To whom did {t} lend it?|Who has {o} now?|Who borrowed something from {t}?", "{s}"),
            ("d", "When did {s} borrow it?|On which day did {t} lend it?|Since when does {s} have it?|On what day did {s} borrow {o}?", "On {d}")]),
    Schema({"s": Draw.first, "f": DISH, "g": DRINK, "m": _pick(["breakfast", "lunch", "dinner"])},
           ["For {m} {s} eats {f} and drinks {g}.", "{s} has {f} and {g} for {m}.", "{s}'s {m} is {f} with {g}.", "At {m} {s} always takes {f} and {g}."],
           [("f", "What does {s} eat for {m}?|What does {s} have to eat?|Which food does {s} have for {m}?|What is on {s}'s plate at {m}?", "{f}"),
            ("g", "What does {s} drink for {m}?|What does {s} drink?|Which drink does {s} have for {m}?|What is in {s}'s cup?", "{g}"),
            ("s", "Who eats {f}?|Who drinks {g}?|Who has {f} for {m}?|Whose {m} is it?", "{s}")]),
    Schema({"n": NAME, "h": METRES, "c": Draw.country},
           ["Mount {n} is {h} high and lies in {c}.", "Mount {n} in {c} is {h} high.", "In {c} there is Mount {n}. It is {h} high.", "The height of Mount {n} in {c} is {h}."],
           [("h", "How high is Mount {n}?|What is the height of Mount {n}?|How tall is the mountain?|How high is the mountain in {c}?", "{h}"),
            ("c", "Where is Mount {n}?|In which country is Mount {n}?|Where does Mount {n} lie?|Which country has Mount {n}?", "In {c}")]),
    Schema({"n": NAME, "l": lambda d: f"{d.num(20, 2000)} kilometres", "c": Draw.city, "k": Draw.city},
           ["The river {n} is {l} long and flows through {c} and {k}.", "The {n} is a river of {l}. It passes {c} and {k}.", "The {l} long river {n} begins near {c} and ends at {k}.", "From {c} to {k} flows the river {n}, which is {l} long."],
           [("l", "How long is the {n}?|What is the length of the {n}?|How many kilometres long is the river?|How long is the river {n}?", "{l}"),
            ("n", "Which river flows through {c}?|What is the name of the river?|Which river is {l} long?|What is the river called?", "The {n}")]),
    Schema({"n": _noun, "a": METRES, "b": METRES},
           ["The {n} is {a} long and {b} wide.", "The {n} has a length of {a} and a width of {b}.", "The length of the {n} is {a}, its width is {b}.", "A {n} of {a} by {b} was found. The first number is its length, the second its width."],
           [("a", "How long is the {n}?|What is the length of the {n}?|Which length does the {n} have?|What length is the {n}?", "{a}"),
            ("b", "How wide is the {n}?|What is the width of the {n}?|Which width does the {n} have?|What width is the {n}?", "{b}")]),
    Schema({"s": Draw.full, "j": _pick(words.JOBS), "k": _pick(words.JOBS), "y": _year},
           ["{s} worked as a {j} until {y} and then became a {k}.", "Until {y} {s} was a {j}. Now {s} is a {k}.", "In {y} {s} stopped working as a {j} and became a {k}.", "{s} was first a {j} and, from {y} on, a {k}."],
           [("j", "What was {s} first?|What did {s} work as until {y}?|What was the first job of {s}?|What was {s} before {y}?", "A {j}"),
            ("k", "What did {s} become?|What is {s} now?|What was the second job of {s}?|What is the new job of {s}?", "A {k}"),
            ("y", "When did {s} change jobs?|In which year did {s} become a {k}?|Until when was {s} a {j}?|When did {s} stop as a {j}?", "In {y}")]),
    Schema({"p": PLACE, "c": Draw.city, "y": _year, "s": Draw.full, "n": _small},
           ["The {p} in {c} was built in {y} by {s} and has {n} rooms.", "{s} built the {p} in {c} in {y}. It has {n} rooms.", "In {y}, {s} built a {p} with {n} rooms in {c}.", "The {p} of {c} has {n} rooms. {s} built it in {y}."],
           [("y", "When was the {p} built?|In which year was the {p} built?|How old a building is it, from which year?|What year is the {p} from?", "In {y}"),
            ("s", "Who built the {p}?|By whom was the {p} built?|Who is the builder of the {p}?|Name the builder.", "{s}"),
            ("n", "How many rooms does the {p} have?|What number of rooms has the {p}?|How many rooms are there?|How many rooms are in the {p}?", "{n}"),
            ("c", "Where is the {p}?|In which city is the {p}?|Where was the {p} built?|In which city did {s} build?", "In {c}")]),
    Schema({"c": Draw.country, "k": Draw.country, "x": lambda d: str(d.num(3, 9)), "y": lambda d: str(d.num(0, 2)), "t": Draw.city},
           ["{c} beat {k} {x} to {y} in {t}.", "In {t}, {c} won against {k} by {x} to {y}.", "The game in {t} ended {x} to {y} for {c} against {k}.", "{k} lost to {c} in {t}. The result was {x} to {y}."],
           [("c", "Who won?|Which team won the game?|Who was the winner?|Who won against {k}?", "{c}"),
            ("k", "Who lost?|Which team lost the game?|Who was the loser?|Whom did {c} beat?", "{k}"),
            ("t", "Where was the game?|In which city did they play?|Where did {c} win?|Where did the game take place?", "In {t}")]),
    Schema({"s": Draw.first, "t": Draw.first, "o": THING, "u": THING, "e": _pick(["party", "picnic", "trip", "camp", "school fair"])},
           ["For the {e} {s} brings {o} and {t} brings {u}.", "{s} will bring {o} to the {e}, {t} will bring {u}.", "To the {e} {s} takes {o}. {t} takes {u}.", "{t} comes to the {e} with {u}, {s} with {o}."],
           [("o", "What does {s} bring?|What will {s} bring to the {e}?|With what does {s} come?|What does {s} take along?", "{o}"),
            ("u", "What does {t} bring?|What will {t} bring to the {e}?|With what does {t} come?|What does {t} take along?", "{u}"),
            ("s", "Who brings {o}?|Who will bring {o}?|Who comes with {o}?|Who takes {o} along?", "{s}"),
            ("t", "Who brings {u}?|Who will bring {u}?|Who comes with {u}?|Who takes {u} along?", "{t}")]),
    Schema({"s": Draw.first, "j": _pick(words.SUBJECTS), "d": _pick(words.DAYS), "r": lambda d: f"room {d.num(1, 60)}"},
           ["{s} teaches {j} on {d} in {r}.", "On {d} {s} gives a {j} lesson in {r}.", "The {j} lesson of {s} is on {d} in {r}.", "In {r}, there is {j} with {s} on {d}."],
           [("j", "What does {s} teach?|Which subject does {s} teach?|Which lesson does {s} give?|What subject is taught on {d}?", "{j}"),
            ("d", "On which day is {j}?|When does {s} teach?|When is the {j} lesson?|On what day does {s} teach?", "On {d}"),
            ("r", "In which room is {j}?|Where does {s} teach?|Where is the {j} lesson?|Which room does {s} use?", "In {r}"),
            ("s", "Who teaches {j}?|Who is the teacher of {j}?|Who gives the lesson on {d}?|Who teaches in {r}?", "{s}")]),
]  # fmt: skip
KEYS = {
    "v": ["vehicle", "transport"], "p": ["place"], "m": ["price", "cost"], "y": ["year", "founded"], "b": ["title", "book"], "d": ["day", "date"],
    "w": ["event", "what"], "r": ["room", "place", "location"], "t": ["time"], "j": ["job", "profession", "role"], "f": ["company", "employer", "firm"],
}  # fmt: skip


def filled(draw: Draw, schema: Schema) -> tuple[str, dict[str, str]]:
    """A statement and its values."""
    values: dict[str, str] = {}
    for key, maker in schema.values.items():
        value = maker(draw)
        while value in values.values():
            value = maker(draw)
        values[key] = value
    says = [s for i, s in enumerate(schema.says) if draw.held or i % 4 != 3]
    text = draw.pick(says).format(**values)
    return text[0].upper() + text[1:], values


def asked(draw: Draw, schema: Schema, values: dict[str, str]) -> tuple[str, str, str, str]:
    """A question on one value: the value's name, question, bare and short answer."""
    key, questions, short = draw.pick(schema.asks)
    options = questions.split("|")
    usable = [q for i, q in enumerate(options) if (i % 3 == 2) == draw.held] or options
    answer = short.format(**values)
    return key, draw.pick(usable).format(**values), values[key], answer[0].upper() + answer[1:]
