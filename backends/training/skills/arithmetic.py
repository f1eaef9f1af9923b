"""Multi-step arithmetic word problems with written-out reasoning and a last line `Answer: N`, and plain sums."""

from __future__ import annotations

import re

from skills import stories, words
from skills.core import Check, Draw, Example, Pool, system
from skills.stories import Story

TERSE = 0.2
"""The share of one-line solutions where the prompt does not ask for steps."""
ASK_STEPS = Pool(
    "arith.steps",
    """
Think step by step.
[Show your work|Explain how you get there|Explain your steps|Explain the result|Take care with each step].
[Write out|Explain] [your reasoning|the steps|each step].
Let's think step by step.
Solve it step by step.
[Work it out|Calculate] step by step.
Show [all|the] steps.
Reason step by step[| and give the answer].
Write [down|out] every step[|, then the answer].
Think carefully.
Please [think|reason] step by step.
[Do|Solve|Take] it one step at a time.
[Give|Write] the steps[| first].
[Explain|Say|Tell me] how you get the [answer|result].
Use one line for each step.
Show how you calculate it.
Step by step[|, please].
Write your [work|calculation|reasoning].
""",
)
ASK_END = Pool(
    "arith.end",
    """
End with a line "Answer: N".
[Finish|End] with "Answer:" and the number.
[Put|Write] the [result|final answer] [on|in] the last line as "Answer: N".
The last line [must|should] be "Answer: N".
Give the [result|final answer] as "Answer: N".
Then write "Answer: " and the [number|result].
[Finish|End] with a line like "Answer: 12".
The answer goes on the last line: "Answer: N".
Finish with the line "Answer: N".
Your last line: "Answer: N".
Close with "Answer: " and the number.
Use the format "Answer: N" [for|in] the last line.
At the end write "Answer: N".
""",
)
LEAD = Pool(
    "arith.lead",
    """
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
[Here comes|Here is] a [small|little] [task|problem].\\n
Task: 
Exercise:\\n
[Read|Look at] this [problem|task] [carefully|] and solve it.\\n
Math: 
[Think about|Consider] this: 
""",
)


GAIN = Pool(
    "arith.gain",
    """
{S} [buys|gets|finds|adds|collects|makes|earns] {k} [more|new|extra|other] {n}.
[Then|Later|After that|Next], {s} [finds|receives|gets|is given|buys] {k} more[ {n}|].
[A friend|{f}|Then {f}|Later {f}] [gives|hands|brings|sends] {S} {k} [more |]{n}.
{S} [picks up|collects|earns] {k} {n} [on Monday|today|later|in the afternoon].
[Later|After that], {s} [buys|wins|gets] another {k}.
[Then |Later |Next |]{f} gives {k} [more |]{n} to {S}.
Then {k} more {n} are added.
{S}'s [mother|father|teacher|aunt] [brings|gives] {S} {k} {n} [more|on top].
In the shop {s} [buys|gets] {k} extra {n}.
{S} then [makes|adds] {k} [more|new] {n}.
{S} [wins|earns|catches|bakes|picks|orders|borrows] {k} {n} more.
{f} [brings|sends|hands|lends] {S} {k} {n}.
{S} [gets|receives] {k} [more |] {n} from {f}.
The next [day|week|morning], {s} [finds|buys|makes|gets] {k} more [of them|].
{S} [takes|is given|is sent] {k} {n} [as a present|for free|by {f}].
[On Tuesday|On Sunday|In the evening|At noon], {s} [collects|adds|buys|gets] {k} {n}.
[Another|A further|An extra] {k} {n} [arrive|come|are delivered|are found].
{S} [brings|carries|puts|takes] {k} more {n} [into the room|home|there].
{f} puts {k} {n} [with them|on top|next to them].
[Then|Later|Next] {f} gives {k} {n} to {S}.
{S} [finds|discovers] {k} [old|new|hidden|forgotten] {n} [at home|in a drawer|under the bed|outside].
{S} [increases|raises] the number of {n} by {k}.
""",
)
LOSE = Pool(
    "arith.lose",
    """
{S} [gives|gives away|hands over|passes] {k} [of them |{n} |]to {f}.
[Then|Later|After that], {s} [loses|breaks|drops|gives away|takes away|hands out] {k} {n}.
{S} [sells|uses|uses up|gives away|takes away|throws away] {k} of [them|the {n}].
[Later|After that], {s} gives away {k} {n}.
[Then|Later] {k} [of them|{n}|of the {n}] [get lost|are lost|are used|are stolen|are given away|are missing].
{f} [takes|borrows] {k} {n} [from {S}|].
{S} [throws away|hands out] {k} {n}.
On the way home {s} loses {k}.
{k} of the {n} are [broken|given away|spoiled] [and thrown away|].
{S} puts {k} {n} aside for {f} and gives them away.
{S} [eats|drops|spoils|burns|wastes|lends|donates] {k} of [them|the {n}].
{S} [hands|sends|gives|lends] {k} {n} to {f}.
{f} [gets|receives|steals|buys|eats] {k} {n} from {S}.
[On Tuesday|On Sunday|In the evening|At noon], {s} [sells|loses|breaks|uses] {k} {n}.
The next [day|week|morning], {s} [sells|loses|gives away|uses] {k} of them.
{k} {n} [fall|go|get] [down and break|missing|broken|lost].
{S} [removes|takes out|takes away] {k} [of the {n}|{n}|of them].
[Unfortunately|Sadly], {k} of {S}'s {n} [are stolen|get lost|break].
{S} [spends|pays with|trades] {k} {n}.
[Then|Later|Next] {S} gives {k} of them [away|back|to a friend|to {f}].
{S} decides to [sell|give away|throw away|return] {k} {n}.
{f} and the others [eat|use|take|need] {k} of the {n}.
The number of {n} [falls|goes down|drops] by {k}.
""",
)
BAGS = Pool(
    "arith.bags",
    """
{S} [buys|gets|packs|adds|makes] {a} [new |more |]{c} with {b} {n} [each|in each|apiece].
[Then|Later|Next], {s} [buys|brings|gets|adds] {a} {c} [of|that hold|with] {b} {n} each.
{f} brings {a} {c}, each with {b} {n}.
{S} adds {a} {c} that hold {b} {n} each.
[There are also|Then come|Then there are] {a} [more |]{c} with {b} {n} [in each|in each one|each|per piece].
[Later|After that], {s} gets {a} more {c}, each holding {b} {n}.
{a} friends each give {S} {b} {n}.
[Each of {a} friends|{a} friends each] [brings|bring|give|gives] {b} {n} [for|to] {S}.
Every day for {a} days {s} [gets|collects|makes] {b} {n}.
In {a} {c} there are {b} more {n} each.
{S} [finds|orders|receives|picks up|carries home] {a} {c}[, and each|. Each of them| and each one] [holds|has|contains] {b} {n}.
{f} [gives|sends|sells] {S} {a} {c} with {b} {n} [each|in each|apiece].
{S} [buys|takes|gets] {b} {n} [a day|every day|each day] for {a} days.
{S} [fills|packs] {a} [new|more|extra] {c} with {b} {n} each.
[On Tuesday|On Sunday|At noon], {a} {c} of {b} {n} [each |][arrive|are delivered|come].
{a} [children|neighbours|people|cousins] [bring|give|hand] {S} {b} {n} each.
{S} [makes|prepares|collects] {a} times {b} {n}[ more|].
{S} has {a} [more|other] {c} [at home|too|as well] with {b} {n} in [each|every one].
[A truck|{f}] delivers {a} {c}. [Every|Each] one of them has {b} {n}.
Then come {a} {c}, {b} {n} [each|per piece|in each one].
""",
)
LOSE_BAGS = Pool(
    "arith.losebags",
    """
{S} [gives|gives away] {b} {n} to each of {a} [friends|people|guests].
[Then {s}|{S}] [uses|needs|sells|loses|gives away|eats] {b} {n} [a day|every day|each day] for {a} days.
{a} [children|friends|people] [each take|take|eat|get] {b} {n}[ each|].
{S} [fills|packs|takes] {a} {c} [with|of] {b} {n} each and [gives them away|throws them away|sells them].
Each of {a} guests gets {b} {n}.
{S} sells {a} {c} with {b} {n} each.
For {a} days {s} gives away {b} {n} every day.
{S} [hands|passes|sends] {b} {n} [each |]to {a} [friends|people|neighbours].
{S} [packs|puts] {b} {n} into each of {a} {c} and [sells|sends away|gives away] [them|the {c}].
[On|For|During] {a} days, {s} [eats|uses|sells|loses] {b} {n} [a day|each day|every day].
{a} [people|guests|friends] [eat|take|buy|get] {b} {n} each.
{S} [breaks|loses|spoils] {b} {n} in each of {a} {c}.
{S} [sells|trades|donates] {a} {c} of {b} {n}.
{S} [gives away|throws away|ships] {a} {c} with {b} {n} in each.
[Each|Every one] of the {a} [children|neighbours|guests] [takes|eats|receives] {b} {n}.
""",
)
SHARE = Pool(
    "arith.share",
    """
{S} [shares|divides|splits] them [equally|fairly|evenly] [among|between] {k} [friends|children|people]. How many {n} does each friend get?
The {n} are [put|divided|split] into {k} equal [{c}|groups|{c}]. How many {n} are in each of the {c}?
{S} [packs|puts|sorts] them into [{c}|groups|{c}] of {k}[ {n}|] each. How many [{c} does {s} fill|does {s} get|does that make]?
{k} children share them [equally|fairly]. How many {n} does each child get?
{S} divides them equally between {k} shelves. How many {n} are on each shelf?
They are split [evenly|equally] into {k} groups. How many {n} are in a group?
{S} eats or uses {k} a day. How many days do they last?
[Then|Now|At last] {S} divides [all of them|them] by {k}. How many {n} is that?
{S} gives all {n} to {k} friends, the same number to each. How many does each [one |]get?
{S} puts {k} {n} in each of the {c}. How many {c} [does {s} need|are needed]?
The {n} are [divided|shared out] among {k} [people|children|classes]. How many [{n} |]does each get?
Each of {k} friends gets the same number of {n}. How many is that?
{S} arranges them in {k} equal rows. How many {n} are in [a|one] row?
How many groups of {k} {n} can {S} make?
""",
)
TIMES = Pool(
    "arith.times",
    """
Then the number of {n} is [multiplied by {k}|made {k} times as large].
{S} [gets|has|makes] {k} times as many {n} as before.
Now {S} gets {k} times as many {n} as before in total.
{S} now has {k} times as many {n}.
The next day {s} has {k} times that many {n}.
[A day later|Then|After a week] there are {k} times as many {n}.
{S} [makes|has] {k} times as many {n} [the next day|now|in the end].
The {n} [grow|increase] to {k} times the number.
The number of {n} becomes {k} times as large.
Then {S} has {k} times as many.
""",
)
START = Pool(
    "arith.start",
    """
[First, |To begin with, |At first, ||||]{S} has {k} {n}.
{S} [starts with|begins with|first takes|got|found|had] {k} {n}[| last week| yesterday].
At first {S} has {k} {n}.
{S} owns {k} {n}.
There are {k} {n} in {S}'s [bag|box|house|garden|room|shop].
In the morning {S} has {k} {n}.
{S} [buys|collects|picks|counts] {k} {n}.
{S} has a {o} with {k} {n} in it.
A {o} of {S} holds {k} {n}.
{S} [got|found] {k} {n} [yesterday|last week].
{S} [keeps|holds|stores|brings] {k} {n} [in a {o}|].
[On Monday|Yesterday|Last week|At noon] {S} [had|has|owned|counted] {k} {n}.
{S} [bakes|makes|orders|receives|wins|draws] {k} {n}.
[First|To begin with], {S} [gets|has|takes] {k} {n}.
In a {o} there are {k} {n}. [They belong to {S}.|It belongs to {S}.]
{k} {n} belong to {S}.
{S}'s [collection|{o}|shop|farm] has {k} {n}.
{S} is the owner of {k} {n}.
A [shop|farm|school|market] [run by|of] {S} has {k} {n}.
""",
)
HOW_MANY = Pool(
    "arith.howmany",
    """
How many {n} [does {S} have|remain|are left|are there] [now|in the end|at the end|in total|]?
How many {n} are there [now|in the end|in total]?
[What is|Give|Find|Tell me|Calculate] the [|final |total ]number of {n} [now|in the end|that {S} has]?
How many {n} [are left|remain]?
[In the end|Now], how many {n} does {S} have?
So how many {n} are there?
[Find|Calculate|Give] the number of {n} {S} has [now|in the end].
How many {n} does {S} [end up with|own in the end]?
How many {n} does {S} [finally|then|still] have?
[What is|Give] the [final|total] number of {n}?
How many {n} are there [after that|at the end of the day|finally|altogether]?
How many {n} does that make[ for {S}|]?
How many {n} [can {S} count|does {S} count] now?
[Tell me|Say] how many {n} {S} has [now|in the end].
How many does {S} have [now|in the end|left]?
And how many {n} are there now?
How many are there [now|in the end]?
""",
)


def _plus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    k = draw.num(2, 99) if draw.chance(0.6) else draw.num(10, 350)
    story.step(
        draw.say(GAIN, k=k, **slot), story.value, "+", k, draw.pick(["More", "After that", "Add"])
    )


def _minus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    k = (
        draw.num(1, max(1, story.value - 1))
        if story.value < 60 or draw.chance(0.5)
        else draw.num(2, 60)
    )
    story.step(
        draw.say(LOSE, k=k, **slot),
        story.value,
        "-",
        k,
        draw.pick(["Left", "After that", "Take away"]),
    )


def _bags(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    a, b = _room(draw)
    before = story.value
    new = story.step(
        draw.say(BAGS, a=a, b=b, **slot),
        a,
        "*",
        b,
        draw.pick(["New", f"{a} times {b}", "The new ones"]),
    )
    story.step("", before, "+", new, draw.pick(["Together", "Sum", "In total"]))


def _lose_bags(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    a = draw.num(2, 9)
    most = (story.value - 1) // a
    if most < 2:
        return _plus(draw, story, slot)
    b = draw.num(2, min(most, 40))
    before = story.value
    gone = story.step(
        draw.say(LOSE_BAGS, a=a, b=b, **slot),
        a,
        "*",
        b,
        draw.pick(["Gone", f"{a} times {b}", "Used"]),
    )
    story.step("", before, "-", gone, draw.pick(["Left", "Rest"]))
    return None


def _times(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    if story.value > 160:
        return _minus(draw, story, slot)
    k = draw.num(2, 6)
    story.step(
        draw.say(TIMES, k=k, **slot), story.value, "*", k, draw.pick(["Times", f"{k} times"])
    )
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
    slot = {
        "S": who,
        "s": draw.pick(["he", "she", who]),
        "f": friend,
        "n": noun,
        "c": words.plural(box),
        "o": box,
    }
    story = Story(draw.num(3, 60) if draw.chance(0.5) else draw.num(20, 400), wordy=wordy)
    story.said.append(draw.say(START, k=story.value, **slot))
    moves = draw.pick([1, 2, 2, 2, 3, 3])
    while len(story.lines) < moves:
        draw.pick([_plus, _minus, _minus, _bags, _bags, _lose_bags, _times])(draw, story, slot)
        if story.value > 900:
            _minus(draw, story, slot)
    if not (draw.chance(0.2) and _share(draw, story, slot)):
        story.question = draw.say(HOW_MANY, **slot)
    return story


PRICE = Pool(
    "arith.price",
    """
A shop sells {x} for {p} {u} each and {y} for {q} {u} each. {S} buys {a} {x} and {b} {y}. How much does {S} pay?
{X} [cost|are] {p} {u} [each|apiece]. {Y} [cost|are] {q} {u} [each|apiece]. What do {a} {x} and {b} {y} cost together?
{S} [buys|collects|orders|takes] {a} {x} [at|for|worth] {p} {u} each and {b} {y} [at|for|worth] {q} {u} each. What is the total price?
At the market one of the {x} is {p} {u} and one of the {y} is {q} {u}. {S} [takes|wants] {a} {x} and {b} {y}. How many {u} is that?
[How much|How many {u}] do {a} {x} for {p} {u} each and {b} {y} for {q} {u} each cost?
{S} orders {a} {x} ({p} {u} each) and {b} {y} ({q} {u} each). How many {u} is that in total?
If {x} are {p} {u} each and {y} are {q} {u} each, what does {S} pay for {a} {x} and {b} {y}?
{S} sells {a} {x} for {p} {u} each and {b} {y} for {q} {u} each. How many {u} does {S} earn?
{S} [needs|takes|gets|purchases] {a} {x} and {b} {y}. [One of the {x}|Each of the {x}] costs {p} {u} and [one of the {y}|each of the {y}] costs {q} {u}. [How much|How many {u}] does {S} [spend|pay]?
The {x} are {p} {u} [each|apiece] and the {y} are {q} {u} [each|apiece]. {S} [buys|orders] {a} of the {x} and {b} of the {y}. What is the [total|price|bill]?
{S} [bought|took] {a} {x} for {p} {u} each. {S} also [bought|took] {b} {y} for {q} {u} each. How [much did {S} spend|many {u} did {S} pay]?
In a [shop|cafe|market], {x} cost {p} {u} and {y} cost {q} {u}. What does {S} pay for {a} {x} and {b} {y}?
{a} {x} and {b} {y}, please! The {x} are {p} {u} each, the {y} {q} {u} each. What [is the bill|do I pay]?
A [farmer|baker|seller] sells {a} {x} at {p} {u} and {b} {y} at {q} {u} each. How [much is that|many {u} is that] in total?
The price of one of the {x} is {p} {u}, the price of one of the {y} is {q} {u}. [Find|What is] the [price|cost] of {a} {x} and {b} {y}[.|?]
{S} pays {p} {u} for each of {a} {x} and {q} {u} for each of {b} {y}. How [much|many {u}] is that [together|altogether|in all]?
{S} [packs|collects] {a} {x} worth {p} {u} each and {b} {y} worth {q} {u} each. What are they worth together?
{S} wants {a} {x} and {b} {y}. [Each|One] of the {x} is {p} {u}, [each|one] of the {y} is {q} {u}. How much [money does {S} need|is it]?
A [shop|store|stand] sells {x} for {p} {u} and {y} for {q} {u}. {S} buys {a} {x} and {b} {y}. How [much does {s} pay|many {u} is that|much is that]?
{X} are {p} {u}, {y} are {q} {u}. {S} [buys|takes|wants] {a} {x} and {b} {y}. How much [does {s} pay|is that]?
[One|A single] of the {x} costs {p} {u}, one of the {y} {q} {u}. How much are {a} {x} and {b} {y}?
{S} buys {a} {x} for {p} {u} each and {b} {y} for {q} {u} each. How much [money does {s} spend|does {s} spend|does that cost][ in total|]?
""",
)
CHANGE = Pool(
    "arith.change",
    """
{S} pays with {m} {u}. How much [change|money] does {s} get back?
{S} has {m} {u}. How many {u} are left?
{S} pays with a {m} {u} note. What is the change?
{S} had {m} {u}. How much money does {s} have left?
{S} gives the [seller|cashier] {m} {u}. What does {s} get back?
From {m} {u}, how [much|many {u}] [is|are] left?
{S} started with {m} {u}. How many {u} remain?
{S} puts {m} {u} on the table. How much change is that?
There were {m} {u} in {S}'s [purse|wallet|pocket]. How [much|many {u}] [is|are] left [after that|]?
How [much|many {u}] does {S} get back from {m} {u}?
""",
)


def _room(draw: Draw) -> tuple[int, int]:
    return (
        (draw.num(2, 9), draw.num(2, 20))
        if draw.chance(0.62)
        else (draw.num(3, 19), draw.num(11, 49))
    )


def prices(draw: Draw, wordy: bool) -> Story:
    """Two kinds of goods, perhaps change, perhaps a discount."""
    x, y = (words.plural(n) for n in draw.some(words.COUNTABLE, 2))
    (a, p), (b, q) = _room(draw), _room(draw)
    unit = draw.pick(["dollars", "euros", "dollars", "coins", "pounds", "cents"])
    who = draw.first()
    slot = {
        "x": x,
        "y": y,
        "X": x.capitalize(),
        "Y": y.capitalize(),
        "u": unit,
        "S": who,
        "s": draw.pick(["he", "she", who]),
    }
    story = Story(0, wordy=wordy)
    text = draw.say(PRICE, a=a, p=p, b=b, q=q, **slot)
    first = story.step("", a, "*", p, f"{x.capitalize()}")
    second = story.step("", b, "*", q, f"{y.capitalize()}")
    total = story.step("", first, "+", second, "Total")
    story.question = text
    if draw.chance(0.35):
        money = draw.pick(
            [
                m
                for m in (
                    20,
                    50,
                    100,
                    150,
                    200,
                    250,
                    300,
                    400,
                    500,
                    600,
                    800,
                    1000,
                    1200,
                    1500,
                    2000,
                    3000,
                )
                if m > total
            ]
            or [total + 15]
        )
        body = text.split(". ")
        asked = body.pop() if len(body) > 1 else ""
        if asked and "sells" not in text.split(" ")[1]:
            story.question = ". ".join(body) + ". " + draw.say(CHANGE, m=money, **slot)
            story.step("", money, "-", total, "Change")
    return story


DAILY = Pool(
    "arith.daily",
    """
{S} [reads|writes|prints] {b} pages a day for {a} days[ and then|. After that {s} reads] {k} pages more. How many pages is that in total?
{S} [works|practises] {b} minutes a day on {a} days and {k} minutes on the last day. How many minutes is that [in total|altogether]?
{S} runs {b} rounds on each of {a} days and {k} rounds on the day after. How many rounds is that?
A [machine|printer|baker] makes {b} pieces an hour. It works for {a} hours and then makes {k} more. How many pieces is that?
A [car|train|bus] drives {b} [miles|kilometres] an hour for {a} hours and then {k} more. How many [miles|kilometres] is that in total?
{S} saves {b} dollars a week for {a} weeks and gets {k} dollars as a present. How many dollars does {s} have?
{S} plants {a} rows of {b} flowers and {k} more near the door. How many flowers is that?
A [hall|school|stadium|theatre] has {a} [rows|rooms|classes] [of|with] {b} [chairs|children|seats] [each |]and {k} [chairs|teachers|seats] [at the back|more|]. How many [is that|chairs are there|people is that|seats are there]?
{S} earns {b} dollars an hour, works {a} hours and gets a tip of {k} dollars. How much does {s} get?
In a school there are {a} classes with {b} children each and {k} teachers. How many people is that?
{S} [bakes|makes|sells|picks] {b} {o} [an hour|a day|each day] for {a} [hours|days] and {k} more [later|on top|in the evening]. How many {o} is that [in total|altogether|]?
[Each|Every] of {a} [boxes|shelves|rooms|bags] has {b} {o}, and there are {k} {o} [on the floor|outside|on the table]. How many {o} are there?
A [bus|train|ship] makes {a} trips with {b} people each and one trip with {k} people. How many people is that?
{S} [walks|cycles|swims|drives] {b} [miles|kilometres|minutes] a day for {a} days and then {k} more. How many [miles|kilometres|minutes] [is that|in total]?
A [theatre|cinema|stadium] has {a} rows with {b} seats each and {k} extra seats. How many seats [are there|does it have]?
{S} [learns|writes] {b} words [a day|each day] for {a} days, and {k} words on the last day. How many words is that?
{a} [teams|tables|groups] of {b} people [come|meet|eat], and {k} [more |]people [stand|wait|watch]. How many people are there?
{S} [has|owns] {a} [albums|folders|books] with {b} [photos|pages|stamps] each and {k} loose ones. How many is that [together|in total]?
A [farmer|gardener] plants {a} rows with {b} trees [in each|each]. [There are already|Then come] {k} [other|more] trees. How many trees are there?
[A ticket|An hour|A lesson|A night] costs {b} dollars. {S} [takes|pays for|books] {a} and pays {k} dollars [extra|for food|for the trip]. How much is that [in total|]?
{S} puts {b} {o} on each of {a} plates and {k} {o} in a bowl. How many {o} are there?
""",
)
DAILY_MINUS = Pool(
    "arith.dailyminus",
    """
A book has {m} pages. {S} reads {b} pages a day for {a} days. How many pages are left?
A hall has {m} seats. {a} groups of {b} people come in. How many seats are [free|empty]?
A farm has {m} eggs. {S} sells {a} boxes of {b} eggs. How many eggs are left?
{S} has {m} dollars and spends {b} dollars a day for {a} days. How [many dollars are|much money is] left?
A [tank|barrel] holds {m} litres. {S} takes out {a} buckets of {b} litres each. How many litres [remain|are left]?
A road is {m} [miles|kilometres] long. {S} walks {b} a day for {a} days. How far is it still?
A bakery bakes {m} buns and sells {a} bags of {b} buns. How many buns are left?
{S} has {m} {o} and [packs|puts] {b} {o} into each of {a} boxes. How many {o} are [left|not packed]?
A [ship|train|bus|lorry] carries {m} {o}. At {a} stops, {b} {o} are [unloaded|taken out] each time. How many {o} are left?
There are {m} {o} in a [shop|store|hall]. {a} [people|customers|families] [buy|take] {b} {o} each. How many {o} [remain|are left|are still there]?
{S} needs {m} {o} and has {a} {c} of {b} {o}. How many {o} are [missing|still needed]?
{S} wants to [read|learn|write] {m} [pages|words|lines] and does {b} a day for {a} days. How many are [left|still to do]?
A [school|club|town] has {m} [dollars|euros]. It buys {a} {o} for {b} [dollars|euros] each. How much [money |]is left?
{m} people [want to travel|wait]. {a} buses take {b} people each. How many people [must wait|are left|stay behind]?
A farmer [has|picks] {m} {o} and sells {a} {c} with {b} {o} [each|in each]. How many {o} [remain|does the farmer keep]?
{S} [saves|has saved] {m} dollars and [pays|spends] {b} dollars [a month|a week] for {a} [months|weeks]. How many dollars [remain|are left]?
From {m} {o}, {a} {c} with {b} {o} each are [sold|taken away|given away]. How many {o} are left?
""",
)


def daily(draw: Draw, wordy: bool) -> Story:
    """So many a day, then some more; or taken from a supply."""
    (a, b), who = _room(draw), draw.first()
    slot = {
        "S": who,
        "s": draw.pick(["he", "she", who]),
        "o": words.plural(draw.pick(words.COUNTABLE)),
        "c": words.plural(draw.pick(words.CONTAINERS)),
    }
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


COMPARE = Pool(
    "arith.compare",
    """
{A} has {k} {n}. {B} has {d} more than {A}. {C} has {m} times as many as {B}. How many {n} do the three have together?
{A} [found|collected] {k} {n}, {B} [found|collected] {d} more than {A}, and {C} [found|collected] {m} times as many as {B}. How many {n} is that in total?
{A} is {k} years old. {B} is {d} years older than {A}, and {C} is {m} times as old as {B}. What is the sum of their ages?
There are {k} {n} in the first box, {d} more in the second, and {m} times as many in the third as in the second. How many {n} are there?
{A} made {k} {n}. {B} made {d} more. {C} made {m} times as many as {B}. How many {n} did they make [together|in total]?
{B} has {d} more {n} than {A}, who has {k}. {C} has {m} times as many {n} as {B}. How many {n} do all three have?
{A} [sold|baked|picked] {k} {n}. {B} [sold|baked|picked] {d} more than that. {C} [sold|baked|picked] {m} times as many as {B}. How many {n} in total?
On Monday {A} [sees|counts|sells] {k} {n}, on Tuesday {d} more than on Monday, and on Wednesday {m} times as many as on Tuesday. How many {n} is that [in total|altogether]?
{A} [has|owns] {k} {n}, {B} [has|owns] {d} more, {C} [has|owns] {m} times as many as {B}. What is the total?
A red box has {k} {n}. A blue box has {d} more {n} than the red one. A green box has {m} times as many as the blue one. How many {n} are there in all?
In the first week there are {k} {n}, in the second {d} more, in the third {m} times as many as in the second. How many {n} are there in all [three weeks|]?
""",
)
COMPARE_TWO = Pool(
    "arith.comparetwo",
    """
{A} has {k} {n}. {B} has {m} times as many. How many {n} do they have [together|in total]?
{A} has {k} {n} and {B} has {m} times as many. {C} has {d} {n}. How many do the three have [together|in total]?
{A} is {k} years old. {B} is {m} times as old. [In {d} years, how|How] old will {B} be in {d} years?
{A} sold {k} {n} on Monday and {m} times as many on Tuesday. How many did {A} sell [in total|on both days]?
{A} has {k} {n}. {B} has half as many. How many {n} do they have together?
{B} has {m} times as many {n} as {A}, who has {k}. How many {n} do the two have [together|in total]?
{A} [bakes|makes|finds] {k} {n}. {B} [bakes|makes|finds] {m} times as many. How many {n} is that [together|in total]?
{A} [reads|walks|runs] {k} [pages|miles] and {B} {m} times as many. How many is that together?
One box holds {k} {n}. Another box holds {m} times as many. How many {n} are in both?
{A} has {k} {n}. {B} has half as many as {A}. How many {n} is that together?
{A} picked {k} {n}, {B} half as many. How many did they pick together?
""",
)


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


SUM = Pool(
    "arith.sum",
    """
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
What is the [value|result] of {e}?
[Solve|Do|Add up] {e}.
I need {e}. [What is it|How much is that]?
Can you [compute|work out|calculate] {e}?
[Sum|Problem|Task|Exercise]: {e}
{e} is how much?
How much do you get for {e}?
[Find|Give] {e}.
What number is {e}?
Please tell me what {e} is.
""",
)


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
        text, _ = (
            (f"{x} - {y}", story.step("", x, "-", y, ""))
            if draw.chance(0.5)
            else (f"{x} + {y}", story.step("", x, "+", y, ""))
        )
    else:
        text, _ = (
            (f"{c} + {a} * {b}", story.step("", c, "+", story.step("", a, "*", b, ""), ""))
            if draw.chance(0.6)
            else (f"{a} * {b}", story.step("", a, "*", b, ""))
        )
    if draw.chance(0.2):
        text = text.replace(" ", "")
    story.question = draw.say(SUM, e=text)
    return story


def _chain(story: Story) -> str:
    """All steps in one line, where each step goes on from the one before; empty where they do not."""
    text, last = "", None
    for line in story.lines:
        left, _, result = line.rpartition(": ")[2].rpartition(" = ")
        a, op, b = left.split(" ")
        if last is None:
            text = left
        elif a == last:
            text = (
                f"({text}) {op} {b}"
                if op in "*/" and any(o in text for o in "+-")
                else f"{text} {op} {b}"
            )
        else:
            return ""
        last = result
    return f"{text} = {last}"


def _merged(story: Story) -> str:
    """Two products or a product and a sum in one line."""
    parts = [line.rpartition(": ")[2].rpartition(" = ") for line in story.lines]
    known: dict[str, str] = {}
    last = ""
    for left, _, result in parts:
        a, op, b = left.split(" ")
        a, b = (known.pop(x, x) for x in (a, b))
        a, b = (
            f"({x})" if " " in x and (op in "*/" or (op == "-" and x == b)) else x for x in (a, b)
        )
        known[result] = last = f"{a} {op} {b}"
    return f"{last} = {parts[-1][2]}"


def terse(story: Story) -> str:
    """The whole way in one line: shorter, and easier to get wrong."""
    return f"{_chain(story) or _merged(story)}\nAnswer: {story.value}"


def written(draw: Draw, story: Story) -> str:
    """The reasoning, a line a step, and the answer line."""
    return "\n".join([*story.lines, f"Answer: {story.value}"])


def problem(draw: Draw) -> Story:
    """Any kind of problem."""
    wordy = draw.chance(0.4)
    roll = draw.rng.random()
    if roll < 0.25:
        return stories.clauses(draw, wordy)
    if roll < 0.5:
        return stories.scene(draw, wordy)
    if roll < 0.68:
        return collection(draw, wordy)
    if roll < 0.78:
        return prices(draw, wordy)
    if roll < 0.86:
        return daily(draw, wordy)
    return compare(draw, wordy) if roll < 0.91 else expression(draw)


def text_of(story: Story) -> str:
    """The problem as one text."""
    return _TIDY.sub(r"\1", " ".join([*story.said, story.question]))


_TIDY = re.compile(r" +([ .?,])")


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
    short = len(story.lines) > 1 and (roll >= 0.55 or 0.3 <= roll < 0.45) and draw.chance(TERSE)
    answer = terse(story) if short else written(draw, story)
    return Example("arithmetic", messages, ("assistant", answer), check, templates=draw.used)
