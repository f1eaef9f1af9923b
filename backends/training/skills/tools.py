"""Calling a calculator or a one-parameter lookup tool in the chat format, and answering from its result."""

from __future__ import annotations

import json
from typing import Any

from skills import knowledge, people, words
from skills.core import SYSTEM, Draw, Example, Message, Pool, contains
from skills.people import ATTRIBUTES
from skills.phrases import Phrases

PHRASES = Phrases("tools")

CALCULATOR = PHRASES.lines("calculator")  # fmt: skip
LOOKUP = PHRASES.lines("lookup")
CALC_ASK = Pool(
    "calc.ask",
    PHRASES.text("calc.ask"),
)
CALC_STORY = Pool(
    "calc.story",
    PHRASES.text("calc.story"),
)
CALC_DONE = ["{e} is {r}.", "The result is {r}.", "The result is {r}.", "{e} = {r}."]


def schema(name: str, description: str, parameter: str, text: str) -> dict[str, Any]:
    """A tool with one string parameter, as chat formats announce it."""
    properties: dict[str, Any] = {
        parameter: {"type": "string", "description": text} if text else {"type": "string"}
    }
    return {
        "name": name,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": [parameter]},
    }


def calculator(draw: Draw) -> dict[str, Any]:
    """The calculator, in one of its descriptions."""
    return schema(
        draw.pick(["calculator"] * 4 + ["calculate"]),
        draw.pick(CALCULATOR),
        "expression",
        draw.pick(PHRASES.lines("calculator.2")),
    )


def number(draw: Draw) -> int:
    return (
        draw.num(2, 99)
        if draw.chance(0.5)
        else draw.num(100, 999)
        if draw.chance(0.7)
        else draw.num(1000, 99999)
    )


def expression(draw: Draw) -> str:
    """An expression of two or three numbers."""
    ops = draw.pick(["+", "-", "*", "*", "+", "/"])
    gap = draw.pick(["", " ", " "])
    a, b = number(draw), number(draw)
    if ops == "/":
        b = draw.num(2, 30)
        a = b * draw.num(2, 99)
    if draw.chance(0.25):
        inner = f"{a}{gap}{draw.pick('+-')}{gap}{number(draw)}"
        return (
            f"({inner}){gap}*{gap}{draw.num(2, 99)}"
            if draw.chance(0.6)
            else f"{inner}{gap}+{gap}{b}"
        )
    return f"{a}{gap}{ops}{gap}{b}"


def value_of(expression: str) -> str:
    """The value, as the calculator prints it."""
    result = eval(expression, {"__builtins__": {}})
    return str(int(result)) if result == int(result) else f"{result:.2f}"


def _words_of(draw: Draw, text: str) -> str:
    swaps = {
        "*": draw.pick(["times", "multiplied by", "x"]),
        "+": "plus",
        "-": "minus",
        "/": "divided by",
    }
    simple = text.replace(" ", "")
    for sign, word in swaps.items():
        simple = simple.replace(sign, f" {word} ")
    return simple


def calc_call(draw: Draw, tool: dict[str, Any]) -> tuple[str, str, str, str]:
    """A question for the calculator: question, expression, result, final answer."""
    if draw.chance(0.3):
        a, b, c, d = number(draw), draw.num(2, 99), draw.num(200, 999), draw.num(20, 999)
        d2 = draw.num(2, 199)
        noun = words.plural(draw.pick(words.COUNTABLE))
        index = draw.say(
            CALC_STORY,
            a="{a}",
            b="{b}",
            c="{c}",
            d="{d}",
            d2="{d2}",
            S=draw.first(),
            n=noun,
            c2=words.plural(draw.pick(words.CONTAINERS)),
        )
        text = index.format(a=a, b=b, c=c, d=d, d2=d2)
        expr = (
            f"{a} * {b}" if "{a}" in index else f"{c} - {d2}" if "{d2}" in index else f"{c} + {d}"
        )
        return text, expr, value_of(expr), f"The result is {value_of(expr)}."
    expr = expression(draw)
    shown = _words_of(draw, expr) if draw.chance(0.2) and "(" not in expr else expr
    if shown != expr:
        expr = expr.replace(" ", "")
        expr = "".join(f" {c} " if c in "+-*/" else c for c in expr)
    result = value_of(expr)
    return draw.say(CALC_ASK, e=shown), expr, result, draw.pick(CALC_DONE).format(e=expr, r=result)


LOOK_ASK = Pool(
    "look.ask",
    PHRASES.text("look.ask"),
)


def lookup_call(draw: Draw) -> tuple[dict[str, Any], str, str, str, str]:
    """A question for a lookup tool: tool, question, argument, result, final answer."""
    if draw.chance(0.55):
        return _relation_call(draw)
    return _one_thing_call(draw)


def _relation_call(draw: Draw) -> tuple[dict[str, Any], str, str, str, str]:
    relation, kind = draw.pick(knowledge.RELATIONS).split(":")
    relation, subject, value = (
        relation.replace("_", " "),
        knowledge.relation_subject(draw),
        knowledge.relation_value(draw, kind),
    )
    if draw.chance(0.25):
        key = draw.pick([k for k in people.TEXTUAL if k not in ("pets", "owns", "ride")])
        relation, subject, value = (
            ATTRIBUTES[key].label,
            draw.full(),
            people.shown(key, ATTRIBUTES[key].value(draw)),
        )
        kind = (
            "name"
            if key in ("brother", "sister", "partner", "boss", "best_friend", "neighbour")
            else ""
        )
    argument = f"{relation} of {subject}"
    question = draw.say(
        LOOK_ASK, q=knowledge.relation_ask(draw, relation, kind, subject), k=f"the {argument}"
    )
    tool = schema(
        draw.pick(["lookup", "lookup", "search", "find_fact", "search_notes", "wiki", "query"]),
        draw.pick(LOOKUP),
        draw.pick(["key", "key", "query", "query", "q", "text", "topic", "question"]),
        draw.pick(PHRASES.lines("relation_call")),
    )
    return tool, question, argument, value, knowledge.cap(f"the {argument} is {value}.")


ABOUT = [
    ("get_weather|weather|get_weather", "city|city|location", "Get the weather for a city.|The weather in a city.|Current weather of a city.", "city",
     "What is the weather [like |]in {x}?|How is the weather in {x}[ today|]?|Tell me the weather in {x}.|Is it [warm|raining] in {x}?|Do I need [an umbrella|a coat] in {x}?|Weather in {x}?",
     "sunny, 21 degrees|rain, 12 degrees|cloudy, 15 degrees|snow, 1 degree|windy, 9 degrees|fog|sunny|storm", "The weather in {x}: {r}."),
    ("find_phone|get_phone|phone_number", "name|name|person", "Find the phone number of a person.|Get someone's phone number.", "person",
     "What is the phone number of {x}?|What is {x}'s phone number?|How can I call {x}?|Find the phone number of {x}.|Give me the phone number of {x}.|What number does {x} have?|I need to call {x}.|I want to call {x}. Which number?", "phone", "The phone number of {x} is {r}."),
    ("find_email|get_email", "name|name|person", "Find the email address of a person.", "person",
     "What is the email address of {x}?|What is {x}'s email?|I want to write to {x}. Which address?|Find the email address of {x}.", "email", "The email address of {x} is {r}."),
    ("get_price|price_of|check_price", "product|item|name", "Get the price of a product.|Look up a price.", "noun",
     "How much is the {x}?|What does the {x} cost?|What is the price of the {x}?|Check the price of the {x}.|Price of the {x}?", "price", "The {x} costs {r}."),
    ("get_stock|check_stock", "product|item", "How many of a product are in stock.", "noun",
     "How many of the {x} are in stock?|Is the {x} in stock?|Check the stock of the {x}.|Do we have the {x} in stock?", "number", "In stock for the {x}: {r}."),
    ("get_time|current_time", "city|place", "The current time in a city.", "city",
     "What time is it in {x}?|Tell me the time in {x}.|What is the time in {x} now?|Time in {x}?", "time", "In {x} it is {r}."),
    ("get_age|find_age", "name|person", "Find the age of a person.", "person",
     "How old is {x}?|What is the age of {x}?|Find the age of {x}.|Tell me how old {x} is.|I need the age of {x}.|Look up the age of {x}.|What age is {x}?", "age", "{x} is {r} years old."),
    ("translate|translate_word", "word|text", "Translate a word.", "noun",
     "Translate the word {x}.|What is {x} in the other language?|How do you say {x}?|Please translate {x}.", "word", "The translation of {x} is {r}."),
    ("define|dictionary|get_definition", "word|term", "Define a word.|The meaning of a word.", "madeup",
     "What does {x} mean?|What is the meaning of {x}?|Define {x}.|I do not know the word {x}.|What is {x}?|Give me the definition of {x}.|Define the word {x}.|Look up the word {x}.", "noun", "The word {x} means {r}."),
    ("find_address|get_address", "name|place|person", "Find an address.", "person",
     "Where does {x} live?|What is the address of {x}?|Find the address of {x}.|I want to visit {x}. Where do I go?", "address", "The address of {x} is {r}."),
    ("find_author|get_author", "title|book", "Find the author of a book.", "title",
     "Who wrote {x}?|Who is the author of {x}?|Find the author of {x}.|Which author wrote {x}?|Name the author of {x}.|Tell me who wrote {x}.|By whom is the book {x}?", "name", "The author of {x} is {r}."),
]  # fmt: skip


def _thing(draw: Draw, kind: str) -> str:
    if kind == "noun":
        return f"{draw.pick(words.ADJECTIVES)} {draw.noun()}" if draw.chance(0.3) else draw.noun()
    if kind == "title":
        return people.book_title(draw)
    makers = {"city": draw.city, "person": draw.person, "madeup": draw.word}
    return makers[kind]()


def _result(draw: Draw, kind: str) -> str:
    if "|" in kind:
        return draw.pick(kind.split("|"))
    special = {"phone": "phone", "email": "email"}
    return (
        str(ATTRIBUTES[special[kind]].value(draw))
        if kind in special
        else str(draw.num(5, 95))
        if kind == "age"
        else knowledge.relation_value(draw, kind)
    )


def _one_thing_call(draw: Draw) -> tuple[dict[str, Any], str, str, str, str]:
    names, parameters, descriptions, kind, asks, results, done = draw.pick(ABOUT)
    x = _thing(draw, kind)
    variants = _bar_split(asks)
    allowed = [v for i, v in enumerate(variants) if (i % 3 == 2) == draw.held] or variants
    question = draw.free(draw.pick(allowed), x=x)
    result = _result(draw, results)
    tool = schema(
        draw.pick(names.split("|")),
        draw.pick([*descriptions.split("|"), ""]),
        draw.pick(parameters.split("|")),
        draw.pick(["", "", f"The {kind}.", "Name of it"]),
    )
    return tool, question, x, result, done.format(x=x, r=result)


def _bar_split(text: str) -> list[str]:
    out, depth, part = [], 0, ""
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "|" and depth == 0:
            out.append(part)
            part = ""
        else:
            part += char
    return [*out, part]


def other_tool(draw: Draw) -> dict[str, Any]:
    """Some tool that is not needed."""
    names, parameters, descriptions, *_ = draw.pick(ABOUT)
    return schema(
        draw.pick(names.split("|")),
        draw.pick(descriptions.split("|")),
        draw.pick(parameters.split("|")),
        "",
    )


def announce(tools: list[dict[str, Any]]) -> str:
    """The lines of the system message that announce tools, as the chat template writes them."""
    return "\n".join(
        ["You can use these tools:", *(json.dumps(t, ensure_ascii=False) for t in tools)]
    )


def with_tools(draw: Draw, tools: list[dict[str, Any]], messages: list[Message]) -> list[Message]:
    """The messages under a system message that announces the tools."""
    own = (
        draw.free(
            "[Use the tools when you need them.|Use a tool if it helps.|Answer with the help of your tools.]"
        )
        if draw.chance(0.3)
        else draw.say(SYSTEM)
    )
    text = announce(tools)
    roll = draw.rng.random()
    text = (
        f"{text}\n{own}"
        if roll < 0.2
        else f"{own}\n{text}"
        if roll < 0.45
        else f"{own}\n\n{text}"
        if roll < 0.6
        else text
    )
    return [("system", text), *messages]


def call_text(tool: dict[str, Any], argument: str) -> str:
    """The JSON of a call."""
    return json.dumps(
        {"name": tool["name"], "arguments": {tool["parameters"]["required"][0]: argument}},
        ensure_ascii=False,
    )


def build(draw: Draw, skill: str) -> Example:
    """A call, its result and the answer; the check is on the answer, `results` holds what the tool says."""
    if skill == "calculator":
        tool = calculator(draw)
        question, argument, result, final = calc_call(draw, tool)
    else:
        tool, question, argument, result, final = lookup_call(draw)
    tools = [tool]
    if draw.chance(0.4):
        extra = other_tool(draw) if skill == "calculator" else calculator(draw)
        tools = [t for t in draw.shuffled([tool, extra]) if t is tool or t["name"] != tool["name"]]
    messages: list[Message] = []
    if draw.chance(0.15):
        messages = [
            ("user", draw.pick(["Hello!", "Hi.", "Good morning."])),
            ("assistant", draw.pick(["Hello! How can I help?", "Hello!"])),
        ]
    messages = with_tools(draw, tools, [*messages, ("user", draw.loosen(question))])
    call = call_text(tool, argument)
    rest: list[Message] = [("tool", result), ("assistant", final)]
    if draw.chance(0.2):
        rest += _again(draw, tools)
    results = {call: result}
    return Example(
        skill, messages, ("call", call), contains(result), rest, tools, results, templates=draw.used
    )


def _again(draw: Draw, tools: list[dict[str, Any]]) -> list[Message]:
    calculators = [t for t in tools if t["parameters"]["required"] == ["expression"]]
    if not calculators:
        return [("user", draw.pick(["Thanks!", "Thank you."])), ("assistant", "You are welcome!")]
    question, argument, result, final = calc_call(draw, calculators[0])
    return [
        ("user", question),
        ("call", call_text(calculators[0], argument)),
        ("tool", result),
        ("assistant", final),
    ]


def direct(draw: Draw) -> Example:
    """Tools are there, but the prompt holds the answer (or it is only a greeting)."""
    tools = [calculator(draw)] if draw.chance(0.5) else [other_tool(draw)]
    if draw.chance(0.3):
        ask, answer = draw.pick(
            [
                ("Hello!", "Hello! How can I help?"),
                ("Thanks.", "You are welcome!"),
                ("Hi there", "Hello! How can I help?"),
            ]
        )
        return Example(
            "calculator",
            with_tools(draw, tools, [("user", ask)]),
            ("assistant", answer),
            contains(answer[:5]),
            templates=draw.used,
        )
    qa = knowledge.any_qa(draw)
    text = " ".join(qa.facts) + draw.pick([" ", "\n", "\n\n"]) + qa.question
    messages = with_tools(draw, tools, [("user", text)])
    return Example(
        "lookup", messages, ("assistant", qa.short + "."), contains(qa.short), templates=draw.used
    )


def sample_calculator(draw: Draw) -> Example:
    """The calculator; at times a question that needs no tool."""
    return direct(draw) if draw.chance(0.1) else build(draw, "calculator")


def sample_lookup(draw: Draw) -> Example:
    """A lookup tool."""
    return build(draw, "lookup")
