"""Word problems told in clauses: what people do in the present or the past, several things in one sentence; and everyday situations."""

from __future__ import annotations

from dataclasses import dataclass, field

from skills import words
from skills.core import Draw, Pool


@dataclass
class Story:
    """A running total `value`, what was said, and the reasoning line of each step."""

    value: int
    said: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    question: str = ""
    wordy: bool = False

    def step(self, said: str, left: int, op: str, right: int, why: str) -> int:
        """Add a step `left op right`; the result becomes the value."""
        result = {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "/": left // max(right, 1),
        }[op]
        if said:
            self.said.append(said)
        text = f"{left} {op} {right} = {result}"
        self.lines.append(f"{why}: {text}" if self.wordy and why else text)
        self.value = result
        return result


GAIN = [
    pair.split("/")
    for pair in [
        "buys/bought",
        "gets/got",
        "finds/found",
        "picks/picked",
        "collects/collected",
        "receives/received",
        "makes/made",
        "wins/won",
        "earns/earned",
        "adds/added",
        "gathers/gathered",
        "orders/ordered",
        "catches/caught",
        "saves/saved",
    ]
]
LOSE = [
    pair.split("/")
    for pair in [
        "sells/sold",
        "loses/lost",
        "eats/ate",
        "uses/used",
        "breaks/broke",
        "drops/dropped",
        "spends/spent",
        "wastes/wasted",
        "donates/donated",
        "removes/removed",
        "trades/traded",
        "returns/returned",
        "burns/burned",
    ]
]
GIVE = [
    pair.split("/")
    for pair in ["gives/gave", "sends/sent", "hands/handed", "lends/lent", "passes/passed"]
]
TO = [
    "{f}",
    "{f}",
    "a friend",
    "his brother",
    "her sister",
    "a neighbour",
    "the teacher",
    "a child",
    "her mother",
    "his father",
    "the school",
    "her cousin",
    "his friend {f}",
    "her brother {f}",
]
TAIL = Pool(
    "story.tail",
    """
 at the market
 on Monday
 in the shop
 in the afternoon
 at school
 on the way home
 in the evening
 on Tuesday
 later
 at home
 in the garden
 the next day
 on Sunday
 from {f}
 at a fair
""",
)
GAIN_VP = Pool(
    "story.gain",
    """
{v} {k} more {n}
{v} {k} more
{v} {k} {n}
{v} another {k} {n}
{v} {k} [new|extra|other] {n}
{v} {k} more {n}{t}
{v} {k}{t}
{v} [a further|another] {k}
{v} {k} of them{t}
{v} {k} {n}{t}
""",
)
LOSE_VP = Pool(
    "story.lose",
    """
{v} {k} of them
{v} {k} {n}
{v} {k}
{v} {k} of the {n}
{g} {k} to {o}
{g} away {k} {n}
{g} {k} {n} to {o}
{v} {k} of them{t}
{v} {k} {n}{t}
{g} {o} {k} of them
{g} {k} of the {n} to {o}
{g} {k} of them to {o}
""",
)
BAG_VP = Pool(
    "story.bag",
    """
{v} {a} {c} of {b} {n}
{v} {a} {c} with {b} {n} each
{v} {a} more {c} with {b} {n} in each
{v} {a} {c} of {b}
{v} {a} {c} with {b} in each
{v} {a} {c} that hold {b} {n} each
{v} {a} {c} of {b} {n} each
{v} {b} {n} [a|every|each] day for {a} days
{v} {a} {c}, each with {b} {n}
{v} {a} {c} with {b} {n} in [each|every one]
""",
)
BAG_LOSE = Pool(
    "story.baglose",
    """
{g} {b} {n} to each of {a} friends
{v} {a} {c} of {b} {n}
{v} {b} {n} [a|every|each] day for {a} days
{g} {a} friends {b} {n} each
{g} {b} each to {a} children
{v} {a} {c} with {b} {n} each
{g} {a} [children|people|friends] {b} {n} each
""",
)
START = Pool(
    "story.start",
    """
{S} {h} {k} {n}
{S} {h} {k} {n} in a {c1}
{S} {h} a {c1} [of|with] {k} {n}
{S} {st} with {k} {n}
{S} {h} {k} {n} at home
{S} {v} {k} {n}
{S} {v} {k} {n}{t}
A {who} {h} {k} {n}
A {who} {v} {k} {n}
""",
)
END = Pool(
    "story.end",
    """
How many {n} {d} {S} have now?
How many {n} {d} {S} have left?
How many {n} are left?
How many {n} {d} {p} have?
How many {d} {S} have now?
How many {n} {d} {p} have in the end?
How many are left?
How many {n} are there now?
How many {n} {d} {S} still have?
How many {n} {d} {p} have in total?
What is the number of {n} now?
[So|Now], how many {n} {d} {S} have?
How many {n} {d} {p} have left [now|in the end|]?
How many {n} remain?
""",
)
ROLES = [
    "baker",
    "farmer",
    "shop",
    "gardener",
    "school",
    "teacher",
    "boy",
    "girl",
    "library",
    "fisherman",
    "florist",
    "seller",
    "hotel",
    "club",
]


def _vp(draw: Draw, story: Story, slot: dict[str, str], past: bool) -> str:
    """One clause that changes the value."""
    slot = slot | {"v": draw.pick(GAIN)[past], "o": draw.pick(TO).format(**slot)}
    slot["t"] = draw.say(TAIL, **slot)
    slot["g"] = draw.pick(GIVE)[past]
    kind = draw.rng.random()
    if kind < 0.3:
        k = draw.num(2, 60) if draw.chance(0.7) else draw.num(20, 250)
        story.step("", story.value, "+", k, "More")
        return draw.say(GAIN_VP, k=k, **slot)
    if kind < 0.7 and story.value > 4:
        slot["v"] = draw.pick(LOSE)[past]
        k = draw.num(1, min(story.value - 1, 80))
        story.step("", story.value, "-", k, "Left")
        return draw.say(LOSE_VP, k=k, **slot)
    a, b = draw.num(2, 9), draw.num(2, 12)
    before = story.value
    if kind > 0.88 and a * b < before:
        slot["v"] = draw.pick(LOSE)[past]
        gone = story.step("", a, "*", b, "Gone")
        story.step("", before, "-", gone, "Left")
        return draw.say(BAG_LOSE, a=a, b=b, **slot)
    new = story.step("", a, "*", b, "New")
    story.step("", before, "+", new, "Together")
    return draw.say(BAG_VP, a=a, b=b, **slot)


def clauses(draw: Draw, wordy: bool) -> Story:
    """Someone has things; one to three clauses; a question."""
    past = draw.chance(0.5)
    who, friend = draw.firsts(2)
    noun = words.plural(draw.pick(words.COUNTABLE)) if draw.chance(0.93) else draw.word() + "s"
    pronoun = draw.pick(["she", "he"])
    box = draw.pick(words.CONTAINERS)
    role = draw.pick(ROLES)
    slot = {
        "S": who,
        "f": friend,
        "n": noun,
        "c": words.plural(box),
        "c1": draw.pick(words.CONTAINERS),
        "p": pronoun,
        "h": "had" if past else "has",
        "d": "did" if past and draw.chance(0.3) else "does",
        "st": "started" if past else "starts",
        "who": role,
    }
    story = Story(draw.num(5, 60) if draw.chance(0.65) else draw.num(30, 300), wordy=wordy)
    start = draw.say(
        START, k=story.value, v=draw.pick(GAIN)[past], t=draw.say(TAIL, **slot), **slot
    )
    if start.startswith("A "):
        slot["S"] = f"the {role}"
    number = draw.pick([1, 2, 2, 3])
    parts = [_vp(draw, story, slot, past) for _ in range(number)]
    story.said.append(_told(draw, start, parts, slot["S"], pronoun))
    story.question = draw.say(END, **slot)
    return story


def _told(draw: Draw, start: str, parts: list[str], who: str, pronoun: str) -> str:
    """The clauses as sentences."""
    name = who[0].upper() + who[1:]

    def subject() -> str:
        return name if draw.chance(0.35) else pronoun.capitalize()

    if len(parts) == 1:
        return draw.pick(
            [
                f"{start}. {subject()} {parts[0]}.",
                f"{start} and {parts[0]}.",
                f"{start}. Then {pronoun} {parts[0]}.",
            ]
        )
    if len(parts) == 2:
        return draw.pick([
            f"{start}. {subject()} {parts[0]} and {parts[1]}.", f"{start}. {subject()} {parts[0]}, then {parts[1]}.", f"{start}. {subject()} {parts[0]}. Then {pronoun} {parts[1]}.",
            f"{start}, {parts[0]} and {parts[1]}.", f"{start}. {subject()} {parts[0]} and then {parts[1]}.", f"{start}. First {pronoun} {parts[0]}, then {pronoun} {parts[1]}.",
            f"{start}. {subject()} {parts[0]}. Later {pronoun} {parts[1]}.", f"{start}. {subject()} {parts[0]}, and {pronoun} {parts[1]}.",
        ])  # fmt: skip
    return draw.pick([
        f"{start}. {subject()} {parts[0]}, {parts[1]} and {parts[2]}.", f"{start}. {subject()} {parts[0]} and {parts[1]}. Then {pronoun} {parts[2]}.",
        f"{start}. {subject()} {parts[0]}. Then {pronoun} {parts[1]}. After that {pronoun} {parts[2]}.", f"{start}. {subject()} {parts[0]}, then {parts[1]}, and then {parts[2]}.",
        f"{start}. {subject()} {parts[0]}. {subject()} {parts[1]}. {subject()} {parts[2]}.",
    ])  # fmt: skip


Plan = list[tuple[str, str, str]]
"""Steps: left, operator, right; `#i` is the result of step i, a name is a number of the story."""
SCENES: list[tuple[str, dict[str, tuple[int, int]], Plan, str]] = [
    ("wages", {"p": (5, 30), "a": (2, 12), "b": (2, 12)}, [("a", "+", "b"), ("#0", "*", "p")], """
{S} earns {p} dollars an hour. {H} works {a} hours on {d1} and {b} hours on {d2}. How much does {s} earn[ in total|]?
{S} gets {p} dollars [an|for each|per] hour. On {d1} {s} works {a} hours, on {d2} {b} hours. How [much|many dollars] does {s} get?
A worker is paid {p} euros an hour. The worker works {a} hours on {d1} and {b} hours on {d2}. What is the pay?
{S} is paid {p} dollars per hour and worked {a} hours last week and {b} hours this week. How much money did {s} make?
{S} runs {p} miles an hour. {H} runs {a} hours on {d1} and {b} hours on {d2}. How many miles does {s} run?
A machine makes {p} {n} an hour. It runs {a} hours on {d1} and {b} hours on {d2}. How many {n} does it make?
{S} [is paid|makes|earned] {p} dollars [per|an] hour and [works|worked] {a} hours on {d1} and {b} hours on {d2}. How much [is that|did {s} earn|money is it]?
"""),
    ("older", {"k": (3, 60), "e": (2, 20), "t": (2, 20)}, [("k", "+", "e"), ("#0", "+", "t")], """
{S} is {k} years old. {F} is {e} years older. How old will {F} be in {t} years?
{S} is {k}. {S}'s [sister|brother|friend] is {e} years older[ than {S}|]. How old will [she|he|{S}'s friend] be in {t} years?
{S} is {k} years old, and {F} is {e} years older than {S}. What will {F}'s age be in {t} years?
[His|Her] [sister|brother] is {e} years older than {S}, who is {k}. How old will the [sister|brother] be in {t} years?
If {S} is {k} now and {F} is {e} years older, how old is {F} in {t} years?
"""),
    ("younger", {"k": (20, 80), "e": (2, 18), "t": (2, 20)}, [("k", "-", "e"), ("#0", "+", "t")], """
{S} is {k} years old. {F} is {e} years younger. How old will {F} be in {t} years?
{S} is {k}, and {F} is {e} years younger than {S}. How old is {F} in {t} years?
{F} is {e} years younger than {S}. {S} is {k}. What is {F}'s age in {t} years?
{S} is {k} years old. [His|Her] [sister|brother] is {e} years younger. How old will the [sister|brother] be in {t} years?
"""),
    ("seats", {"m": (30, 300), "a": (2, 14), "b": (2, 14)}, [("a", "+", "b"), ("m", "-", "#0")], """
A bus has {m} seats. {a} people get on at the first stop and {b} at the second. How many seats are [free|empty|left]?
A [hall|theatre|cinema|train|plane] has {m} seats. {a} people come [first|in the morning|early] and {b} [later|in the evening|more]. How many seats are [free|empty]?
There are {m} {n} in a {c1}. {S} takes {a} and {F} takes {b}. How many {n} are left?
{S} has {m} dollars and buys a {o1} for {a} dollars and a {o2} for {b} dollars. How much money is left?
{S} has {m} {u}. A {o1} costs {a} {u} and a {o2} costs {b} {u}. {S} buys both. How many {u} are left?
A [baker|farmer|shop] [has|makes|bakes|starts with] {m} {n}[ and|. {H}] sells {a} in the morning and {b} in the [afternoon|evening]. How many {n} [are left|does the seller have left|remain]?
A [baker|farmer|shop] makes {m} {n}. {H} sells {a} on {d1} and {b} on {d2}. How many {n} are left?
A book has {m} pages. {S} reads {a} pages on {d1} and {b} pages on {d2}. How many pages are left?
A rope is {m} metres long. {S} cuts off {a} metres and then {b} metres. How long is it now?
There are {m} children in a school. {a} are ill and {b} are on a trip. How many children are there today?
From {m} {n}, {S} eats {a} and gives {b} to {F}. How many are left?
{S} has {m} {u} and spends {a} {u} on food and {b} {u} on a {o1}. How much is left?
{S} [has|makes|picks] {m} {n}. {H} [sells|eats|uses|gives away] {a} [in the morning|today|on {d1}] and {b} [in the afternoon|tomorrow|on {d2}]. How many {n} [are left|remain|does {s} have left]?
"""),
    ("onoff", {"m": (10, 90), "a": (2, 9), "b": (2, 40)}, [("m", "-", "a"), ("#0", "+", "b")], """
There are {m} people on a [bus|train|boat]. {a} get off and {b} get on. How many people are on [it|the bus|board] now?
A [bus|train|ship] has {m} passengers. At the [first stop|station] {a} leave and {b} come in. How many passengers are there now?
{m} [people|children] are in a [room|shop|museum|class|club]. {a} [go out|leave|go home] and {b} [new ones |more |][come|come in|join]. How many [people|children] are [in it|there] now?
A class has {m} children. {a} leave and {b} new ones come. How many children are in the class now?
{m} birds sit in a tree. {a} fly away and {b} come. How many birds are in the tree now?
A library has {m} books. {a} are borrowed and {b} are returned. How many books are there now?
"""),
    ("rows", {"a": (2, 12), "b": (2, 15), "k": (1, 3)}, [("a", "*", "b"), ("#0", "-", "k")], """
There are {a} [tables|rows] with {b} chairs each[ in a room|]. {k} chairs are broken and taken away. How many chairs are left?
A [garden|park|field] has {a} rows of {b} trees. {k} trees fall down. How many trees are left?
{S} has {a} {c} with {b} {n} each. {k} {n} are [bad|broken|rotten]. How many good {n} are there?
{S} buys {a} {c} of {b} {n}. {H} [eats|loses|uses] {k}. How many {n} are left?
{S} bakes {a} trays of {b} {n} and gives {k} to {F}. How many {n} [does {s} have|are left]?
{a} {c} hold {b} {n} each. {S} takes out {k}. How many {n} are left [in the {c}|]?
A school has {a} classes of {b} children. {k} children are ill. How many are [at school|not ill]?
"""),
    ("days", {"a": (2, 60), "b": (2, 60), "m": (2, 4)}, [("a", "*", "m"), ("a", "+", "b"), ("#1", "+", "#0")], """
{S} reads {a} pages on {d1}, {b} pages on {d2} and {M} as many on {d3} as on {d1}. How many pages does {s} read[ in total|]?
{S} [sells|makes|finds] {a} {n} on {d1}, {b} on {d2}, and on {d3} {M} as many as on {d1}. How many {n} is that[ in total|]?
On {d1} {a} people come, on {d2} {b}, and on {d3} {M} as many as on {d1}. How many people come in all?
{S} has {a} {n}, {F} has {b}, and {G} has {M} as many as {S}. How many {n} do they have together?
{S} [walks|runs|drives] {a} miles on {d1}, {b} miles on {d2} and {M} as far on {d3} as on {d1}. How many miles is that?
{S} [finds|sells|reads|makes|picks] {a} {n} on {d1}. On {d2} it is {b}, and on {d3} {M} as many as on {d1}. How many {n} [is that|are there] in total?
{S} has {a} {n}. {F} has {b}. {G} has {M} as many as {S}. How many [do they have|{n} are there] [together|in all]?
"""),
    ("teams", {"q": (3, 15), "k": (2, 8), "j": (1, 9)}, [("qk", "/", "k"), ("#0", "+", "j")], """
{qk} [children|people|players] are divided into {k} equal [teams|groups]. Then {j} more join each [team|group]. How many [children|people|players] are in each?
{S} puts {qk} {n} into {k} equal {c}. Then {s} adds {j} {n} to each. How many {n} are in each of the {c}?
{k} friends share {qk} {n} equally. Each of them [already has|gets] {j} more. How many {n} does each friend have?
{qk} {n} are shared equally by {k} children. {S}, one of them, finds {j} more. How many {n} does {S} have?
{S} divides {qk} dollars equally among {k} [children|people]. Each gets {j} dollars on top. How much does each get?
A teacher splits {qk} pupils into {k} equal groups. {j} pupils join each group. How many are in a group?
"""),
    ("shareminus", {"q": (4, 20), "k": (2, 8), "j": (1, 3)}, [("qk", "/", "k"), ("#0", "-", "j")], """
{k} friends share {qk} {n} equally. {S}, one of them, [eats|loses|gives away] {j}. How many {n} does {S} have [left|now]?
{qk} {n} are divided into {k} equal {c}. {S} takes {j} out of one of the {c}. How many {n} are left in it?
{S} and some friends, {k} in all, share {qk} {n}. Then {S} loses {j}. How many does {S} have?
{qk} children form {k} equal groups. In each group {j} are ill. How many children are left in a group?
"""),
    ("fewer", {"k": (20, 200), "e": (2, 19)}, [("k", "-", "e"), ("k", "+", "#0")], """
{S} has {k} {n}. {F} has {e} fewer. How many {n} do they have together?
{S} has {k} {n} and {F} has {e} fewer than {S}. How many do the two have[ in total|]?
{S} [sold|found|picked] {k} {n}. {F} [sold|found|picked] {e} fewer. How many is that together?
On {d1} {S} [reads|runs] {k} minutes, on {d2} {e} minutes less. How many minutes is that in total?
{F} has {e} {n} fewer than {S}, who has {k}. How many {n} have they got together?
"""),
    ("more", {"k": (5, 200), "e": (2, 60)}, [("k", "+", "e"), ("k", "+", "#0")], """
{S} has {k} {n}. {F} has {e} more. How many {n} do they have together?
{S} has {k} {n} and {F} has {e} more than {S}. How many do the two have[ in total|]?
{S} [sold|found|picked] {k} {n}. {F} [sold|found|picked] {e} more. How many is that together?
On {d1} {S} [reads|runs] {k} minutes, on {d2} {e} minutes more. How many minutes is that in total?
{F} has {e} {n} more than {S}, who has {k}. How many {n} have they got together?
"""),
    ("three", {"a": (2, 99), "b": (2, 99), "e": (2, 99)}, [("a", "+", "b"), ("#0", "+", "e")], """
{S} has {a} {n}, {F} has {b} and {G} has {e}. How many {n} do they have together?
There are {a} red, {b} blue and {e} green {n}. How many {n} are there[ in total|]?
{S} [finds|sells|makes] {a} {n} on {d1}, {b} on {d2} and {e} on {d3}. How many {n} is that?
A {o1} costs {a} {u}, a {o2} {b} {u} and a {o3} {e} {u}. What do they cost together?
{S} buys a {o1} for {a} {u}, a {o2} for {b} {u} and a {o3} for {e} {u}. How much does {s} pay?
In the first box there are {a} {n}, in the second {b} and in the third {e}. How many {n} are there?
{a} people come by bus, {b} by car and {e} on foot. How many people come?
"""),
    ("half", {"h2": (4, 120), "j": (1, 2)}, [("hh", "/", "2"), ("#0", "-", "j")], """
{S} has {hh} {n}. Half of them are red. {S} gives away {j} red {n}. How many red {n} are left?
A class has {hh} children. Half of them are girls. {j} of the girls are ill. How many girls are there today?
{S} [eats|sells] half of {hh} {n} and then {j} more. How many {n} are left?
There are {hh} {n}. {S} takes half of them and loses {j}. How many {n} does {S} have?
{S} gives half of [his|her] {hh} {n} away and loses {j} more. How many {n} are left?
"""),
    ("boxes", {"k": (2, 12), "j": (2, 9), "b": (2, 15)}, [("k", "+", "j"), ("#0", "*", "b")], """
{S} has {k} {c} and buys {j} more. Each of the {c} holds {b} {n}. How many {n} [is that|does {s} have]?
{k} boys and {j} girls get {b} {n} each. How many {n} is that?
{S} has {k} red and {j} blue {c} with {b} {n} in each. How many {n} are there?
A ticket costs {b} {u}. {k} adults and {j} children go in. How much do they pay?
{S} buys {k} {n} on {d1} and {j} on {d2}. Each costs {b} {u}. How much does {s} pay[ in total|]?
There are {k} cars and {j} vans. Each has {b} people in it. How many people is that?
"""),
    ("rate", {"a": (2, 12), "b": (3, 90), "k": (2, 60)}, [("a", "*", "b"), ("#0", "+", "k")], """
{S} [drives|rides|travels] {b} [kilometres|miles] an hour for {a} hours, and then {k} more. How far is that?
{S} saves {b} dollars a [week|month]. After {a} [weeks|months] {s} gets {k} dollars from {F}. How much does {s} have?
{S} already has {k} {n} and gets {b} a day. How many {n} does {s} have after {a} days?
A plant is {k} centimetres tall and grows {b} centimetres a week. How tall is it after {a} weeks?
{S} has {k} dollars and earns {b} dollars a day. How much does {s} have after {a} days?
A [taxi|bike] costs {k} {u} and {b} {u} for each hour. What do {a} hours cost?
A tank has {k} litres in it. Each minute {b} litres are added. How many litres are there after {a} minutes?
{S} knows {k} words and learns {b} new words a day. How many words does {s} know after {a} days?
"""),
    ("plates", {"a": (2, 12), "b": (2, 12), "m": (2, 6)}, [("a", "*", "b"), ("#0", "*", "m")], """
A [box|crate] holds {a} {c} with {b} {n} each. How many {n} are in {m} [boxes|crates]?
{S} has {m} shelves. On each there are {a} {c} with {b} {n}. How many {n} are there?
{S} [works|reads|trains] {a} hours a day on {b} days a month. How many hours is that in {m} months?
A house has {a} rooms with {b} windows each. How many windows do {m} such houses have?
{m} children have {a} {c} each. In each are {b} {n}. How many {n} is that?
{S} buys {b} {n} a day for {a} days. Each costs {m} {u}. How much does {s} pay?
"""),
]  # fmt: skip
POOLS = {name: Pool(f"scene.{name}", patterns) for name, _, _, patterns in SCENES}
TIMES = {
    2: ["twice", "twice", "two times"],
    3: ["three times", "3 times"],
    4: ["four times", "4 times"],
}


def scene(draw: Draw, wordy: bool) -> Story:
    """One everyday situation."""
    name, ranges, plan, _ = draw.pick(SCENES)
    numbers = {k: draw.num(low, high) for k, (low, high) in ranges.items()}
    if "q" in numbers:
        numbers["qk"] = numbers["q"] * numbers["k"]
    if "h2" in numbers:
        numbers["hh"] = numbers["h2"] * 2
    a, b, c = draw.firsts(3)
    days = draw.some(words.DAYS, 3)
    things = draw.some([n for n in words.COUNTABLE if n[0] not in "aeiou"], 3)
    he = draw.pick(["he", "she"])
    slot: dict[str, object] = {
        "S": a,
        "F": b,
        "G": c,
        "s": he,
        "H": he.capitalize(),
        "d1": days[0],
        "d2": days[1],
        "d3": days[2],
        "n": words.plural(draw.pick(words.COUNTABLE)),
        "c": words.plural(draw.pick(words.CONTAINERS)),
        "c1": draw.pick(words.CONTAINERS),
        "u": draw.pick(["dollars", "euros", "coins", "pounds"]),
        "o1": things[0],
        "o2": things[1],
        "o3": things[2],
    }
    if "m" in numbers and numbers["m"] in TIMES:
        slot["M"] = draw.pick(TIMES[numbers["m"]])
    story = Story(0, wordy=wordy)
    story.question = draw.say(POOLS[name], **slot, **numbers)
    results: list[int] = []

    def value(t: str) -> int:
        return results[int(t[1:])] if t[0] == "#" else int(t) if t.isdigit() else numbers[t]

    for left, op, right in plan:
        results.append(story.step("", value(left), op, value(right), ""))
    return story
