"""Short writing: an outline, one of its points expanded, a list summarised, an argument for a side."""

from __future__ import annotations

from skills import choose, knowledge, words
from skills.core import Check, Draw, Example, Message, Pool, contains, equals, every, regex, system

HEADINGS = [
    "The history of {t}|The first {t}|Why {t} matter|Facts about {t}|The meaning of {t}|A short story about {t}|{T} then and now|The idea of {t}|The origin of {t}|Questions about {t}",
    "The main kinds of {t}|{T} around the world|Where to find {t}|Examples of {t}|The parts of {t}|{T} and nature|The best of {t}|Changes in {t}|Names for {t}|Pictures of {t}",
    "{T} at home|{T} at school|{T} in daily life|{T} in the city|A day with {t}|{T} and family|{T} and friends|People who like {t}|{T} for children|{T} on holiday|{T} and the weather|{T} in winter",
    "How to start with {t}|Tools for {t}|Tips for {t}|Rules for {t}|The cost of {t}|Time for {t}|Buying {t}|Making {t}|Care for {t}|The price of {t}|{T} for beginners|Work with {t}",
    "Problems with {t}|The future of {t}|The joy of {t}|What we learn from {t}|Ideas for {t}|{T} and health|{T} and money|{T} for everyone|Thanks to {t}|A last word on {t}",
]  # fmt: skip
"""The headings of each place of an outline: how it began, what there is, in daily life, in practice, and the end."""
PLACES = [line.split("|") for line in HEADINGS]
NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five"}
OUTLINE = Pool(
    "outline.ask",
    """
[Write|Make|Give me|Create|Draft|I need] [an outline|a short outline|a plan] [about|on|for] {t} with {k} [points|headings|parts].
Write [an|a short] outline [of|for] [a talk|an essay|an article|a text] about {t}. Use {k} points.
Make an outline with {k} points [about|on] {t}.
[Give me|Create|Draft] a {k}-point outline [about|on] {t}.
Outline [a talk|an essay|an article] [about|on] {t} in {k} points.
[List|Write|Give|Find|Name] {k} [points|headings|topics] for a [talk|text|speech|paper|report] [about|on] {t}.
I want to write about {t}. [Give me|Write] an outline with {k} points.
{k} [points|headings|ideas] [about|on|for] {t}, please.
Plan a text about {t}. [Write|Use] {k} numbered points.
[Write|Give|Find|Name|List|I need] {k} headings for [an article|a text|a talk|an essay] [about|on] {t}.
Topic: {t}. Write an outline with {k} points.
What {k} points should a text about {t} have?
Prepare an outline on {t} ({k} points).
[Write|Make|Draft|Create] a {k}-point outline [on|about|for] {t}.
A {k}-point outline about {t}[, please|].
[Write|Make|List|Name] {k} headings about {t}.
Outline {t} in {k} points.
I have to give a talk about {t}. [Give me|Write] {k} points.
Write a plan with {k} points for [an essay|a talk|a text] about {t}.
[Give|Find|Name] {k} headings for [a text|an essay|a talk] on {t}.
Structure a text about {t}: {k} points.
Sketch [an essay|a talk] about {t} with {k} points.
Write {k} short points about {t}.
Outline, {k} points, topic {t}.
My talk is about {t}. Write an outline with {k} points for it.
Help me plan [an essay|a talk|a text] about {t}. [Use|I need|Give me] {k} points.
{K} headings about {t}, please.
[Write|Give me] a list of {k} points on {t}.
Which {k} points belong in [an essay|a text|a talk] about {t}?
[Find|Name|List|Give] {k} [headings|points] [for|on|about] {t}.
[Find|Name|List] {k} headings for [a report|a lesson|a paper] [about|on] {t}.
[Can you|Could you|Please] [write|make|give me] [an outline|a plan] [about|on] {t} with {k} [points|headings]?
[An outline|A plan] [of|for] {k} [points|headings] [about|on] {t}[, please|].
[Think of|Suggest|Propose] {k} [points|headings] for a text about {t}.
I am writing [an essay|an article|a text] about {t}. [Give me|I need] {k} [points|headings].
[Divide|Split] the topic {t} into {k} points.
[Topic|Subject|Theme]: {t}\\n[Points|Headings|Number of points]: {k}
For [a talk|an essay|a lesson] about {t}, [write|list|give me] {k} [points|headings].
{k} [numbered |]points on {t}.
[An outline|Outline|A plan], please.\\nTopic: {t}\\nLength: {k} points
Task: [outline|write an outline]\\n[About|Topic]: {t}\\n[How many points|Points]: {k}
[Outline|Plan] - {t} - {k} [points|headings]
{t}: [outline|plan] with {k} points
[Outline|Plan|Headings] [about|on|for]: {t}\\nPoints: {k}
Topic: {t}. Points: {k}. [Write the outline.|Outline it.|Make an outline.]
Points: {k}\\n[Topic|About]: {t}\\n[Write|Make] the outline.
[Text|Talk|Essay] about {t}\\n{k} [points|headings]
Number: {k} points\\nText: {t}\\n[Outline|Plan]:
[Article|Speech] title: {t}. Headings wanted: {k}.
Outline topic: {t}\\n[Points|Headings]: {k}
[Topic of the outline|The outline is about]: {t}\\n[Number of points|Points]: {k}
Write an outline.\\n[Subject|Theme]: {t}\\n[Points|Headings]: {k}
Points: {k}\\n[Topic|Theme|Subject]: {t}
[Topic|Theme|Subject] = {t}\\n[wanted|needed]: {k} [points|headings]
[Theme|Subject]: {t}\\n[Write|Make|Give] {k} [points|headings].
[Theme|Subject|Topic]: {t}\\nOutline: {k} [points|headings]
[Theme|Subject|Topic]: {t}\\n[How many points|How many headings]: {k}\\nOutline:
Outline\\n[Subject|Theme|Topic]: {t}\\n{k} [points|headings]
[Theme|Subject|Topic]: {t}\\nCount: {k} [points|headings]
{k} [points|headings]\\n[Theme|Subject|Topic]: {t}
[Talk|Essay|Article]: {t}\\n[Number of headings|Number of points|Size]: {k}
Plan [a text|a talk].\\n[Subject|Theme|Topic]: {t}\\n[Points|Headings]: {k}
Title: {t}\\n[Points|Headings]: {k}
[Theme|Subject|Topic]: {t}, [points|headings]: {k}, [outline, please|write it]
""",
)
OUTLINE_FREE = Pool(
    "outline.free",
    """
[Write|Create|Make|Plan] [an outline|a plan|headings] [about|on|for] {t}.
Write a short outline [on|about] {t}.
Outline a text about {t}.
Make an outline for [a talk|an essay] about {t}.
Draft an outline on {t}.
I need an outline about {t}.
Topic: {t}. Write an outline.
[Give me|Create] an outline about {t}.
Outline {t}.
Plan [a text|an essay|a talk] about {t}.
I want to write about {t}. Write an outline.
Write headings for a text about {t}.
What would be a good outline about {t}?
[Please|Can you] [outline|plan] [a text|a talk|an essay] about {t}[.|?]
Outline for [a talk|an essay|an article] [about|on] {t}[, please|].
[Think of|Suggest|Propose] an outline about {t}.
My topic is {t}. [Make|Write|Give me] an outline.
How would you outline [a text|a talk] about {t}?
An outline on {t}[, please|].
[Help me|I want to] [plan|write] a text about {t}. Make an outline.
""",
)
EXPAND_NUMBER = Pool(
    "expand.number",
    """
Expand point {i}[ of this outline|]:\\n{o}
{o}\\nExpand point {i}.
{o}\\n\\nWrite [more|a text] about point {i}.
Here is an outline:\\n{o}\\nExpand point {i}[| in one or two sentences].
{o}\\n[Explain|Develop] point {i}.
Outline:\\n{o}\\n\\nNow expand point {i}.
Expand the point number {i}:\\n{o}
Take point {i} of this outline and write [a short text|two sentences]:\\n{o}
[Please expand|Could you expand|Write more on] [point|item|number|heading] {i}:\\n{o}
{o}\\n[Please |Now |]expand [number|item|heading] {i}.
{o}\\n\\n[Expand|Develop|Unfold] [point|heading] {i} in [one or two|two|a few] sentences.
{o}\\nWrite [two sentences|a short text|some sentences] on [point|number] {i}.
This is my outline.\\n{o}\\nExpand point {i}.
My outline:\\n{o}\\n[I need|Give me|Write] [a text|two sentences|the text] for point {i}.
[Read|Look at] this outline and [expand|explain|develop] point {i}:\\n{o}
{o}\\nPoint {i}, please: [two sentences|a short text|write it out].
[Outline|Plan|Points]:\\n{o}\\n[Unfold|Fill out|Write out] point {i}.
Write [about|on] point {i} of [this|my] [list|plan|outline]:\\n{o}
{o}\\nTell me more about point {i}.
The outline is:\\n{o}\\nWhat can you say about point {i}?
{o}\\n[Turn|Make] point {i} into [sentences|a short text].
Expand only point {i}:\\n{o}
In this outline, [expand|explain|develop] point {i}.\\n{o}
""",
)
EXPAND = Pool(
    "expand.one",
    """
[Expand|Unfold|Write about] [this point|this|the point|the heading][| in one or two sentences|]: {p}
Expand [the point|this point]: {p}
Write [one or two|a few|some|two] sentences [about|on] [this point|the point|this heading]: {p}
Point: {p}\\n[Expand it|Expand this point].
[Write|Give me|Make] [a short paragraph|a paragraph|a short text|two sentences] [on|about]: {p}
Turn this point into [a short text|sentences]: {p}
[Develop|Explain] this point: {p}
[Expand|Develop|Explain|More on|Text for|Point|Heading]: {p}
[Expand|Write] on "{p}"[.| in two sentences.|]
"{p}" - write [two sentences|more] about this point.
Write a short paragraph for the heading "{p}".
[Write|Say|Tell me] more [about|on] ["{p}"|the point "{p}"].
Tell me more about this point: {p}
{p}\\n[Expand this point|Expand it|Write more].
[Expand|Develop] the point {p}.
Make two sentences from this heading: {p}
The point is "{p}". Expand it.
[Explain|Develop|Unfold] "{p}" in [one or two|two] sentences.
Here is a point: {p}\\nWrite [a few|two] sentences on it.
Write [a few|two] sentences on the point {p}.
Write a few lines on "{p}".
Heading: {p}\\n[Text:|Write the text.]
Heading {p}: write the text.
Fill out this point: {p}
This is the point: {p}\\n[Expand|Develop|Unfold] it.
[My|The|A] point: {p}\\n[Unfold|Develop|Explain|Expand] [it|this].
Here is my [heading|point]: {p}. [Expand|Develop|Explain] it.
{p}\\n[Develop|Unfold|Explain] [it|this|this point].
{p}: [write|give me] [two|some|a few] sentences.
{p}\\n\\n[Write a short text|Write two sentences|Make a paragraph] [on|about] this [point|heading].
"{p}"\\n[Expand this|Write a few sentences about it|Explain this].
[Please expand|Please write about|Could you expand] this [point|heading]: {p}
My outline has the [point|heading] {p}. [Expand|Develop|Explain] it.
[One|A] point of my outline is "{p}". [Write|Give me] [two sentences|a short text] [on|about] it.
Write [the text|a text] for this [point|heading]: {p}
[I want|I need] [a few|two] sentences [about|on] "{p}".
{p} - [expand|explain|develop] this.
What can you [write|say] about this [point|heading]: {p}
The heading is {p}. [Write|Give me] the text.
""",
)
BODY = [
    "{P} is [worth a closer look|an interesting point|a good place to start].", "Many people [think about|care about|talk about] {t} [every day|these days|more and more].", "It [helps|is useful] to look at {t} [with open eyes|step by step|from close up].",
    "[A good example|A simple example] shows how {t} [matter|change our day|work].", "With a little time, everyone can [learn something about|enjoy|understand] {t}.", "This part of {t} is [easy to miss|easy to understand|often forgotten].", "In the end, {t} [give us something new|are part of our life|make a difference].",
]  # fmt: skip


def topic(draw: Draw) -> str:
    """A topic: of the list or made up; of the list the withheld ones only in held-out prompts."""
    roll = draw.rng.random()
    noun = draw.pick(words.NOUNS)
    if roll < 0.08:
        return words.plural(draw.word())
    if roll < 0.16:
        return words.plural(noun)
    if roll < 0.24:
        return f"{draw.pick(words.ADJECTIVES)} {words.plural(noun)}"
    if roll < 0.32:
        return f"{noun} {words.plural(draw.pick(words.NOUNS))}"
    if roll < 0.38:
        return f"the {draw.pick([draw.noun(), draw.word(), draw.pick(words.ROOMS)])}"
    if roll < 0.44:
        return draw.pick(
            [
                draw.pick(words.HOBBIES),
                draw.pick(words.SUBJECTS),
                draw.pick(words.SPORTS),
                draw.pick(words.FOODS),
                draw.pick(words.DRINKS),
            ]
        )
    if roll < 0.48:
        return (
            f"{draw.noun()}-{draw.pick(['free', 'friendly', 'made', 'sized'])} {words.plural(noun)}"
        )
    if roll < 0.54:
        return draw.pick([draw.city(), draw.country(), draw.word(), f"{draw.word()} {draw.word()}"])
    if roll < 0.6:
        return f"{words.plural(draw.pick(words.ANIMALS))} {draw.pick(['in', 'and', 'of', 'for'])} {draw.pick(words.ROOMS)}s"
    keep = [t for i, t in enumerate(words.TOPICS) if (i % 10 in (3, 6, 9)) == draw.held]
    return draw.pick(keep)


def points(draw: Draw, t: str, number: int) -> list[str]:
    """Headings on the topic in the order of the places, the last place at the end: none can come twice."""
    chosen = [draw.pick(place) for place in [*PLACES[: number - 1], PLACES[-1]]]
    return [agree(a.replace("{t}", t).replace("{T}", knowledge.cap(t)), t) for a in chosen]


def numbered(items: list[str]) -> str:
    """`1. a`, a line each."""
    return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def outline(draw: Draw) -> Example:
    """An outline of so many numbered points, each about the topic."""
    t = topic(draw)
    free = draw.chance(0.25)
    k = 3 if free else draw.num(2, 5)
    shown = NUMBER_WORDS[k] if draw.chance(0.4) else str(k)
    ask = (
        draw.say(OUTLINE_FREE, t=t)
        if free
        else knowledge.cap(draw.say(OUTLINE, t=t, k=shown, K=knowledge.cap(shown)))
    )
    answer = numbered(points(draw, t, k))
    check = every(
        *(regex(rf"(?im)^{i}\. .*{_re(t)}") for i in range(1, k + 1)),
        regex(rf"^(?!.*(^|\n){k + 1}\.)"),
        {"kind": "distinct"},
    )
    rest: list[Message] = []
    if draw.chance(0.25):
        at = draw.num(1, k)
        rest = [
            (
                "user",
                draw.free(
                    "[Expand point {i}.|Now expand point {i}.|Write more about point {i}.|Tell me more about point {i}.]".replace(
                        "{i}", str(at)
                    )
                ),
            ),
            ("assistant", expansion(draw, answer.split("\n")[at - 1][3:], t)),
        ]
    return Example(
        "outline",
        system(draw, [("user", draw.loosen(ask))]),
        ("assistant", answer),
        check,
        rest,
        templates=draw.used,
    )


def _re(text: str) -> str:
    return "".join(c if c.isalnum() or c in " -_" else "." for c in text)


def expansion(draw: Draw, point: str, t: str) -> str:
    """One to three sentences that name the point and its topic."""
    number = draw.pick([2, 2, 2, 3, 1])
    body = [BODY[0], *draw.some(BODY[1:], number - 1)]
    if number == 1:
        return draw.free(BODY[0].replace("{P}", point))
    return " ".join(agree(draw.free(s.replace("{P}", point).replace("{t}", t)), t) for s in body)


def expand(draw: Draw) -> Example:
    """A point of an outline (in the prompt or in the chat) expanded."""
    t = topic(draw)
    listed = points(draw, t, draw.num(2, 5))
    at = draw.num(0, len(listed) - 1)
    point = listed[at]
    free = draw.chance(0.35)
    if free:
        head = draw.pick(
            [
                "tools",
                "soil",
                "rules",
                "tips",
                "games",
                "plans",
                "ideas",
                draw.word(),
                draw.noun(),
                words.plural(draw.pick(words.NOUNS)),
                draw.pick(words.FOODS),
            ]
        )
        point = listed[at] = knowledge.cap(f"{head} {draw.pick(['for', 'in', 'and', 'of'])} {t}")
    answer = expansion(draw, point, t)
    check = every(contains(t), contains(point), regex(r"\.\s*$"))
    roll = draw.rng.random()
    messages: list[Message]
    if roll < 0.35:
        messages = [("user", draw.say(EXPAND_NUMBER, i=at + 1, o=numbered(listed)))]
    elif roll < 0.55:
        first: list[Message] = [
            ("user", draw.say(OUTLINE_FREE, t=t)),
            ("assistant", numbered(listed)),
        ]
        messages = [
            *first,
            (
                "user",
                draw.free(
                    "[Expand point {i}.|Now expand point {i}.|Write about point {i}.|Expand point {i} in two sentences.]".replace(
                        "{i}", str(at + 1)
                    )
                ),
            ),
        ]
    else:
        messages = [
            (
                "user",
                draw.say(EXPAND, p=point if draw.chance(0.8) else point[0].lower() + point[1:]),
            )
        ]
    return Example(
        "expand", system(draw, messages), ("assistant", answer), check, templates=draw.used
    )


SUMMARY = Pool(
    "summary.ask",
    """
Summarise this list[| in one sentence]:
[Summarise|Summarize] the [following |]list[| in one sentence]:
Write [one sentence|a sentence|a short summary] [about|of] this list:
Sum up this list:
[Summarise|Summarize] these items[| in one sentence]:
[Give|Write] a [one-sentence |short |]summary of [the|this] list:
[Please summarise|Can you summarise] [this|my] list:
In one sentence, what does this list hold?
List:
What [is|do we have|stands] on this list? [Answer in one sentence|One sentence].
Here is a list. [Summarise it|Sum it up].
Describe the list in one sentence:
TLDR of this list:
Say in one sentence what is on this list:
Make one sentence from this list:
[Please|Can you] sum up the list[ below|]:
Put this list into one sentence:
My shopping list: [summarise it|sum it up in one sentence].
What do we have here? Sum up the list:
Tell me in one sentence what the list holds:
A summary of this list[, please|]:
Shorten this list to one sentence:
[What is in|What stands in] this list[? One sentence.|?]
[Name|Tell me] [everything on|all the things on] this list in one sentence:
Turn the list into [one|a] sentence:
I made a list. [Please summarise it|Sum it up for me].
[Summarise|Summarize|Sum up] [what is on|everything on] [the|this|my] list:
[Write|Say] what this list holds, in one sentence:
Give me [the list in one sentence|one sentence for this list]:
Short summary[ of the list|], please:
""",
)
COUNT = Pool(
    "summary.count",
    """
How many items are in this list?
[Count the items|How long is the list below|The length of my list|How long is my list]:
[How many things are on|How many items are on|How long is|How big is] the list?
[Give|Say] the number of items[ only|]:
How many [entries|words] does this list have?
Count [the things in|] this list:
How long is this list?
What is the number of items in this list?
How many are there?
Count them:
How many words are in this list? [Just the number.|]
How many things do you see in this list?
The number of items[, please|]:
[Tell me|Find|Say] how many [items|things|entries] [there are|are listed|this list has].
[How many|What number of] [items|things] [do you count|are listed|does the list hold]?
[Item count|Number of entries|Count of items]:
[How many different things|How many lines] are [here|in the list]?
I have this list. How many things is that?
[Please count|Can you count] [the items|the entries|these things].
""",
)
COMMON = Pool(
    "summary.common",
    """
[Which|What] [item|word] is [the most frequent|most common] in this list?
Which [item|word] [comes|appears] most often?
[Name|Find] the most frequent [item|word]:
What [is|comes] most often in this list?
Which one is there most often?
Most [frequent|common] item?
[Which|What] [item|word|thing] is there [most often|the most times]?
[Tell me|Say|Give me] the [item|word] that [comes|appears] most often.
What appears [most often|the most] [here|in the list]?
[Find|Name|Say] the [commonest|most common] [item|word].
Which word do you see most often?
One [item|word] comes more often than the others. Which?
""",
)


def _items(draw: Draw) -> list[str]:
    number = draw.num(2, 8)
    roll = draw.rng.random()
    if roll < 0.35:
        items = draw.some(
            words.CATEGORIES[
                draw.pick(
                    ["animal", "fruit", "colour", "vehicle", "job", "city", "drink", "country"]
                )
            ],
            number,
        )
    elif roll < 0.55:
        items = draw.some(words.FOODS + words.FRUITS, number)
    elif roll < 0.75:
        items = draw.some(words.NOUNS, number)
    elif roll < 0.85:
        items = [f"{draw.pick(words.ADJECTIVES)} {draw.noun()}" for _ in range(number)]
    elif roll < 0.93:
        items = draw.firsts(number)
    else:
        items = [draw.word() for _ in range(number)]
    if draw.chance(0.2):
        items = [
            words.plural(i) if i.islower() and not i.endswith("s") and " " not in i else i
            for i in items
        ]
    return list(dict.fromkeys(items))


def _shown(draw: Draw, items: list[str]) -> tuple[str, str]:
    roll = draw.rng.random()
    if roll < 0.4:
        return "\n", "\n".join(f"- {i}" for i in items)
    if roll < 0.5:
        return "\n", "\n".join(f"* {i}" for i in items)
    if roll < 0.65:
        return "\n", numbered(items)
    if roll < 0.75:
        return "\n", "\n".join(items)
    return draw.pick([" ", "\n"]), ", ".join(items)


def summarise(draw: Draw) -> Example:
    """A summary in one sentence, the number of items, or the most frequent one."""
    items = _items(draw)
    roll = draw.rng.random()
    check: Check
    if roll < 0.65:
        ask = draw.say(SUMMARY)
        answer = (
            f"The list has {len(items)} items: {words.listing(items)}."
            if len(items) > 1
            else f"The list has 1 item: {items[0]}."
        )
        check = every(contains(*items), contains(str(len(items))))
    elif roll < 0.85:
        ask, answer = draw.say(COUNT), str(len(items))
        check = equals(answer)
    else:
        items = items[:4]
        answer = draw.pick(items)
        items = draw.shuffled(items + [answer] * draw.num(1, 3))
        ask, check = draw.say(COMMON), equals(answer)
    sep, shown = _shown(draw, items)
    text = ask + sep + shown
    if draw.chance(0.2):
        bare = ask.rstrip(":")
        text = (
            shown
            + "\n"
            + draw.pick(["", "\n"])
            + (bare if bare.endswith(("?", ".")) else bare + ".")
        )
    return Example(
        "summarise",
        system(draw, [("user", text)]),
        ("assistant", answer),
        check,
        templates=draw.used,
    )


PRO = [
    "{T} make life [easier|better|richer] for [many|most|all] of us.", "{T} [help|bring] people [|to come ]together.".replace("[help|bring]", "bring").replace("[|to come ]", ""), "{T} are good for [families|children|the whole town|everyone].",
    "With {t} we [learn|gain] [something new every day|a lot].", "{T} [save time|save money|give us joy|keep us healthy].", "{T} are worth [the effort|the price|every minute].", "A world without {t} would be [poorer|sad|less kind].",
    "[Studies at home and common sense|Common sense and experience] speak for {t}.", "{T} cost little and give [much|a lot].", "That is why I am for {t}.", "We should [support|have more of] {t}.",
]  # fmt: skip
CON = [
    "{T} cost [too much|a lot of] [money|time].", "{T} make life [harder|more complicated] for [many|most] people.", "There are better things than {t}.", "{T} [take too much time|cause more trouble than joy|are bad for the purse].",
    "Not everyone [likes|can use|needs] {t}.", "With {t} we [lose|waste] [time|money] that we need elsewhere.", "{T} are [not worth the effort|often a burden|easy to do without].", "Life was fine without {t}.",
    "{T} divide people instead of helping them.", "That is why I am against {t}.", "We should have fewer of {t}, not more.".replace("fewer of", "less of"),
]  # fmt: skip
SIDES = {
    "for": "in favour|for it|for|pro|in favour of it|yes|on the supporting side",
    "against": "against|against it|contra|no|on the opposing side",
}
DEBATE = Pool(
    "debate.ask",
    """
Topic: {t}. Argue {s}, in {k}.
Topic: {t}. Argue {s}[.| in {k}.]
Give {one} argument {f} {t}.
Write {k} {g} {t}.
Argue {f} {t}[.| in {k}.]
[Make|Write] {one} [short |]argument {f} {t}.
Debate topic: {t}. Your side: {s}. [Make your point.|Speak.|]
You are {f} {t}. [Convince|Tell] [me|us] why[.| in {k}.]
Why [should we be|are you] {f} {t}?
Say why you are {f} {t}[.| in {k}.]
The topic is {t}. You argue {s}. [Give your opening statement.|Speak now.|]
Topic: {t}\\nSide: {s}
[Debate|Discussion|Topic]: {t}. [Side|Position|You are]: {s}[.|]
The debate is about {t}. Speak {f} {t} in {k}.
Write a short text {g} {t}.
[Speak|Say something] {f} {t}[.| in {k}.]
[Defend|Explain] in {k} why you are {f} {t}.
I want to hear an argument {f} {t}.
What speaks {f} {t}?
Name {one} reason {f} {t}.
Debate: {t}. Side: {s}.
Take the side {f} {t} and argue[ in {k}|].
Your topic: {t}. Your side: {s}. Length: {k}.
""",
)
DEBATE_SYSTEM = Pool(
    "debate.system",
    """
You argue {f} {t}.
You are a debater. You speak {f} {t}.
You are {f} {t}. Keep it short.
In this debate you argue {f} {t}.
You [take|are on] the side {f} {t}.
""",
)
NEXT = Pool(
    "debate.next",
    """
Your turn.
Please begin.
Make your [argument|point|opening statement].
The other side says: {o} [Answer them.|Your reply?|What do you say?|]
Reply to this: {o}
Your opponent said: "{o}" [Answer|Reply].
{o}
What do you say?
""",
)


SINGULAR = {" are ": " is ", " make ": " makes ", " bring ": " brings ", " help ": " helps ", " cost ": " costs ", " take ": " takes ", " save ": " saves ", " give us": " gives us", " divide ": " divides ", " change our": " changes our", " matter": " matters", " work.": " works.", " cause ": " causes ", " give ": " gives "}  # fmt: skip


def agree(text: str, t: str) -> str:
    """The sentence with its verbs in the singular right after a topic that is no plural."""
    if t.endswith("s") and t not in ("chess", "tennis", "history of buses"):
        return text
    for name in (t, knowledge.cap(t)):
        for many, one in SINGULAR.items():
            text = text.replace(name + many, name + one)
    return text


def argument(draw: Draw, t: str, side: str, number: int) -> str:
    """So many sentences for the side."""
    chosen = draw.some(PRO[:-2] if side == "for" else CON[:-2], max(1, number - 1))
    closing = (PRO if side == "for" else CON)[-2:]
    chosen = [*chosen, draw.pick(closing)] if number > 1 else chosen
    return " ".join(
        agree(draw.free(s.replace("{T}", knowledge.cap(t)).replace("{t}", t)), t) for s in chosen
    )


def debate(draw: Draw) -> Example:
    """An argument for or against, in one to three sentences."""
    t, side = topic(draw), draw.pick(["for", "against"])
    number = draw.pick([1, 2, 2, 3])
    counted = {1: "one sentence", 2: "two sentences", 3: "three sentences"}[number]
    slot = {
        "t": t,
        "s": draw.pick(SIDES[side].split("|")),
        "f": draw.pick(["for", "in favour of"]) if side == "for" else "against",
        "k": counted,
        "g": "in favour of" if side == "for" else "against",
        "one": "one",
    }
    check = every(contains(t), regex(r"\.\s*$"))
    other = argument(draw, t, "against" if side == "for" else "for", draw.num(1, 2))
    if draw.chance(0.3):
        messages: list[Message] = [
            ("system", draw.say(DEBATE_SYSTEM, **slot)),
            ("user", draw.say(NEXT, o=other, **{k: v for k, v in slot.items() if k != "o"})),
        ]
        return Example(
            "debate",
            messages,
            ("assistant", argument(draw, t, side, draw.num(1, 3))),
            check,
            templates=draw.used,
        )
    ask = draw.say(DEBATE, **slot)
    number = (
        1 if " one " in f" {ask.casefold()} " else number if "sentence" in ask else draw.num(1, 3)
    )
    messages = system(draw, [("user", draw.loosen(ask))])
    return Example(
        "debate",
        messages,
        ("assistant", argument(draw, t, side, number)),
        check,
        templates=draw.used,
    )


def winner(draw: Draw) -> Example:
    """A debate is judged: the side that argues better (more sentences on the topic) is named by the letters asked for."""
    t = topic(draw)
    good, poor = (
        argument(draw, t, draw.pick(["for", "against"]), 3),
        draw.pick(["I do not know.", "No.", "Maybe.", "I have nothing to say.", "Whatever."]),
    )
    letter = draw.pick("AB")
    a, b = (good, poor) if letter == "A" else (poor, good)
    text = draw.free(
        "[The topic is|Topic:|We debate] {t}.\n[Side A|A|Speaker A]: {a}\n[Side B|B|Speaker B]: {b}\n[Who argued better?|Which side is better?|Who wins?|Who won the debate?] [Reply with A or B.|Answer A or B.|A or B?]".replace(
            "{a}", a
        ).replace("{b}", b),
        t=t,
    )
    return Example(
        "debate",
        system(draw, [("user", text)]),
        ("assistant", letter),
        equals(letter),
        templates=draw.used,
    )


def sample_debate(draw: Draw) -> Example:
    """An argument, at times the judgement of two."""
    return winner(draw) if draw.chance(0.12) else debate(draw)


__all__ = ["choose", "expand", "outline", "sample_debate", "summarise"]
