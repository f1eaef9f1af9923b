"""Multi-step arithmetic word problems with written-out reasoning and a last line `Answer: N`, and plain sums."""

from __future__ import annotations

from dataclasses import dataclass, field

from skills import words
from skills.core import Check, Draw, Example, Pool, system

ASK_STEPS = Pool("arith.steps", """
Think step by step.
Show your work.
[Write out|Explain] [your reasoning|the steps|each step].
Let's think step by step.
Solve it step by step.
[Work it out|Calculate] step by step.
Show [all|the] steps.
Reason step by step[| and give the answer].
Write [down|out] every step[|, then the answer].
Think carefully.
""")
ASK_END = Pool("arith.end", """
End with a line "Answer: N".
[Finish|End] with "Answer:" and the number.
[Put|Write] the [result|final answer] [on|in] the last line as "Answer: N".
The last line [must|should] be "Answer: N".
Give the [result|final answer] as "Answer: N".
Then write "Answer: " and the [number|result].
[Finish|End] with a line like "Answer: 12".
""")
LEAD = Pool("arith.lead", """
Solve this problem.\\n
Solve:\\n
[Here is a|A] [word problem|problem|math problem|puzzle]:\\n
Question: 
Problem:\\n
[Please solve|Can you solve] this: 
Q: 
Work out the answer.\\n
Help me with this [problem|question]:\\n
Answer this math question.\\n
""")


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
        result = {"+": left + right, "-": left - right, "*": left * right, "/": left // max(right, 1)}[op]
        if said:
            self.said.append(said)
        text = f"{left} {op} {right} = {result}"
        self.lines.append(f"{why}: {text}" if self.wordy and why else text)
        self.value = result
        return result


GAIN = Pool("arith.gain", """
{S} [buys|gets|finds] {k} more {n}.
Then {s} [finds|receives|gets] {k} more.
[A friend|{f}] gives {s} {k} more {n}.
{S} [picks up|collects|earns] {k} {n} [on Monday|today|later|in the afternoon].
[Later|After that], {s} [buys|wins|gets] another {k}.
{f} gives {S} {k} {n}.
Then {k} more {n} are added.
{S}'s [mother|father|teacher|aunt] [brings|gives {s}] {k} {n} [more|on top].
In the shop {s} [buys|gets] {k} extra {n}.
{S} then [makes|adds] {k} [more|new] {n}.
""")
LOSE = Pool("arith.lose", """
{S} gives {k} [of them |{n} |]to {f}.
Then {s} [loses|breaks|drops] {k} {n}.
{S} [sells|uses|uses up] {k} of them.
[Later|After that], {s} gives away {k} {n}.
Then {k} of them [get lost|are lost|are used].
{f} [takes|borrows] {k} {n} [from {S}|].
{S} [throws away|hands out] {k} {n}.
On the way home {s} loses {k}.
{k} of the {n} are [broken|given away|spoiled] [and thrown away|].
{S} puts {k} {n} aside for {f} and gives them away.
""")
BAGS = Pool("arith.bags", """
{S} [buys|gets] {a} {c} with {b} {n} each.
Then {s} [buys|brings|gets] {a} {c} of {b} {n} each.
{f} brings {a} {c}, each with {b} {n}.
{S} adds {a} {c} that hold {b} {n} each.
There are also {a} {c} with {b} {n} in each.
[Later|After that], {s} gets {a} more {c}, each holding {b} {n}.
{a} friends each give {S} {b} {n}.
Each of {a} friends brings {b} {n} for {S}.
Every day for {a} days {s} [gets|collects|makes] {b} {n}.
In {a} {c} there are {b} more {n} each.
""")
LOSE_BAGS = Pool("arith.losebags", """
{S} gives {b} {n} to each of {a} friends.
Then {s} [uses|needs|sells] {b} {n} a day for {a} days.
{a} children each take {b} {n}.
{S} fills {a} {c} with {b} {n} each and gives them away.
Each of {a} guests gets {b} {n}.
{S} sells {a} {c} with {b} {n} each.
For {a} days {s} gives away {b} {n} every day.
""")
SHARE = Pool("arith.share", """
{S} shares them [equally|fairly] among {k} friends. How many {n} does each friend get?
The {n} are put into {k} equal {c}. How many {n} are in each of the {c}?
{S} packs them into {c} of {k} {n} each. How many {c} does {s} fill?
{k} children share them [equally|fairly]. How many {n} does each child get?
{S} divides them equally between {k} shelves. How many {n} are on each shelf?
They are split [evenly|equally] into {k} groups. How many {n} are in a group?
{S} eats or uses {k} a day. How many days do they last?
""")
TIMES = Pool("arith.times", """
Then the number of {n} is [multiplied by {k}|made {k} times as large].
{f} has {k} times as many {n} as {S}. [We now look at {f}.|]
Now {S} gets {k} times as many {n} as before in total.
{S}'s sister {f} has {k} times as many {n}.
The next day {s} has {k} times that many {n}.
""")
START = Pool("arith.start", """
{S} has {k} {n}.
{S} starts with {k} {n}.
At first {S} has {k} {n}.
{S} owns {k} {n}.
There are {k} {n} in {S}'s [bag|box|house|garden|room|shop].
In the morning {S} has {k} {n}.
{S} [buys|collects|picks|counts] {k} {n}.
{S} has a {o} with {k} {n} in it.
A {o} of {S} holds {k} {n}.
{S} [got|found] {k} {n} [yesterday|last week].
""")
HOW_MANY = Pool("arith.howmany", """
How many {n} does {S} have [now|in the end|left|at the end|in total|]?
How many {n} are there [now|in the end|in total]?
What is the number of {n} [now|in the end]?
How many {n} [are left|remain]?
[In the end|Now], how many {n} does {S} have?
So how many {n} are there?
[Find|Calculate|Give] the number of {n} {S} has [now|in the end].
How many {n} does {S} [end up with|own in the end]?
""")


def _plus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    k = draw.num(2, 99) if draw.chance(0.6) else draw.num(10, 350)
    story.step(draw.say(GAIN, k=k, **slot), story.value, "+", k, draw.pick(["More", "After that", "Add"]))


def _minus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    k = draw.num(1, max(1, story.value - 1)) if story.value < 60 or draw.chance(0.5) else draw.num(2, 60)
    story.step(draw.say(LOSE, k=k, **slot), story.value, "-", k, draw.pick(["Left", "After that", "Take away"]))


def _bags(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    a, b = (draw.num(2, 12), draw.num(2, 12)) if draw.chance(0.55) else (draw.num(3, 19), draw.num(11, 39))
    before = story.value
    new = story.step(draw.say(BAGS, a=a, b=b, **slot), a, "*", b, draw.pick(["New", f"{a} times {b}", "The new ones"]))
    story.step("", before, "+", new, draw.pick(["Together", "Sum", "In total"]))


def _lose_bags(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    a = draw.num(2, 9)
    most = (story.value - 1) // a
    if most < 2:
        return _plus(draw, story, slot)
    b = draw.num(2, min(most, 40))
    before = story.value
    gone = story.step(draw.say(LOSE_BAGS, a=a, b=b, **slot), a, "*", b, draw.pick(["Gone", f"{a} times {b}", "Used"]))
    story.step("", before, "-", gone, draw.pick(["Left", "Rest"]))
    return None


def _times(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    if story.value > 160:
        return _minus(draw, story, slot)
    k = draw.num(2, 6)
    story.step(draw.say(TIMES, k=k, **slot), story.value, "*", k, draw.pick(["Times", f"{k} times"]))
    return None


def _share(draw: Draw, story: Story, slot: dict[str, str]) -> bool:
    fits = [k for k in range(2, 25) if story.value % k == 0 and story.value // k > 1]
    if not fits:
        return False
    k = draw.pick(fits)
    story.question = draw.say(SHARE, k=k, **slot)
    story.step("", story.value, "/", k, draw.pick(["Each", "Share", "Divide"]))
    return True


def collection(draw: Draw, wordy: bool) -> Story:
    """Someone has things; they become more and fewer."""
    who, friend = draw.firsts(2)
    noun = words.plural(draw.pick(words.COUNTABLE)) if draw.chance(0.9) else draw.word() + "s"
    box = draw.pick(words.CONTAINERS)
    slot = {"S": who, "s": draw.pick(["he", "she", who]), "f": friend, "n": noun, "c": words.plural(box), "o": box}
    story = Story(draw.num(3, 60) if draw.chance(0.5) else draw.num(20, 400), wordy=wordy)
    story.said.append(draw.say(START, k=story.value, **slot))
    moves = draw.pick([2, 2, 3, 3, 4])
    while len(story.lines) < moves:
        draw.pick([_plus, _minus, _minus, _bags, _bags, _lose_bags, _times])(draw, story, slot)
        if story.value > 900:
            _minus(draw, story, slot)
    if not (draw.chance(0.2) and _share(draw, story, slot)):
        times = any("times" in said and friend in said for said in story.said)
        story.question = draw.say(HOW_MANY, **slot).replace(f"does {who} have", "are there").replace(f" {who} has", " there are") if times else draw.say(HOW_MANY, **slot)
    return story


PRICE = Pool("arith.price", """
A shop sells {x} for {p} {u} each and {y} for {q} {u} each. {S} buys {a} {x} and {b} {y}. How much does {S} pay?
{X} cost {p} {u} each. {Y} cost {q} {u} each. What do {a} {x} and {b} {y} cost together?
{S} buys {a} {x} at {p} {u} each and {b} {y} at {q} {u} each. What is the total price?
At the market one of the {x} is {p} {u} and one of the {y} is {q} {u}. {S} [takes|wants] {a} {x} and {b} {y}. How many {u} is that?
[How much|How many {u}] do {a} {x} for {p} {u} each and {b} {y} for {q} {u} each cost?
{S} orders {a} {x} ({p} {u} each) and {b} {y} ({q} {u} each). How many {u} is that in total?
If {x} are {p} {u} each and {y} are {q} {u} each, what does {S} pay for {a} {x} and {b} {y}?
{S} sells {a} {x} for {p} {u} each and {b} {y} for {q} {u} each. How many {u} does {S} earn?
""")
CHANGE = Pool("arith.change", """
{S} pays with {m} {u}. How much [change|money] does {s} get back?
{S} has {m} {u}. How many {u} are left?
{S} pays with a {m} {u} note. What is the change?
{S} had {m} {u}. How much money does {s} have left?
""")


def _room(draw: Draw) -> tuple[int, int]:
    return (draw.num(2, 9), draw.num(2, 20)) if draw.chance(0.6) else (draw.num(3, 19), draw.num(11, 45))


def prices(draw: Draw, wordy: bool) -> Story:
    """Two kinds of goods, perhaps change, perhaps a discount."""
    x, y = (words.plural(n) for n in draw.some(words.COUNTABLE, 2))
    (a, p), (b, q) = _room(draw), _room(draw)
    unit = draw.pick(["dollars", "euros", "dollars", "coins", "pounds", "cents"])
    who = draw.first()
    slot = {"x": x, "y": y, "X": x.capitalize(), "Y": y.capitalize(), "u": unit, "S": who, "s": draw.pick(["he", "she", who])}
    story = Story(0, wordy=wordy)
    text = draw.say(PRICE, a=a, p=p, b=b, q=q, **slot)
    first = story.step("", a, "*", p, f"{x.capitalize()}")
    second = story.step("", b, "*", q, f"{y.capitalize()}")
    total = story.step("", first, "+", second, "Total")
    story.question = text
    if draw.chance(0.35):
        money = draw.pick([m for m in (20, 50, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1200, 1500, 2000, 3000) if m > total] or [total + 15])
        body = text.split(". ")
        asked = body.pop() if len(body) > 1 else ""
        if asked and "sells" not in text.split(" ")[1]:
            story.question = ". ".join(body) + ". " + draw.say(CHANGE, m=money, **slot)
            story.step("", money, "-", total, "Change")
    return story


DAILY = Pool("arith.daily", """
{S} [reads|writes|prints] {b} pages a day for {a} days[ and then|. After that {s} reads] {k} pages more. How many pages is that in total?
{S} [works|practises] {b} minutes a day on {a} days and {k} minutes on the last day. How many minutes is that [in total|altogether]?
{S} runs {b} rounds on each of {a} days and {k} rounds on the day after. How many rounds is that?
A [machine|printer|baker] makes {b} pieces an hour. It works for {a} hours and then makes {k} more. How many pieces is that?
A [car|train|bus] drives {b} [miles|kilometres] an hour for {a} hours and then {k} more. How many [miles|kilometres] is that in total?
{S} saves {b} dollars a week for {a} weeks and gets {k} dollars as a present. How many dollars does {s} have?
{S} plants {a} rows of {b} flowers and {k} more near the door. How many flowers is that?
A hall has {a} rows of {b} chairs and {k} chairs at the back. How many chairs are there?
{S} earns {b} dollars an hour, works {a} hours and gets a tip of {k} dollars. How much does {s} get?
In a school there are {a} classes with {b} children each and {k} teachers. How many people is that?
""")
DAILY_MINUS = Pool("arith.dailyminus", """
A book has {m} pages. {S} reads {b} pages a day for {a} days. How many pages are left?
A hall has {m} seats. {a} groups of {b} people come in. How many seats are [free|empty]?
A farm has {m} eggs. {S} sells {a} boxes of {b} eggs. How many eggs are left?
{S} has {m} dollars and spends {b} dollars a day for {a} days. How [many dollars are|much money is] left?
A [tank|barrel] holds {m} litres. {S} takes out {a} buckets of {b} litres each. How many litres [remain|are left]?
A road is {m} [miles|kilometres] long. {S} walks {b} a day for {a} days. How far is it still?
A bakery bakes {m} buns and sells {a} bags of {b} buns. How many buns are left?
""")


def daily(draw: Draw, wordy: bool) -> Story:
    """So many a day, then some more; or taken from a supply."""
    (a, b), who = _room(draw), draw.first()
    slot = {"S": who, "s": draw.pick(["he", "she", who])}
    story = Story(0, wordy=wordy)
    if draw.chance(0.5):
        k = draw.num(2, 120)
        story.question = draw.say(DAILY, a=a, b=b, k=k, **slot)
        part = story.step("", a, "*", b, f"{a} times {b}")
        story.step("", part, "+", k, "Total")
    else:
        more = a * b + draw.num(1, 300)
        story.question = draw.say(DAILY_MINUS, a=a, b=b, m=more, **slot)
        part = story.step("", a, "*", b, f"{a} times {b}")
        story.step("", more, "-", part, "Left")
    return story


COMPARE = Pool("arith.compare", """
{A} has {k} {n}. {B} has {d} more than {A}. {C} has {m} times as many as {B}. How many {n} do the three have together?
{A} [found|collected] {k} {n}, {B} [found|collected] {d} more than {A}, and {C} [found|collected] {m} times as many as {B}. How many {n} is that in total?
{A} is {k} years old. {B} is {d} years older than {A}, and {C} is {m} times as old as {B}. What is the sum of their ages?
There are {k} {n} in the first box, {d} more in the second, and {m} times as many in the third as in the second. How many {n} are there?
{A} made {k} {n}. {B} made {d} more. {C} made {m} times as many as {B}. How many {n} did they make [together|in total]?
""")
COMPARE_TWO = Pool("arith.comparetwo", """
{A} has {k} {n}. {B} has {m} times as many. How many {n} do they have [together|in total]?
{A} has {k} {n} and {B} has {m} times as many. {C} has {d} {n}. How many do the three have [together|in total]?
{A} is {k} years old. {B} is {m} times as old. [In {d} years, how|How] old will {B} be in {d} years?
{A} sold {k} {n} on Monday and {m} times as many on Tuesday. How many did {A} sell [in total|on both days]?
{A} has {k} {n}. {B} has half as many. How many {n} do they have together?
""")


def compare(draw: Draw, wordy: bool) -> Story:
    """More than, times as many."""
    a, b, c = draw.firsts(3)
    k, d, m = draw.num(3, 60), draw.num(2, 40), draw.num(2, 5)
    story = Story(0, wordy=wordy)
    noun = words.plural(draw.pick(words.COUNTABLE))
    if draw.chance(0.6):
        story.question = draw.say(COMPARE, A=a, B=b, C=c, k=k, d=d, m=m, n=noun)
        second = story.step("", k, "+", d, b)
        third = story.step("", second, "*", m, c)
        story.step("", story.step("", k, "+", second, "First two"), "+", third, "Total")
        return story
    k = k // 2 * 2 + 2
    text = story.question = draw.say(COMPARE_TWO, A=a, B=b, C=c, k=k, d=d, m=m, n=noun)
    second = story.step("", k, "/", 2, b) if "half" in text else story.step("", k, "*", m, b)
    if "years old" in text:
        story.step("", second, "+", d, "Later")
    else:
        total = story.step("", k, "+", second, "Together")
        if c in text:
            story.step("", total, "+", d, "Total")
    return story


SUM = Pool("arith.sum", """
What is {e}?
Compute {e}.
[Calculate|Work out] {e}.
{e} = ?
How much is {e}?
[Tell me|Find|Give me] the [value|result] of {e}.
{e}
Evaluate {e}.
Please [compute|calculate] {e}.
What's {e}?
What does {e} equal?
""")


def expression(draw: Draw) -> Story:
    """A plain sum of two to four numbers, perhaps with brackets."""
    story = Story(0)
    form = draw.num(0, 6)
    (a, b), c = _room(draw), draw.num(2, 99)
    if form == 0:
        text, _ = f"{a} * {b} + {c}", story.step("", story.step("", a, "*", b, ""), "+", c, "")
    elif form == 1:
        c = min(c, a * b)
        text, _ = f"{a} * {b} - {c}", story.step("", story.step("", a, "*", b, ""), "-", c, "")
    elif form == 2:
        x, y = draw.num(10, 99), draw.num(1, 60)
        x, y, k = max(x, y + 1), y, draw.num(2, 9)
        text, _ = f"({x} - {y}) * {k}", story.step("", story.step("", x, "-", y, ""), "*", k, "")
    elif form == 3:
        x, y, k = draw.num(2, 60), draw.num(2, 60), draw.num(2, 9)
        text, _ = f"({x} + {y}) * {k}", story.step("", story.step("", x, "+", y, ""), "*", k, "")
    elif form == 4:
        x, y = draw.num(2, 500), draw.num(2, 400)
        text, _ = f"{x} + {y} + {c}", story.step("", story.step("", x, "+", y, ""), "+", c, "")
    elif form == 5:
        x, y = draw.num(50, 900), draw.num(2, 400)
        x, y = max(x, y), min(x, y)
        text, _ = (f"{x} - {y}", story.step("", x, "-", y, "")) if draw.chance(0.5) else (f"{x} + {y}", story.step("", x, "+", y, ""))
    else:
        text, _ = (f"{c} + {a} * {b}", story.step("", c, "+", story.step("", a, "*", b, ""), "")) if draw.chance(0.6) else (f"{a} * {b}", story.step("", a, "*", b, ""))
    if draw.chance(0.2):
        text = text.replace(" ", "")
    story.question = draw.say(SUM, e=text)
    return story


def written(draw: Draw, story: Story) -> str:
    """The reasoning, a line a step, and the answer line."""
    return "\n".join([*story.lines, f"Answer: {story.value}"])


def problem(draw: Draw) -> Story:
    """Any kind of problem."""
    wordy = draw.chance(0.5)
    roll = draw.rng.random()
    if roll < 0.42:
        return collection(draw, wordy)
    if roll < 0.62:
        return prices(draw, wordy)
    if roll < 0.78:
        return daily(draw, wordy)
    return compare(draw, wordy) if roll < 0.88 else expression(draw)


def text_of(story: Story) -> str:
    """The problem as one text."""
    return " ".join([*story.said, story.question])


def sample(draw: Draw) -> Example:
    """One problem."""
    story = problem(draw)
    text = text_of(story)
    if draw.chance(0.3):
        text = draw.say(LEAD) + text
    roll = draw.rng.random()
    gap = draw.pick([" ", "\n"])
    if roll < 0.3:
        text += gap + draw.say(ASK_STEPS)
    elif roll < 0.45:
        text += gap + draw.say(ASK_END)
    elif roll < 0.55:
        text += gap + draw.say(ASK_STEPS) + " " + draw.say(ASK_END)
    check: Check = {"kind": "answer", "value": story.value}
    messages = system(draw, [("user", draw.loosen(text) if roll >= 0.55 else text)], 0.2)
    return Example("arithmetic", messages, ("assistant", written(draw, story)), check, templates=draw.used)
