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
        "bakes/baked",
        "grows/grew",
        "builds/built",
        "paints/painted",
        "draws/drew",
        "borrows/borrowed",
        "discovers/discovered",
        "brings home/brought home",
        "digs up/dug up",
        "inherits/inherited",
        "is given/was given",
        "picks up/picked up",
        "produces/produced",
        "prints/printed",
        "purchases/purchased",
        "unpacks/unpacked",
        "gets back/got back",
        "is sent/was sent",
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
        "throws away/threw away",
        "gives up/gave up",
        "misplaces/misplaced",
        "consumes/consumed",
        "destroys/destroyed",
        "gives away/gave away",
        "spills/spilled",
        "tears up/tore up",
        "gets rid of/got rid of",
        "hands in/handed in",
        "uses up/used up",
        "forgets/forgot",
        "swaps/swapped",
        "leaves behind/left behind",
        "takes away/took away",
        "throws out/threw out",
    ]
]
GIVE = [
    pair.split("/")
    for pair in [
        "gives/gave",
        "sends/sent",
        "hands/handed",
        "lends/lent",
        "passes/passed",
        "mails/mailed",
    ]
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
    "an uncle",
    "her aunt",
    "some children",
    "the neighbours",
    "a class",
    "a stranger",
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
 in the morning
 at noon
 after lunch
 before dinner
 in town
 during the week
 with {f}
 on Friday
 at work
 this week
 by chance
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
{v} {k} more of them{t}
{v} {k} {n} more
{v} [exactly|just|only] {k} {n}[ more|]
{v} {k} {n} [quickly|by luck|without help]
{v} an extra {k} {n}
{v} {k} [additional|further] {n}{t}
{v} {k} [good|old|small|large|nice] {n}{t}
{v} {k} {n}, all of them new
{v} {k} [more|extra]{t}
{v} {k} {n} [together with|with the help of] {f}
{v} as many as {k} {n}
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
{v} [exactly|just|only] {k}[ of them|]
{v} {k} [bad|old|small|broken] {n}
{v} {k} of those {n}
{g} {k} {n} away
{v} {k} {n} [by mistake|in a hurry|without wanting to]
{g} {o} {k}
{g} {o} {k} {n}
{v} {k} [of the|of these] {n}{t}
{g} {k} of these to {o}
{v} a total of {k} {n}
{v} {k} of the {n}{t}
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
{v} {a} {c} [containing|holding|filled with] {b} {n} each
{v} {b} {n} on each of {a} days
{v} {a} packs of {b} {n}
{v} {a} more {c} of {b} {n}
{v} {b} {n} {a} times
{v} {a} times {b} {n}
{v} {a} {c}, all with {b} {n} in them
{v} {b} {n} per day for {a} days
{v} {b} {n} in each of {a} shops
{v} {a} {c} and in every one there are {b} {n}
{v} {a} sets of {b}
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
{g} {b} {n} each to {a} [children|friends|neighbours]
{v} {b} {n} in each of {a} [games|weeks]
{v} {a} packs of {b} {n}
{g} {b} of them to each of {a} [children|neighbours|guests]
{v} {b} of them on each of {a} days
{v} {a} {c} of {b}
{v} {b} of them [a|every|each] day for {a} days
{g} {a} [boys|girls|guests] {b} of them each
{v} {a} {c}, each with {b} {n}
{v} {b} {n} {a} times
{v} {b} {n} on each of {a} days
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
{S} {h} [only|exactly] {k} {n}
In the [beginning|morning], {S} {h} {k} {n}
{S} {h} {k} {n} in the [kitchen|cellar|garden|car]
{S} {h} {k} [old|small|red|new] {n}
{S}, [a friend of {f}|a young baker|a farmer], {h} {k} {n}
{S} {h} a collection of {k} {n}
{S} {h} a total of {k} {n}
On [Monday|Friday] {S} {h} {k} {n}
At first, {S} {h} {k} {n}
Once {S} {h} {k} {n}
{S} [also |]{h} {k} {n} [to sell|for sale|in a drawer]
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
How many {n} will {p} have [then|in the end]?
How many {n} has {S} got [now|left]?
What number of {n} does {S} have [now|in the end]?
With how many {n} does {S} end up?
[Calculate|Work out|Find|Tell me] how many {n} {S} has [now|left|in the end].
How many {n} [stay|are still there]?
How many {n} are there [after that|at the end|all in all]?
How many of them [are left|remain|does {S} have now]?
At the end, how many {n} {d} {p} have?
And how many {n} are there now?
Count the {n} that {S} has [now|in the end].
How many {n} {d} {S} have after [all of |]that?
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
    if kind < 0.76 and story.value > 6:
        k, other = draw.num(1, story.value // 3), draw.num(1, story.value // 3)
        story.step("", story.value, "-", k, "Left")
        story.step("", story.value, "-", other, "Left")
        given = "[{g} {k} to {f} and {m} to {o}|{g} {f} {k} and {o} {m}|{g} {k} {n} to {f} and {m} to {o}]"
        return draw.free(given, k=k, m=other, **slot)
    a, b = draw.num(2, 9), draw.num(2, 12)
    before = story.value
    if kind > 0.9 and a * b < before:
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
    story.question = draw.say(END, **slot)
    named = start.startswith(("A ", who))
    if named and story.question.startswith("How many") and draw.chance(0.1):
        first = start[0].lower() + start[1:] if start.startswith("A ") else start
        story.question = story.question[0].lower() + story.question[1:]
        story.said.append(f"If {words.listing([first, *parts])},")
        return story
    story.said.append(_told(draw, start, parts, slot["S"], pronoun))
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
{S} works {a} hours on {d1} and {b} hours on {d2}. An hour is paid with {p} dollars. How much does {s} earn?
For one hour of work {S} gets {p} [dollars|euros]. After {a} hours on {d1} and {b} hours on {d2}, how much money has {s} made?
{S} teaches {a} lessons on {d1} and {b} lessons on {d2}. Each lesson brings {p} dollars. How many dollars is that?
The pay is {p} pounds an hour. {S} [worked|was at work] {a} hours on {d1} and {b} hours on {d2}. What does {s} get?
{S} [sells|paints|bakes] {p} {n} an hour. On {d1} it is {a} hours, on {d2} {b} hours. How many {n} is that [in total|together]?
{S} washes {a} cars on {d1} and {b} cars on {d2} and gets {p} dollars for each. How much money is that?
{S} [mows|cleans] {a} [gardens|lawns] in the morning and {b} in the afternoon. Each one brings {p} dollars. How much does {s} earn?
A [printer|machine] prints {p} pages a minute. It runs {a} minutes and then {b} more minutes. How many pages does it print?
{S} cycles {p} kilometres an hour, {a} hours on {d1} and {b} hours on {d2}. How far is that?
At {p} dollars an hour, what does {S} earn in {a} hours on {d1} and {b} hours on {d2}?
{S} reads {p} pages an hour. {H} reads for {a} hours on {d1} and for {b} hours on {d2}. How many pages does {s} read?
A [pump|tap] gives {p} litres a minute. It is open for {a} minutes and later for {b} minutes. How many litres come out?
{S} earns {p} dollars [an hour|per hour], works {a} hours before lunch and {b} hours after lunch. How much is the pay for the day?
{S} gets {p} dollars for an hour. On {d1} {s} works {a} hours and on {d2} {b}. How much money is that?
{S} earns {p} dollars an hour. [Yesterday|Last week|This morning] {s} worked {a} hours, [today|this week|this evening] {b} hours. How much did {s} earn?
One lesson costs {p} {u}. {S} takes {a} lessons in {m1} and {b} in {m2}. How much does {s} pay?
{S} sells {a} {n} to {F} and {b} to {G}. Each costs {p} {u}. How much does {s} get?
"""),
    ("older", {"k": (3, 60), "e": (2, 20), "t": (2, 20)}, [("k", "+", "e"), ("#0", "+", "t")], """
{S} is {k} years old. {F} is {e} years older. How old will {F} be in {t} years?
{S} is {k}. {S}'s [sister|brother|friend] is {e} years older[ than {S}|]. How old will [she|he|{S}'s friend] be in {t} years?
{S} is {k} years old, and {F} is {e} years older than {S}. What will {F}'s age be in {t} years?
[His|Her] [sister|brother] is {e} years older than {S}, who is {k}. How old will the [sister|brother] be in {t} years?
If {S} is {k} now and {F} is {e} years older, how old is {F} in {t} years?
{F} is {e} years older than {S}. {S} is {k} years old now. How old will {F} be after {t} years?
{S} is {k} years old and has a friend who is {e} years older. What is the friend's age in {t} years?
In {t} years, how old will {F} be, if {F} is {e} years older than {S} and {S} is {k}?
{S} is {k}. {F}, who is {e} years older, has a birthday party in {t} years. How old is {F} then?
{S} was born {e} years after {F}. {S} is {k} now. How old is {F} in {t} years?
Today {S} is {k} and {F} is {e} years older. What age does {F} have in {t} years?
A house is {k} years old. A tower is {e} years older. How old will the tower be in {t} years?
{S}'s [aunt|uncle|teacher] is {e} years older than {S}. {S} is {k}. How old will that person be in {t} years?
"""),
    ("younger", {"k": (20, 80), "e": (2, 18), "t": (2, 20)}, [("k", "-", "e"), ("#0", "+", "t")], """
{S} is {k} years old. {F} is {e} years younger. How old will {F} be in {t} years?
{S} is {k}, and {F} is {e} years younger than {S}. How old is {F} in {t} years?
{F} is {e} years younger than {S}. {S} is {k}. What is {F}'s age in {t} years?
{S} is {k} years old. [His|Her] [sister|brother] is {e} years younger. How old will the [sister|brother] be in {t} years?
{F} is {e} years younger than {S}, who is {k}. How old will {F} be in {t} years?
{S} is {k} years old and has a friend who is {e} years younger. What will the friend's age be in {t} years?
In {t} years, how old is {F}, if {F} is {e} years younger than {S} and {S} is {k} now?
{S} is {k}. {F} was born {e} years later. How old will {F} be in {t} years?
Today {S} is {k} and {F} is {e} years younger. What age does {F} have in {t} years?
A house is {k} years old. A tower is {e} years younger. How old will the tower be in {t} years?
{S}'s [cousin|neighbour] is {e} years younger than {S}. {S} is {k}. How old will that person be in {t} years?
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
{S} has {m} {n}. {F} gets {a} of them and {G} gets {b}. How many {n} are left [for {S}|]?
A [theatre|bus|plane|restaurant] has {m} seats. {a} are taken by [adults|men|boys] and {b} by [children|women|girls]. How many seats are [free|still empty]?
{S} wants to walk {m} miles. On {d1} it is {a} miles, on {d2} {b}. How many miles are left?
A [tank|barrel] has {m} litres in it. {S} takes out {a} litres and {F} takes out {b}. How many litres [remain|are left]?
{S} needs {m} {n}. {H} has {a} and gets {b} [more |]from {F}. How many {n} [are missing|does {s} still need]?
{S} has to read {m} pages. {H} reads {a} [today|on {d1}] and {b} [tomorrow|on {d2}]. How many pages are still to be read?
There are {m} [people|guests|children] at a party. {a} go home at nine and {b} at ten. How many are still there?
{m} {n} are in a {c1}. {a} are red, {b} are blue and the rest are green. How many are green?
Of {m} pupils, {a} walk to school and {b} come by bus. The rest come by bike. How many come by bike?
{S} gets {m} {u} and pays {a} {u} for [food|rent|a {o1}] and {b} {u} for [clothes|a {o2}]. How many {u} [remain|does {s} keep]?
A shop has {m} {n}. It sells {a} to {F} and {b} to {G}. How many {n} does it have left?
A [field|garden] has {m} trees. {a} are cut down in spring and {b} in autumn. How many trees are still there?
{S} has {m} {n}, loses {a} and breaks {b}. How many {n} are still good?
{S} is on a trip of {m} kilometres. {H} drives {a} kilometres before lunch and {b} after lunch. How far is it still?
{S} has {m} {u}. {H} spends {a} on a {o1} and {b} on a {o2}. How much does {s} have left?
{S} makes {m} {n}. {H} sells {a} in the morning and {b} in the afternoon. How many {n} does {s} still have?
There are {m} {n}. {a} are eaten by {S} and {b} by {F}. How many are left?
Out of {m} {n}, {a} go to {F} and {b} to {G}. How many stay with {S}?
{S} has {m} {n}. {a} get lost, {b} are given away. How many does {s} have now?
"""),
    ("onoff", {"m": (10, 90), "a": (2, 9), "b": (2, 40)}, [("m", "-", "a"), ("#0", "+", "b")], """
There are {m} people on a [bus|train|boat]. {a} get off and {b} get on. How many people are on [it|the bus|board] now?
A [bus|train|ship] has {m} passengers. At the [first stop|station] {a} leave and {b} come in. How many passengers are there now?
{m} [people|children] are in a [room|shop|museum|class|club]. {a} [go out|leave|go home] and {b} [new ones |more |][come|come in|join]. How many [people|children] are [in it|there] now?
A class has {m} children. {a} leave and {b} new ones come. How many children are in the class now?
{m} birds sit in a tree. {a} fly away and {b} come. How many birds are in the tree now?
A library has {m} books. {a} are borrowed and {b} are returned. How many books are there now?
{S} has {m} {n}, gives {a} to {F} and gets {b} from {G}. How many {n} does {S} have [now|then]?
There are {m} cars in a [car park|street]. {a} drive away and {b} arrive. How many cars are there [now|then]?
{m} ducks swim on a lake. {a} fly away and {b} land. How many ducks are on the lake?
A [hotel|camp] has {m} guests. {a} [leave|go home] and {b} [arrive|come]. How many guests does it have [now|then]?
{S} has {m} {u}, spends {a} {u} and earns {b} {u}. How many {u} does {s} have?
A shop has {m} {n}, sells {a} and gets {b} new ones. How many {n} are in the shop?
In a [team|choir|band] are {m} people. {a} stop and {b} start. How many people are in it [now|then]?
{m} {n} lie on a table. {S} takes {a} away and puts {b} [new ones |others |]there. How many {n} are on the table?
A tram starts with {m} people. {a} get out and {b} get in. How many people are in the tram?
{S} has {m} {n} and sells {a}. Then {s} makes {b} more. How many {n} does {s} have?
The temperature is {m} degrees. It falls by {a} degrees and rises by {b} degrees. What is the temperature now?
"""),
    ("rows", {"a": (2, 12), "b": (2, 15), "k": (1, 3)}, [("a", "*", "b"), ("#0", "-", "k")], """
There are {a} [tables|rows] with {b} chairs each[ in a room|]. {k} chairs are broken and taken away. How many chairs are left?
A [garden|park|field] has {a} rows of {b} trees. {k} trees fall down. How many trees are left?
{S} has {a} {c} with {b} {n} each. {k} {n} are [bad|broken|rotten]. How many good {n} are there?
{S} buys {a} {c} of {b} {n}. {H} [eats|loses|uses] {k}. How many {n} are left?
{S} bakes {a} trays of {b} {n} and gives {k} to {F}. How many {n} [does {s} have|are left]?
{a} {c} hold {b} {n} each. {S} takes out {k}. How many {n} are left [in the {c}|]?
A school has {a} classes of {b} children. {k} children are ill. How many are [at school|not ill]?
{S} plants {a} rows of {b} flowers. {k} of them [die|do not grow]. How many are left?
{S} has {a} {c} with {b} {n} in each and loses {k} {n}. How many {n} does {s} have [left|]?
A [theatre|cinema] has {a} rows with {b} seats. {k} of the seats are taken. How many seats are free?
{S} buys {a} packs of {b} {n}, but {k} of the {n} are broken. How many good ones are there?
{a} teams of {b} players come. {k} players are ill. How many players can play?
A book has {a} chapters of {b} pages. {S} skips {k} pages. How many pages does {s} read?
{S} works {a} days with {b} hours each, minus {k} hours of [rest|break]. How many hours is that?
A [shop|baker] gets {a} {c}, each with {b} {n}, and sells {k} of the {n}. How many {n} are left?
A chocolate bar has {a} rows of {b} pieces. {S} eats {k} pieces. How many pieces are left?
{S} earns {b} dollars a day for {a} days and spends {k} dollars. How much is left?
There are {a} tables with {b} people at each. {k} people go home. How many people are still there?
"""),
    ("days", {"a": (2, 60), "b": (2, 60), "m": (2, 4)}, [("a", "*", "m"), ("a", "+", "b"), ("#1", "+", "#0")], """
{S} reads {a} pages on {d1}, {b} pages on {d2} and {M} as many on {d3} as on {d1}. How many pages does {s} read[ in total|]?
{S} [sells|makes|finds] {a} {n} on {d1}, {b} on {d2}, and on {d3} {M} as many as on {d1}. How many {n} is that[ in total|]?
On {d1} {a} people come, on {d2} {b}, and on {d3} {M} as many as on {d1}. How many people come in all?
{S} has {a} {n}, {F} has {b}, and {G} has {M} as many as {S}. How many {n} do they have together?
{S} [walks|runs|drives] {a} miles on {d1}, {b} miles on {d2} and {M} as far on {d3} as on {d1}. How many miles is that?
{S} [finds|sells|reads|makes|picks] {a} {n} on {d1}. On {d2} it is {b}, and on {d3} {M} as many as on {d1}. How many {n} [is that|are there] in total?
{S} has {a} {n}. {F} has {b}. {G} has {M} as many as {S}. How many [do they have|{n} are there] [together|in all]?
{S} [picks|bakes|sells] {a} {n} on {d1} and {b} on {d2}. On {d3} it is {M} the number of {d1}. How many {n} is that in all?
{S} spends {a} dollars on {d1}, {b} dollars on {d2} and {M} as much on {d3} as on {d1}. How much does {s} spend?
{F} has {b} {n} and {S} has {a}. {G} has {M} as many as {S}. How many {n} have the three [together|in all]?
In the first [week|hour|month] {S} sells {a} {n}, in the second {b}, and in the third {M} as many as in the first. How many does {s} sell [in total|]?
A red box holds {a} {n}, a blue box {b}, and a green box {M} as many as the red one. How many {n} are in the three boxes?
{S} [works|sleeps|trains] {a} hours on {d1}, {b} hours on {d2}, and {M} as long on {d3} as on {d1}. How many hours [is that|in total]?
{S} runs {a} minutes, {F} runs {b} minutes, and {G} runs {M} as long as {S}. How many minutes is that together?
A cafe sells {a} cups of tea, {b} cups of coffee and {M} as many glasses of water as cups of tea. How many drinks is that?
{a} boys, {b} girls and {M} as many adults as boys come. How many people come?
{S} has {a} {n}, {F} {b}, and {G} has {M} as many as {S}. How many is that [together|in all]?
On {d1} {S} works {a} hours, on {d2} {b}, and on {d3} {M} the hours of {d1}. How many hours does {s} work?
{S} collects {a} {n}, {F} collects {b} {n}, {G} collects {M} what {S} collects. How many {n} is that?
A class has {a} [books|games|balls], {b} [pens|maps|cups] and {M} as many [chairs|papers|bags] as the first. How many things is that?
In {m1} it rains on {a} days, in {m2} on {b} days, and in the rest of the year {M} as often as in {m1}. On how many days does it rain?
"""),
    ("teams", {"q": (3, 15), "k": (2, 8), "j": (1, 9)}, [("qk", "/", "k"), ("#0", "+", "j")], """
{qk} [children|people|players] are divided into {k} equal [teams|groups]. Then {j} more join each [team|group]. How many [children|people|players] are in each?
{S} puts {qk} {n} into {k} equal {c}. Then {s} adds {j} {n} to each. How many {n} are in each of the {c}?
{k} friends share {qk} {n} equally. Each of them [already has|gets] {j} more. How many {n} does each friend have?
{qk} {n} are shared equally by {k} children. {S}, one of them, finds {j} more. How many {n} does {S} have?
{S} divides {qk} dollars equally among {k} [children|people]. Each gets {j} dollars on top. How much does each get?
A teacher splits {qk} pupils into {k} equal groups. {j} pupils join each group. How many are in a group?
{S} shares {qk} {n} equally among {k} [friends|children] and then gives each of them {j} more. How many {n} does each have?
{qk} {n} are put into {k} {c}, the same number in each. Then {j} [more |]are added to each. How many {n} does one of the {c} hold?
{k} teams have {qk} players in all, the same number in each. Every team gets {j} new players. How many players does a team have now?
{qk} pupils sit at {k} tables, the same number at each. {j} pupils join every table. How many pupils are at one table?
{S} pays {qk} {u} in {k} equal parts, and {j} {u} more with each part. How many {u} is one payment?
{k} workers plant {qk} trees, each the same number. {S}, one of them, plants {j} more. How many trees does {S} plant?
{qk} {n} are divided among {k} people. {S} is one of them and already had {j}. How many {n} does {S} have now?
Each of {k} shelves gets the same share of {qk} {n}. {S} puts {j} more on every shelf. How many {n} are on a shelf?
"""),
    ("shareminus", {"q": (4, 20), "k": (2, 8), "j": (1, 3)}, [("qk", "/", "k"), ("#0", "-", "j")], """
{k} friends share {qk} {n} equally. {S}, one of them, [eats|loses|gives away] {j}. How many {n} does {S} have [left|now]?
{qk} {n} are divided into {k} equal {c}. {S} takes {j} out of one of the {c}. How many {n} are left in it?
{S} and some friends, {k} in all, share {qk} {n}. Then {S} loses {j}. How many does {S} have?
{qk} children form {k} equal groups. In each group {j} are ill. How many children are left in a group?
{S} divides {qk} {n} equally among {k} children. Each of them [eats|loses|uses] {j}. How many {n} does each still have?
{qk} {n} are shared by {k} friends. {F} is one of them and gives {j} {n} to {G}. How many {n} does {F} have left?
{k} {c} hold {qk} {n} together, the same number in each. From one of them {S} takes {j}. How many {n} are in it now?
{qk} people are split into {k} equal teams. In each team {j} [do not play|stay at home]. How many play in a team?
{S} cuts a rope of {qk} metres into {k} equal pieces and cuts {j} metres off one piece. How long is that piece?
{S} has {qk} {u} for {k} days, the same for each day. Today {s} already spent {j} {u}. How many {u} are left for today?
{qk} {n} go into {k} equal rows. {S} takes {j} out of the first row. How many {n} are left in it?
{k} children share {qk} {n} equally. Each eats {j} of them. How many does each child have left?
{S} puts {qk} {n} into {k} {c} equally. Then {j} fall out of each. How many are in each now?
{qk} {n} are given to {k} teams in equal parts. Each team loses {j}. How many does a team have?
"""),
    ("fewer", {"k": (20, 200), "e": (2, 19)}, [("k", "-", "e"), ("k", "+", "#0")], """
{S} has {k} {n}. {F} has {e} fewer. How many {n} do they have together?
{S} has {k} {n} and {F} has {e} fewer than {S}. How many do the two have[ in total|]?
{S} [sold|found|picked] {k} {n}. {F} [sold|found|picked] {e} fewer. How many is that together?
On {d1} {S} [reads|runs] {k} minutes, on {d2} {e} minutes less. How many minutes is that in total?
{F} has {e} {n} fewer than {S}, who has {k}. How many {n} have they got together?
{S} has {k} {n}. {F} has {e} less than {S}. How many {n} have the two of them?
{S} [made|bought|caught] {k} {n} and {F} {e} fewer. How many {n} is that [in all|together]?
In one {c1} there are {k} {n}, in another {e} fewer. How many {n} are in both?
On {d1} {k} people come, on {d2} {e} fewer. How many come on the two days?
{S} earns {k} dollars and {F} earns {e} dollars less. How much do they earn together?
A {o1} costs {k} {u}. A {o2} costs {e} {u} less. How much do both cost?
{S} walks {k} miles on {d1} and {e} miles fewer on {d2}. How many miles does {s} walk in all?
There are {k} boys in a school and {e} fewer girls than boys. How many children are there?
{S} scores {k} points and {F} {e} points fewer. How many points do they have [together|in all]?
{F} has {e} fewer {n} than {S}. {S} has {k}. How many {n} are there in total?
{S} [sleeps|works|waits] {k} minutes and {F} [sleeps|works|waits] {e} minutes less than {S}. How many minutes is that in all?
"""),
    ("more", {"k": (5, 200), "e": (2, 60)}, [("k", "+", "e"), ("k", "+", "#0")], """
{S} has {k} {n}. {F} has {e} more. How many {n} do they have together?
{S} has {k} {n} and {F} has {e} more than {S}. How many do the two have[ in total|]?
{S} [sold|found|picked] {k} {n}. {F} [sold|found|picked] {e} more. How many is that together?
On {d1} {S} [reads|runs] {k} minutes, on {d2} {e} minutes more. How many minutes is that in total?
{F} has {e} {n} more than {S}, who has {k}. How many {n} have they got together?
{S} has {k} {n}. {F} has {e} more than {S}. How many {n} have the two of them?
{S} [made|bought|caught] {k} {n} and {F} {e} more. How many {n} is that [in all|together]?
In one {c1} there are {k} {n}, in another {e} more. How many {n} are in both?
On {d1} {k} people come, on {d2} {e} more. How many come on the two days?
{S} earns {k} dollars and {F} earns {e} dollars more. How much do they earn together?
A {o1} costs {k} {u}. A {o2} costs {e} {u} more. How much do both cost?
{S} walks {k} miles on {d1} and {e} miles more on {d2}. How many miles does {s} walk in all?
There are {k} boys in a school and {e} more girls than boys. How many children are there?
{S} scores {k} points and {F} {e} points more. How many points do they have [together|in all]?
{F} has {e} more {n} than {S}. {S} has {k}. How many {n} are there in total?
{S} [sleeps|works|waits] {k} minutes and {F} [sleeps|works|waits] {e} minutes more than {S}. How many minutes is that in all?
"""),
    ("three", {"a": (2, 99), "b": (2, 99), "e": (2, 99)}, [("a", "+", "b"), ("#0", "+", "e")], """
{S} has {a} {n}, {F} has {b} and {G} has {e}. How many {n} do they have together?
There are {a} red, {b} blue and {e} green {n}. How many {n} are there[ in total|]?
{S} [finds|sells|makes] {a} {n} on {d1}, {b} on {d2} and {e} on {d3}. How many {n} is that?
A {o1} costs {a} {u}, a {o2} {b} {u} and a {o3} {e} {u}. What do they cost together?
{S} buys a {o1} for {a} {u}, a {o2} for {b} {u} and a {o3} for {e} {u}. How much does {s} pay?
In the first box there are {a} {n}, in the second {b} and in the third {e}. How many {n} are there?
{a} people come by bus, {b} by car and {e} on foot. How many people come?
{S} has {a} {n}. {F} has {b} {n}. {G} has {e} {n}. How many {n} are there [in all|together]?
{S} buys {a} {n} on {d1}, {b} on {d2} and {e} on {d3}. How many {n} does {s} buy in total?
A farm has {a} [cows|pigs|goats], {b} [sheep|ducks|hens] and {e} [horses|dogs|geese]. How many animals does it have?
{S} walks {a} miles, then {b} miles, then {e} miles. How [far|many miles] is that?
{S} pays {a} {u} for food, {b} {u} for clothes and {e} {u} for books. How much does {s} pay [in all|]?
A train has {a} people in the first car, {b} in the second and {e} in the third. How many people are in the train?
{S}, {F} and {G} collect {n}. {S} has {a}, {F} {b} and {G} {e}. How many {n} is that together?
In a school {a} children learn French, {b} learn Spanish and {e} learn German. How many is that?
{S} scores {a} points in the first game, {b} in the second and {e} in the third. What is the sum?
There are {a} {n} on the table, {b} under it and {e} in a {c1}. How many {n} are there?
"""),
    ("half", {"h2": (4, 120), "j": (1, 2)}, [("hh", "/", "2"), ("#0", "-", "j")], """
{S} has {hh} {n}. Half of them are red. {S} gives away {j} red {n}. How many red {n} are left?
A class has {hh} children. Half of them are girls. {j} of the girls are ill. How many girls are there today?
{S} [eats|sells] half of {hh} {n} and then {j} more. How many {n} are left?
There are {hh} {n}. {S} takes half of them and loses {j}. How many {n} does {S} have?
{S} gives half of [his|her] {hh} {n} away and loses {j} more. How many {n} are left?
{S} has {hh} {n} and gives half of them to {F}. Then {s} loses {j}. How many {n} does {s} have left?
A {c1} holds {hh} {n}. Half of the {n} are taken out, and then {j} more. How many are still in it?
Half of the {hh} {n} of {S} are blue. {S} sells {j} of the blue {n}. How many blue {n} are left?
{S} has {hh} {u}. {H} spends half of the money and then {j} {u}. How many {u} are left?
Half of {hh} people go home. Then {j} more go. How many are still there?
{S} reads half of a book of {hh} pages, but skips {j} pages of it. How many pages does {s} read?
{hh} {n} are for {S} and {F}, half for each. {S} eats {j}. How many {n} does {S} have left?
A bus has {hh} people. Half of them get off, and then {j} more. How many are still on the bus?
{S} cuts a rope of {hh} metres in half and cuts {j} metres off one half. How long is that half?
{S} has {hh} {n}. Half are eaten, and {j} more are lost. How many are left?
Half of {hh} children go home, and {j} others leave later. How many children stay?
{S} sells half of [his|her] {hh} {n}. Then {F} takes {j}. How many remain?
"""),
    ("boxes", {"k": (2, 12), "j": (2, 9), "b": (2, 15)}, [("k", "+", "j"), ("#0", "*", "b")], """
{S} has {k} {c} and buys {j} more. Each of the {c} holds {b} {n}. How many {n} [is that|does {s} have]?
{k} boys and {j} girls get {b} {n} each. How many {n} is that?
{S} has {k} red and {j} blue {c} with {b} {n} in each. How many {n} are there?
A ticket costs {b} {u}. {k} adults and {j} children go in. How much do they pay?
{S} buys {k} {n} on {d1} and {j} on {d2}. Each costs {b} {u}. How much does {s} pay[ in total|]?
There are {k} cars and {j} vans. Each has {b} people in it. How many people is that?
{S} buys {k} red {c} and {j} blue {c}. In each there are {b} {n}. How many {n} does {s} have?
{k} men and {j} women each [carry|bring|get] {b} {n}. How many {n} is that in all?
{S} works {k} hours in the morning and {j} hours in the afternoon and makes {b} {n} an hour. How many {n} does {s} make?
{S} has {k} {n}, and {F} has {j} {n}. They sell all of them for {b} {u} each. How much do they get?
A class has {k} girls and {j} boys. Every child gets {b} {n}. How many {n} are needed?
There are {k} {c} upstairs and {j} downstairs, each with {b} {n}. How many {n} are there [in all|]?
{S} buys {k} tickets and {F} buys {j}. One ticket costs {b} {u}. How much do they pay together?
{S} bakes {k} cakes and {F} bakes {j}. Each cake needs {b} eggs. How many eggs do they need?
{k} white and {j} black {c} stand in a room. Each holds {b} {n}. How many {n} is that?
{S} has {k} bags and gets {j} more from {F}. There are {b} {n} in every bag. How many {n} does {s} have now?
{S} runs {k} rounds on {d1} and {j} rounds on {d2}. A round is {b} metres long. How many metres is that?
{S} has {k} {c} and {F} has {j}. There are {b} {n} in each. How many {n} do they have?
{k} cats and {j} dogs each eat {b} {n}. How many {n} do they eat?
There are {k} small and {j} large {c}, all with {b} {n}. How many {n} are there?
{S} invites {k} friends and {F} invites {j}. Every friend gets {b} {n}. How many {n} do they need?
In {k} rooms downstairs and {j} rooms upstairs there are {b} {n} each. How many {n} are there?
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
{S} has {k} {u} and saves {b} {u} a week. How many {u} does {s} have after {a} weeks?
{S} has read {k} pages and reads {b} pages a day from now on. How many pages has {s} read after {a} days?
A tree is {k} centimetres high. Every year it grows {b} centimetres. How high is it after {a} years?
There are {k} {n} in a {c1}. {S} adds {b} {n} a day for {a} days. How many {n} are in it [now|then]?
{S} pays {k} {u} at the start and {b} {u} a month. How much is that after {a} months?
A machine has made {k} {n} and makes {b} more an hour. How many are there after {a} hours?
Renting a [boat|car|room] costs {k} {u}, plus {b} {u} for each day. How much are {a} days?
A phone costs {k} {u} and then {b} {u} a month. What does {S} pay in {a} months?
{S} gives a party. The room costs {k} {u}, and each of {a} guests costs {b} {u}. How much does the party cost?
A club has {k} members. Each month {b} new members come. How many members does it have after {a} months?
{S} is {k} kilometres from home and goes {b} kilometres further every day. How far from home is {s} after {a} days?
{S} has {k} {n}. [Every|Each] [day|week|month] {s} gets {b} more. How many does {s} have after {a} of them?
There are {k} people at a party. Then {a} groups of {b} people come. How many people are there?
{S} has {k} {n} and makes {b} a day for {a} days. How many {n} are there then?
A train has run {k} miles. It goes on for {a} hours at {b} miles an hour. How many miles is that in all?
A {o1} costs {k} {u} now and {b} {u} more every year. What does it cost after {a} years?
"""),
    ("plates", {"a": (2, 12), "b": (2, 12), "m": (2, 6)}, [("a", "*", "b"), ("#0", "*", "m")], """
A [box|crate] holds {a} {c} with {b} {n} each. How many {n} are in {m} [boxes|crates]?
{S} has {m} shelves. On each there are {a} {c} with {b} {n}. How many {n} are there?
{S} [works|reads|trains] {a} hours a day on {b} days a month. How many hours is that in {m} months?
A house has {a} rooms with {b} windows each. How many windows do {m} such houses have?
{m} children have {a} {c} each. In each are {b} {n}. How many {n} is that?
{S} buys {b} {n} a day for {a} days. Each costs {m} {u}. How much does {s} pay?
{S} drinks {a} glasses of water a day. How many glasses is that in {m} weeks of {b} days?
A [shop|school] has {m} floors with {a} rooms each, and every room has {b} {n}. How many {n} are there?
{S} has {m} {c}. Each holds {a} bags with {b} {n}. How many {n} does {s} have?
{a} people work {b} hours a day for {m} days. How many hours is that together?
{S} fills {a} {c} with {b} {n} each every day. How many {n} is that in {m} days?
{S} buys {a} {c} of {b} {n}. Each of the {n} costs {m} {u}. How much does {s} pay?
A train has {a} cars with {b} seats each. How many seats do {m} such trains have?
{m} teams play {a} games each and score {b} points in every game. How many points is that?
A book has {a} chapters with {b} pages. {S} reads it {m} times. How many pages is that?
{m} farmers have {a} fields each, with {b} trees on every field. How many trees is that?
{S} has {a} {c}. In each there are {b} bags with {m} {n}. How many {n} is that?
There are {m} houses with {a} floors. Each floor has {b} windows. How many windows are there?
{S} does {a} rounds of {b} exercises on each of {m} days. How many exercises is that?
A farm has {a} rows of {b} trees. Every tree has {m} {n}. How many {n} are there?
{a} tables have {b} plates each, and on every plate are {m} {n}. How many {n} are there?
"""),
    ("restshared", {"q": (3, 15), "k": (2, 8), "a": (2, 40)}, [("qa", "-", "a"), ("#0", "/", "k")], """
{S} has {qa} {n}, gives {a} to {F} and shares the rest equally among {k} [children|friends]. How many does each of them get?
{S} has {qa} {u}. After paying {a} {u}, {s} splits what is left into {k} equal parts. How many {u} is one part?
From {qa} {n}, {a} are bad. The good ones are put into {k} {c}, the same number in each. How many {n} are in one of the {c}?
A baker makes {qa} {n} and eats {a}. The others are sold in {k} equal bags. How many {n} are in a bag?
{qa} children are in a school. {a} are ill, the others form {k} equal groups. How many children are in a group?
{S} must read {qa} pages. {H} has read {a} and reads the rest in {k} days, the same number every day. How many pages is that a day?
{S} takes {a} out of {qa} {n} and divides the others [equally|evenly] among {k} people. How many does each one get?
A rope is {qa} metres long. {S} cuts off {a} metres and cuts the rest into {k} equal pieces. How long is a piece?
{qa} people want to travel. {a} go by car, the others in {k} full buses, the same number in each. How many go in one bus?
{S} keeps {a} of {qa} {n}. The rest go to {k} friends in equal parts. How many does a friend get?
{S} has {qa} {n}. {a} are broken. {H} divides the rest among {k} people. How many does each get?
{S} takes {a} of the {qa} {n} home. The other {n} are shared equally by {k} friends. How many does each friend get?
Of {qa} {u}, {a} {u} go to {S}. {k} others share what is left equally. How many {u} does each of them get?
"""),
    ("putshared", {"q": (7, 20), "k": (3, 8), "a": (2, 12)}, [("qs", "+", "a"), ("#0", "/", "k")], """
{S} has {qs} {n} and {F} has {a}. They put them together and share them equally among {k} children. How many does each child get?
{S} has {qs} {n} and gets {a} more. Then {s} puts them into {k} {c}, the same number in each. How many {n} are in one of the {c}?
{qs} boys and {a} girls form {k} equal teams. How many children are in a team?
{S} earns {qs} {u} on {d1} and {a} {u} on {d2} and divides the money equally among {k} people. How much does each get?
There are {qs} red and {a} blue {n}. {S} shares all of them equally with friends, so that {k} people get the same. How many does one get?
{S} buys {qs} {n}, {F} buys {a}. They lay them out in {k} equal rows. How many {n} are in a row?
{S} picks {qs} {n} in the morning and {a} in the evening and puts them into {k} equal {c}. How many are in each?
A class of {qs} and a class of {a} children go on a trip in {k} buses, the same number in each. How many children are in a bus?
"""),
    ("difference", {"a": (2, 80), "b": (81, 300)}, [("b", "-", "a")], """
{S} has {a} {n} and {F} has {b}. How many more {n} does {F} have than {S}?
{S} has {b} {n}, {F} has {a}. How many fewer does {F} have?
How many more is {b} {n} than {a} {n}?
{S} has {a} {u} and wants to buy a {o1} for {b} {u}. How many {u} are missing?
{S} [sells|makes|finds] {b} {n} on {d1} and {a} on {d2}. How many more is that on {d1} than on {d2}?
A {o1} costs {b} {u}, a {o2} costs {a} {u}. How much cheaper is the {o2}?
{S} needs {b} {n} and has {a}. How many {n} does {s} still need?
{S} read {a} of {b} pages. How many pages are left?
One {c1} holds {a} {n}, another holds {b}. What is the difference?
{S} is {b} centimetres tall, {F} is {a} centimetres smaller than that. How tall is {F}?
{b} people come to a party, {a} of them are children. How many adults are there?
{S} had {b} {n}. Now {s} has {a}. How many did {s} lose?
{S} has {b} {n} and {F} has {a}. How many more does {S} have?
How many fewer is {a} than {b}?
{S} wants {b} {n}. {H} has {a}. How many more does {s} need?
There are {b} children in a class. {a} are boys. How many are girls?
A {o1} cost {b} {u} last year and costs {a} {u} now. How much cheaper is it?
"""),
    ("product", {"a": (2, 15), "b": (2, 40)}, [("a", "*", "b")], """
{S} reads {b} pages a day. How many pages does {s} read in {a} days?
One {o1} costs {b} {u}. How much do {a} of them cost?
A {c1} holds {b} {n}. How many {n} are in {a} such {c}?
{S} drinks {b} glasses of water a day. How many glasses is that in {a} days?
There are {a} rows with {b} chairs each. How many chairs are there?
{S} earns {b} dollars an hour. How much does {s} earn in {a} hours?
If one ticket costs {b} {u}, what do {a} tickets cost?
{a} children get {b} {n} each. How many {n} is that?
A bus makes {a} trips with {b} people on each. How many people does it carry?
{S} saves {b} {u} every week. How much has {s} saved after {a} weeks?
How many {n} are in {a} {c} with {b} {n} each?
What do {a} {n} cost, if each of them costs {b} {u}?
A car drives {b} miles an hour. How far does it go in {a} hours?
{S} walks {b} minutes to school every day. How many minutes is that in {a} days?
Each of {a} friends brings {b} {n}. How many {n} do they bring?
A week has {b} lessons. How many lessons do {a} weeks have?
{S} learns {b} new words every day for {a} days. How many words is that?
A hen lays {b} eggs a month. How many eggs is that in {a} months?
For every game {S} gets {b} points. {H} plays {a} games. How many points does {s} get?
"""),
    ("asmany", {"k": (2, 60), "m": (2, 6)}, [("k", "*", "m")], """
{S} is {k} years old. {F} is {m} times as old. How old is {F}?
{S} has {k} {n}. {F} has {m} times as many. How many {n} does {F} have?
{F} has {m} times as many {n} as {S}. {S} has {k}. How many does {F} have?
A {o1} costs {k} {u}. A {o2} costs {m} times as much. What is the price of the {o2}?
{S} runs {k} miles. {F} runs {m} times as far. How far does {F} run?
There are {k} red {n} and {m} times as many blue ones. How many blue {n} are there?
{S} is {k}, and [his|her] [father|mother] is {m} times as old. How old is [the father|the mother|that person]?
{S} works {k} minutes and {F} {m} times as long. How long does {F} work?
In one {c1} there are {k} {n}, in another {m} times as many. How many are in the other one?
{S} sold {k} {n} on {d1} and {m} times as many on {d2}. How many did {s} sell on {d2}?
"""),
    ("ticketsand", {"a": (2, 12), "p": (2, 40), "k": (2, 60)}, [("a", "*", "p"), ("#0", "+", "k")], """
{S} buys {a} {n} at {p} {u} each and a {o1} for {k} {u}. How much does {s} [pay|spend]?
A ticket costs {p} {u}. {S} buys {a} tickets and a {o1} for {k} {u}. How much does {s} pay?
{S} pays {p} {u} for each of {a} {n} and {k} {u} for a {o1}. What is the total?
{S} buys a {o1} for {k} {u} and {a} {n} for {p} {u} each. How much is that?
{a} {n} cost {p} {u} each, and a {o1} costs {k} {u}. What do they cost together?
A meal costs {p} {u}. {a} people eat, and they also pay {k} {u} for drinks. How much do they pay?
{S} orders {a} {n} ({p} {u} each) and one {o1} ({k} {u}). What must {s} pay?
{S} takes {a} lessons for {p} {u} each and buys a book for {k} {u}. How many {u} is that [together|in total]?
{S} sends {a} parcels for {p} {u} each and a letter for {k} {u}. How much does {s} pay?
A {o1} is {k} {u}. One of the {n} is {p} {u}. {S} wants the {o1} and {a} {n}. How much money does {s} need?
"""),
    ("tworates", {"a": (2, 12), "p": (2, 60), "b": (2, 12), "q1": (2, 60)}, [("a", "*", "p"), ("b", "*", "q1"), ("#0", "+", "#1")], """
A [car|train|bus] drives {p} [miles|kilometres] an hour for {a} hours and then {q1} an hour for {b} hours. How far does it go?
{S} works {a} hours for {p} dollars an hour and {b} hours for {q1} dollars an hour. How much does {s} earn?
{S} has {a} {c} with {p} {n} each and {b} {c} with {q1} {n} each. How many {n} does {s} have?
There are {a} rows of {p} seats and {b} rows of {q1} seats. How many seats are there?
{S} reads {p} pages a day for {a} days and {q1} pages a day for {b} days. How many pages is that?
{a} adults pay {p} {u} each and {b} children pay {q1} {u} each. How much do they pay together?
On {d1} {S} sells {a} {c} of {p} {n}, on {d2} {b} {c} of {q1}. How many {n} does {s} sell?
{S} plants {a} rows of {p} roses and {b} rows of {q1} tulips. How many flowers is that?
{S} trains {p} minutes on each of {a} days, and {q1} minutes on each of {b} other days. How many minutes is that?
{a} small {c} hold {p} {n} each, {b} large ones hold {q1} each. How many {n} are in all of them?
{S} gives {p} {n} to each of {a} boys and {q1} to each of {b} girls. How many {n} does {s} give away?
"""),
    ("threeless", {"a": (4, 60), "b": (4, 60), "e": (4, 60), "j": (1, 9)}, [("a", "+", "b"), ("#0", "+", "e"), ("#1", "-", "j")], """
{S} has {a} red, {b} blue and {e} green {n}. {j} of them break. How many {n} does {s} have left?
{S} picks {a} {n} on {d1}, {b} on {d2} and {e} on {d3}. {H} eats {j} of them. How many are left?
{S} has {a} {n}, gets {b} from {F} and {e} from {G}, and loses {j}. How many {n} does {s} have?
A farm has {a} cows, {b} pigs and {e} sheep. {j} animals are sold. How many animals are left?
In three boxes there are {a}, {b} and {e} {n}. {S} takes out {j}. How many {n} are still in the boxes?
{a} men, {b} women and {e} children are on a ship. {j} of them get off. How many people are on the ship?
{S} finds {a} {n}, then {b}, then {e}, and gives {j} to {F}. How many does {s} keep?
There are {a} cups, {b} plates and {e} bowls on a table. {j} of these things fall down. How many are still on it?
"""),
    ("quarter", {"h4": (2, 60)}, [("hq", "/", "4"), ("hq", "-", "#0")], """
{S} has {hq} {n} and [eats|sells|uses|loses] a quarter of them. How many are left?
A quarter of the {hq} {n} are bad. How many good {n} are there?
{S} picks {hq} {n}. A quarter of them go to {F}. How many does {S} keep?
A class has {hq} children. A quarter of them are ill. How many are at school?
There are {hq} pages in a book. {S} has read a quarter of it. How many pages are left?
{S} gives a quarter of {hq} {n} to {F}. How many {n} does {s} have now?
Of {hq} {u}, {S} spends a quarter. How many {u} remain?
One quarter of {hq} people go home. How many stay?
"""),
    ("weeks", {"q": (2, 15), "k": (5, 80), "b": (2, 20)}, [("goal", "-", "k"), ("#0", "/", "b")], """
{S} wants to buy a {o1} for {goal} {u}. {H} has {k} {u} and saves {b} {u} a week. How many weeks does {s} need?
A {o1} costs {goal} {u}. {S} has {k} {u} and gets {b} {u} a day. After how many days can {s} buy it?
{S} has to read {goal} pages. {H} has read {k} and reads {b} a day. How many days does it take?
{S} has {k} {n} and wants {goal}. Every day {s} gets {b}. How many days does {s} need?
A tank holds {goal} litres. There are {k} litres in it, and {b} litres are added every minute. After how many minutes is it full?
{S} needs {goal} {n}, has {k}, and makes {b} an hour. How many hours must {s} work?
A road of {goal} miles is being built. {k} miles are ready, and {b} miles are built a month. How many months will it take?
{S} collects {n}. {H} has {k} of {goal}. With {b} more each week, in how many weeks does {s} have all?
"""),
    ("eatstwice", {"m": (40, 200), "a": (2, 12)}, [("a", "*", "2"), ("m", "-", "a"), ("#1", "-", "#0")], """
There are {m} {n} in a {c1}. {S} [takes|eats|uses] {a} and {F} twice as many. How many {n} are left?
{S} has {m} {n}. {H} gives {a} to {F} and twice as many to {G}. How many are left?
From {m} {n}, {S} sells {a} on {d1} and twice as many on {d2}. How many {n} remain?
A shop has {m} {n}. {S} buys {a}, {F} buys two times as many. How many {n} does the shop still have?
{S} has {m} {u}. A {o1} costs {a} {u} and a {o2} twice as much. How many {u} are left after buying both?
A book has {m} pages. {S} reads {a} pages on {d1} and twice as many on {d2}. How many pages are left?
"""),
    ("bagsless", {"a": (2, 12), "b": (3, 30), "r": (1, 99)}, [("a", "*", "b"), ("#0", "-", "x")], """
{S} buys {a} {c} with {b} {n} each. {x} {n} are used. How many are left?
A school buys {a} boxes of chalk with {b} pieces each. After a month {x} pieces are used up. How many pieces are left?
{a} cakes are cut into {b} pieces each. {x} pieces are eaten. How many pieces remain?
There are {a} rows with {b} chairs in each. {x} people sit down. How many chairs are free?
{S} bakes {a} trays of {b} {n} and sells {x}. How many {n} does {s} have left?
{S} has {a} {c} of {b} {n} and gives {x} {n} to {F}. How many {n} does {S} keep?
A pizza has {b} slices. {S} orders {a} pizzas, and {x} slices are eaten. How many slices are left?
{S} works {a} days and earns {b} dollars a day. Then {s} spends {x} dollars on a {o1}. How much money is left?
{S} saves {b} {u} a week. After {a} weeks {s} buys a {o1} for {x} {u}. How much does {s} have left?
In a hotel there are {a} floors with {b} rooms. {x} rooms are taken. How many rooms are free?
Each of {a} {c} holds {b} {n}. {x} of the {n} are sold. How many {n} are still there?
{a} buses with {b} seats each wait. {x} people get in. How many seats stay empty?
{S} makes {a} bags of {b} {n}. {F} takes {x} {n}. How many {n} remain?
A farmer has {a} fields with {b} trees. A storm takes {x} trees. How many trees does the farmer have now?
"""),
    ("bagsgive", {"a": (4, 12), "b": (5, 20), "c0": (2, 4), "d0": (2, 4)}, [("a", "*", "b"), ("c0", "*", "d0"), ("#0", "-", "#1")], """
{S} has {a} {c} of {b} {n} and gives {d0} {n} to each of {c0} [friends|neighbours|children]. How many {n} does {s} have left?
{S} buys {a} {c} with {b} {n} each. {c0} guests take {d0} {n} each. How many {n} are left?
There are {a} shelves with {b} books. {c0} people borrow {d0} books each. How many books are still there?
{S} bakes {a} trays of {b} {n} and sells {c0} bags with {d0} {n}. How many {n} remain?
{S} earns {b} dollars an hour for {a} hours and buys {c0} {n} for {d0} dollars each. How much is left?
A hall has {a} rows of {b} seats. {c0} groups of {d0} people sit down. How many seats are free?
{S} picks {b} {n} a day for {a} days and eats {d0} a day for {c0} days. How many are left?
{S} gets {a} packs of {b} {n}. {H} uses {d0} {n} for each of {c0} cakes. How many {n} does {s} still have?
"""),
    ("twice", {"k": (3, 90), "e": (2, 60)}, [("k", "*", "2"), ("#0", "+", "e")], """
{S} has {k} {n}. {F} has twice as many and {e} more. How many {n} does {F} have?
{S} doubles the {k} {n} in a {c1} and adds {e}. How many {n} are in it?
{S} drives {k} miles to work and {k} miles back, and then {e} miles to a shop. How many miles is that?
There are {k} {n}. The number is doubled, and {S} adds {e} more. How many are there now?
A {o1} costs {k} {u}. A {o2} costs {e} {u} more than twice as much. What does the {o2} cost?
{S} sells {k} {n} on {d1} and {k} on {d2}, and {e} on {d3}. How many {n} does {s} sell?
{F} is {e} years older than twice the age of {S}. {S} is {k}. How old is {F}?
{S} buys two {o1}s for {k} {u} each and a {o2} for {e} {u}. How much does {s} pay?
Two {c} hold {k} {n} each, and {e} {n} lie on the floor. How many {n} are there?
{S} and {F} have {k} {n} each. {G} has {e}. How many {n} do the three have together?
{S} has {k} {n} and {F} has the same number. {G} has {e}. How many {n} are there?
{S} earns {k} {u} in {m1} and twice as much in {m2}. A {o1} brings {e} {u} more in {m2}. How much does {s} get in {m2}?
{S} swims {k} metres there and {k} metres back, then {e} metres more. How far does {s} swim?
{S} eats {k} {n} on {d1} and {k} on {d2}. {F} eats {e}. How many is that in all?
Twice {k} plus {e}: how much is that?
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
        whole = numbers["qk"] = numbers["q"] * numbers["k"]
        numbers |= {"qa": whole + numbers.get("a", 0), "qs": whole - numbers.get("a", 0)}
    if "r" in numbers:
        most = numbers["a"] * numbers["b"] - 1
        numbers["x"] = 1 + (most - 1) * numbers["r"] // 100
    if "h4" in numbers:
        numbers["hq"] = numbers["h4"] * 4
    if "q" in numbers and "b" in numbers:
        numbers["goal"] = numbers["k"] + numbers["q"] * numbers["b"]
    if "h2" in numbers:
        numbers["hh"] = numbers["h2"] * 2
    a, b, c = draw.firsts(3)
    if draw.chance(0.04):
        a = f"{draw.pick(['Mr.', 'Mrs.', 'Dr.', 'Aunt', 'Uncle'])} {a}"
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
        "m1": draw.pick(words.MONTHS[:6]),
        "m2": draw.pick(words.MONTHS[6:]),
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
