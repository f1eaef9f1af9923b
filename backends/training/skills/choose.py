"""Choosing one of the options that the prompt names."""

from __future__ import annotations

from skills import knowledge, words
from skills.core import Draw, Example, Message, Pool, equals, system
from skills.phrases import Phrases

PHRASES = Phrases("choose")

ENDING = Pool(
    "choose.ending",
    PHRASES.text("choose.ending"),
)
LETTERS_END = Pool(
    "choose.letters",
    PHRASES.text("choose.letters"),
)
SENTIMENT_ASK = Pool(
    "choose.sentiment",
    PHRASES.text("choose.sentiment"),
)
GOOD = _GOOD = PHRASES.lines("good")
BAD = PHRASES.lines("bad")
NEUTRAL = ["average", "ordinary", "normal", "okay", "usual", "standard", "medium", "acceptable"]
ASPECTS = PHRASES.lines("aspects")
FEEL = {
    "positive": "I [love|loved|really liked|enjoyed] it.|I will come [again|back].|[Highly recommended|I recommend it to everyone].|Thank you so much!|Everything worked [well|perfectly].|[What a|A] [lovely|great|wonderful] {t}!|I am very happy with the {t}.|Best {t} ever!|The {t} made my day.|[Five stars|Ten out of ten].|I had a [great|wonderful|lovely] time.|We [smiled|laughed] the whole evening.|It works [great|very well].|I could not be happier.",
    "negative": "I [hate|hated|did not like|disliked] it.|I will never come [again|back].|[I do not recommend it|Stay away].|I want my money back.|It broke after [one day|a week].|[What a|A] [terrible|horrible|sad] {t}!|I am [angry|unhappy|disappointed] with the {t}.|Worst {t} ever.|The {t} ruined my day.|[One star|Zero stars].|It was a waste of [time|money].|We waited for [an hour|two hours].|It does not work.|Never again.|I was bored.|Nobody helped us.",
    "neutral": "It was [okay|average].|Nothing special.|Neither good nor bad.|It does what it should.|The {t} is a {t}.|I have no [strong |]opinion.|It arrived on {d}.|The {t} is as expected.",
}


def _opinion(draw: Draw, mood: str) -> str:
    lists = {"positive": GOOD, "negative": BAD, "neutral": NEUTRAL}
    parts = []
    for _ in range(draw.num(1, 3)):
        thing = draw.pick(ASPECTS)
        roll = draw.rng.random()
        if roll < 0.4:
            other = draw.pick(ASPECTS)
            word = draw.pick(lists[mood])
            parts.append(
                draw.free(
                    "The {t} was [very |so |really |]{w}[| and the {u} was {v}].",
                    t=thing,
                    w=word,
                    u=other,
                    v=draw.pick(lists[mood]),
                )
            )
        elif roll < 0.55 and mood != "neutral":
            bad = draw.pick(BAD if mood == "positive" else GOOD)
            parts.append(draw.free("The {t} was not {w}[ at all|].", t=thing, w=bad))
        else:
            choices = _top(FEEL[mood])
            parts.append(draw.free(draw.pick(choices), t=thing, d=draw.pick(words.DAYS)))
    return " ".join(parts)


def _top(text: str) -> list[str]:
    out, depth, part = [], 0, ""
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == "|" and depth == 0:
            out.append(part)
            part = ""
        else:
            part += char
    return [*out, part]


def sentiment(draw: Draw) -> tuple[str, list[str], str]:
    """A review and its mood."""
    labels = draw.pick(
        [
            ["positive", "negative"],
            ["positive", "negative", "neutral"],
            ["positive", "negative"],
            ["good", "bad"],
            ["happy", "unhappy"],
            ["like", "dislike"],
        ]
    )
    index = draw.num(0, len(labels) - 1)
    text = _opinion(draw, ["positive", "negative", "neutral"][index])
    ask = draw.say(SENTIMENT_ASK)
    quoted = f'"{text}"' if draw.chance(0.6) else text
    joined = (
        f"{ask} {quoted}"
        if draw.chance(0.6)
        else f"{ask}\n{quoted}"
        if draw.chance(0.6)
        else f"{quoted}\n{ask}"
    )
    return joined, labels, labels[index]


KIND_OF = Pool(
    "choose.kindof",
    PHRASES.text("choose.kindof"),
)
WHICH_IS = Pool(
    "choose.whichis",
    PHRASES.text("choose.whichis"),
)
ODD = Pool(
    "choose.odd",
    PHRASES.text("choose.odd"),
)


def _category(draw: Draw, skip: tuple[str, ...] = ()) -> str:
    return draw.pick([c for c in words.CATEGORIES if c not in skip])


OVERLAP = [{"animal", "bird"}, {"job", "animal"}, {"tool", "metal"}, {"colour", "metal", "flower", "fruit"}, {"season", "month"}, {"body part", "animal"}, {"language", "school subject", "country"}, {"meal", "drink"}, {"fruit", "vegetable", "tree"}, {"body part", "sport"}, {"flower", "colour", "tree"}, {"shape", "animal"}, {"city", "country"}, {"room", "piece of furniture"}, {"musical instrument", "tool"}]  # fmt: skip


def _clash(a: str, b: str) -> bool:
    return a == b or any(a in group and b in group for group in OVERLAP)


def _categories(draw: Draw, number: int) -> list[str]:
    chosen = [_category(draw)]
    while len(chosen) < number:
        new = _category(draw)
        if not any(_clash(new, c) for c in chosen):
            chosen.append(new)
    return chosen


def _noun_phrase(category: str, word: str) -> str:
    bare = (
        "sport",
        "country",
        "city",
        "day of the week",
        "month",
        "language",
        "school subject",
        "metal",
        "drink",
        "colour",
        "meal",
        "season",
    )
    return (
        word
        if category in bare
        or (word.endswith("s") and category == "tool")
        or (
            category == "vegetable"
            and word in ("spinach", "lettuce", "broccoli", "celery", "garlic", "kale")
        )
        else words.article(word)
    )


def kind(draw: Draw) -> tuple[str, list[str], str]:
    """A word and categories."""
    categories = _categories(draw, draw.num(2, 4))
    right = categories[0]
    word = draw.pick(words.CATEGORIES[right])
    labels = [words.CATEGORY_SHORT.get(c, c) for c in categories]
    phrase = _noun_phrase(right, word)
    return (
        draw.say(KIND_OF, x=phrase, X=knowledge.cap(phrase), w=word),
        draw.shuffled(labels),
        labels[0],
    )


def which(draw: Draw) -> tuple[str, list[str], str]:
    """Words and one category."""
    categories = _categories(draw, draw.num(2, 4))
    chosen = [draw.pick(words.CATEGORIES[c]) for c in categories]
    name = draw.pick(words.CATEGORY_NAMES.get(categories[0], [categories[0]]))
    return draw.say(WHICH_IS, k=words.article(name), K=name), draw.shuffled(chosen), chosen[0]


def odd(draw: Draw) -> tuple[str, list[str], str]:
    """Three of one kind and one of another."""
    a, b = _categories(draw, 2)
    chosen = draw.some(words.CATEGORIES[a], min(draw.num(2, 4), len(words.CATEGORIES[a])))
    other = draw.pick(words.CATEGORIES[b])
    return draw.say(ODD), draw.shuffled([*chosen, other]), other


TOPIC_ASK = Pool(
    "choose.topic",
    PHRASES.text("choose.topic"),
)
TOPICS: dict[str, str] = {
    "billing": "I was charged twice.|My invoice is wrong.|Why did I pay {n} dollars?|I [need|want] a receipt for my payment.|The bill is too high.|My card was charged by mistake.|There is an error on my invoice.|You took {n} dollars too much from my account.|Can I pay by card?",
    "delivery": "My parcel has not arrived.|Where is my package?|The {t} was sent to the wrong address.|When will my order arrive?|The courier did not come.|My order is late.|I am still waiting for the {t}.|The box came damaged in the mail.|How long does shipping take?",
    "account": "I forgot my password.|I cannot log in.|How do I change my email address?|Please delete my account.|My user name does not work.|I want to change my password.|The login page does not accept my name.|My account is locked.",
    "refund": "I want my money back.|Please refund my order.|I would like to return the {t} and get the money back.|When do I get my refund?|I sent the {t} back, where is my money?|Can I get a refund for the {t}?",
    "technical": "The app crashes.|The {t} does not turn on.|The screen stays black.|I get an error when I start the program.|The website is down.|The {t} stopped working.|The software does not start.|My printer shows an error code.",
    "complaint": "Your staff was rude.|I am very unhappy with your service.|I want to complain about the driver.|This is the worst shop ever.|I am angry about how I was treated.",
    "hours": "When do you open?|Are you open on Sunday?|What are your opening hours?|Until when is the shop open today?|Do you close at noon?",
    "sports": "The team won the match {n} to 1.|The player scored two goals.|The runner set a new record.|The coach praised her players.|The final of the cup is on Sunday.",
    "weather": "It will rain tomorrow.|A storm is coming from the sea.|Expect snow and {n} degrees.|The sun will shine all day.|Fog in the morning, then sun.",
    "food": "Add salt and cook the rice for {n} minutes.|The new restaurant serves pasta.|Bake the bread until it is brown.|The soup needs more pepper.",
    "politics": "The parliament voted on a new law.|The minister gave a speech.|The election is in May.|The mayor was elected again.|The government raised the tax.",
    "music": "The band plays a new song.|The singer gave a concert.|The choir practises every week.|Her new album has {n} songs.",
    "travel": "We booked a flight to Rome.|The hotel is near the beach.|Our train leaves at noon.|I packed my suitcase for the trip.",
    "health": "Drink water and sleep enough.|The doctor gave him medicine.|She has a headache.|The nurse took his temperature.",
    "science": "Researchers found a new planet.|The experiment measured light.|Scientists study how bees fly.|The telescope saw a distant star.",
    "money": "The bank raised its rates.|Shares fell by {n} percent.|The company made a profit.|Prices went up again.",
}  # fmt: skip
SYN = {
    "technical": ["technical", "technical support", "support"],
    "account": ["account", "login"],
    "hours": ["opening hours", "hours"],
    "delivery": ["delivery", "shipping"],
    "money": ["money", "business"],
}
RIVALS = [
    {"refund", "billing", "money", "complaint"},
    {"delivery", "refund", "travel"},
    {"food", "health"},
    {"complaint", "technical", "delivery"},
]


def topic(draw: Draw) -> tuple[str, list[str], str]:
    """A message and labels."""
    shop = draw.chance(0.65)
    pool = list(TOPICS)[:7] if shop else list(TOPICS)[7:]
    right = draw.pick(pool)
    others = [
        t
        for t in draw.shuffled(pool)
        if t != right and not any(t in r and right in r for r in RIVALS)
    ][: draw.num(1, 3)]
    text = draw.free(draw.pick(_top(TOPICS[right])), n=draw.num(10, 99), t=draw.pick(words.NOUNS))
    names = {t: draw.pick(SYN.get(t, [t])) for t in [right, *others]}
    quoted = draw.pick(['"{}"', "{}", '"{}"', "Message: {}"]).format(text)
    ask = draw.say(TOPIC_ASK)
    joined = (
        f"{ask} {quoted}"
        if draw.chance(0.5)
        else f"{ask}\n{quoted}"
        if draw.chance(0.5)
        else f"{quoted}\n{ask}"
    )
    return joined, draw.shuffled(list(names.values())), names[right]


SIZE_ASK = Pool(
    "choose.size",
    PHRASES.text("choose.size"),
)


def size(draw: Draw) -> tuple[str, list[str], str]:
    """Numbers; the largest or the smallest."""
    top = draw.pick([20, 100, 1000])
    numbers = draw.some(range(1, top), draw.num(2, 4))
    word, right = draw.pick(
        [
            ("largest", max(numbers)),
            ("biggest", max(numbers)),
            ("smallest", min(numbers)),
            ("highest", max(numbers)),
            ("lowest", min(numbers)),
        ]
    )
    return draw.say(SIZE_ASK, w=word), [str(n) for n in numbers], str(right)


USE_ASK = Pool(
    "choose.use",
    PHRASES.text("choose.use"),
)


def use(draw: Draw) -> tuple[str, list[str], str]:
    """A purpose and things."""
    chosen = draw.some(list(words.USES), draw.num(2, 4))
    right = draw.pick(words.USES[chosen[0]])
    others: list[str] = []
    for each in chosen[1:]:
        thing = draw.pick(words.USES[each])
        if thing not in words.USES[chosen[0]] and thing not in others:
            others.append(thing)
    others = others or ["cloud"]
    ask = draw.say(USE_ASK, u=chosen[0], S=draw.first(), s=draw.pick(["she", "he"]))
    return ask, draw.shuffled([right, *others]), right


def from_text(draw: Draw) -> tuple[str, list[str], str]:
    """A text in the prompt names the right option."""
    qa = knowledge.any_qa(draw)
    while (
        not qa.wrong
        or len(qa.bare) > 30
        or any(w.casefold() == qa.bare.casefold() for w in qa.wrong)
    ):
        qa = knowledge.any_qa(draw)
    others = list(dict.fromkeys(qa.wrong))[: draw.num(1, 3)]
    facts = draw.pick(["", "", "Text: ", "Facts: "]) + " ".join(qa.facts)
    return facts + draw.pick([" ", "\n"]) + qa.question, draw.shuffled([qa.bare, *others]), qa.bare


OFFER = Pool(
    "choose.offer",
    PHRASES.text("choose.offer"),
)


def offer(draw: Draw) -> tuple[str, list[str], str]:
    """Somebody's preference."""
    pool = draw.pick([words.DRINKS, words.FOODS, words.COLOURS, words.SPORTS, words.HOBBIES])
    options = draw.some(pool, draw.num(2, 4))
    text = draw.say(OFFER, S=draw.first(), x=options[0], y=options[1], l="likes")
    if "does not want" in text:
        options = options[:2]
    return text, draw.shuffled(options), options[0]


SAME = Pool(
    "choose.same",
    PHRASES.text("choose.same"),
)


def same(draw: Draw) -> tuple[str, list[str], str]:
    """The option is named outright."""

    def number() -> str:
        return str(draw.num(1, 999))

    maker = draw.pick([draw.noun, draw.first, draw.word, draw.city, number])
    options = list(dict.fromkeys(maker() for _ in range(draw.num(2, 4))))
    right = draw.pick(options)
    return draw.say(SAME, x=right, S=draw.first()), options, right


def _lettered(draw: Draw, text: str, options: list[str], right: str) -> tuple[str, str]:
    style = draw.pick(["{l}) {o}", "{l}. {o}", "{l}: {o}", "({l}) {o}"])
    names = "ABCDEF"
    lines = [style.format(l=names[i], o=o) for i, o in enumerate(options)]
    sep = draw.pick(["\n", "\n", "\n", "  "])
    end = "\n" + draw.say(LETTERS_END) if draw.chance(0.8) else ""
    return f"{text}\n{sep.join(lines)}{end}", names[options.index(right)]


def _worded(draw: Draw, text: str, options: list[str]) -> str:
    quoted = [f'"{o}"' for o in options] if draw.chance(0.08) else options
    listed = ", ".join(quoted)
    either = words.listing(quoted, "or")
    slots = {
        "o": listed,
        "o2": words.listing(quoted),
        "o3": either,
        "O3": knowledge.cap(either),
        "o1": "/".join(options),
    }
    roll = draw.rng.random()
    if roll < 0.1:
        return (
            f"{text}\n"
            + "\n".join(f"- {o}" for o in options)
            + draw.pick(["", "\nChoose one.", "\nAnswer with one of them."])
        )
    if roll < 0.18:
        return f"{draw.say(ENDING, **slots)}\n{text}"
    if roll < 0.24:
        return f"{text} {either}?".replace("?? ", "? ")
    return text + draw.pick([" ", "\n", "\n", " "]) + draw.say(ENDING, **slots)


def sample(draw: Draw) -> Example:
    """One choice of any kind, options as words or with letters."""
    makers = [
        sentiment,
        sentiment,
        kind,
        which,
        which,
        odd,
        topic,
        size,
        use,
        from_text,
        from_text,
        offer,
        same,
    ]
    maker = draw.pick(makers)
    text, options, right = maker(draw)
    options = list(dict.fromkeys(options))
    if draw.chance(0.8 if maker is same else 0.32):
        prompt, answer = _lettered(draw, text, options, right)
    else:
        prompt, answer = _worded(draw, text, options), right
    messages: list[Message] = system(draw, [("user", prompt)])
    return Example("choose", messages, ("assistant", answer), equals(answer), templates=draw.used)
