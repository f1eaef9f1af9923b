"""The vocabulary of the generator: plain word lists, and the small grammar (plural, article, made-up words) that they need."""

from __future__ import annotations

import random

from skills.phrases import Phrases

PHRASES = Phrases("words")


def _split(text: str) -> list[str]:
    return [word.replace("_", " ") for word in text.split()]


FIRST = _split(PHRASES.text("first"))
LAST = _split(PHRASES.text("last"))
CITIES = _split(PHRASES.text("cities"))
COUNTRIES = _split(PHRASES.text("countries"))
JOBS = _split(PHRASES.text("jobs"))
ANIMALS = _split(PHRASES.text("animals"))
FRUITS = _split(PHRASES.text("fruits"))
VEGETABLES = [
    *_split(
        """\ncarrot potato onion tomato cabbage bean pea leek pumpkin cucumber pepper radish turnip beet cauliflower eggplant\n"""
    ),
    "spinach",
    "lettuce",
    "broccoli",
    "celery",
    "garlic",
    "kale",
]
TOOLS = _split("hammer saw drill screwdriver wrench shovel rake axe chisel ladder spade hoe")
TOOL_EXTRA = ["pliers", "scissors", "tape measure", "paintbrush"]
COLOURS = _split("red blue green yellow black white brown grey pink purple orange silver golden")
VEHICLES = _split(
    "car bus train bicycle truck tram boat ship plane scooter van taxi ferry motorcycle tractor helicopter canoe"
)
CLOTHING = _split(
    "hat coat shirt jacket scarf sock shoe boot glove dress skirt sweater belt cap tie"
)
FURNITURE = _split(
    "table chair sofa bed desk shelf wardrobe bench stool cupboard bookcase armchair"
)
INSTRUMENTS = _split(
    "piano violin guitar flute drum trumpet cello harp clarinet organ trombone banjo accordion oboe saxophone"
)
DRINKS = PHRASES.lines("drinks")
FOODS = _split(PHRASES.text("foods"))
SPORTS = _split(
    "football tennis hockey golf rugby cricket basketball volleyball swimming rowing boxing fencing judo skiing cycling"
)
SUBJECTS = _split("""
history physics chemistry biology law medicine music mathematics geography economics philosophy literature astronomy geology art botany
""")
LANGUAGES = _split(PHRASES.text("languages"))
HOBBIES = _split(PHRASES.text("hobbies"))
NOUNS = _split(PHRASES.text("nouns"))
COUNTABLE = _split(PHRASES.text("countable"))
CONTAINERS = _split(
    "bag box basket crate pack jar tray carton case shelf bucket sack drawer album packet"
)
ADJECTIVES = _split(PHRASES.text("adjectives"))
ROOMS = _split(PHRASES.text("rooms"))
SPOTS = _split(
    "table chair shelf bed desk sofa roof floor bench box tree bridge car door window piano cabinet"
)
DAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _split(
    "January February March April May June July August September October November December"
)
TRAITS = _split(
    "kind shy brave funny clever calm cheerful curious patient honest lazy proud gentle stubborn polite serious friendly wise"
)
COMPANY_END = _split(
    "Foods Tools Books Motors Travel Bank Systems Labs Media Toys Garden Energy Paper Glass Steel Design Press Works"
)
BOOK_HEADS = _split(PHRASES.text("book_heads"))
BOOK_ADJ = _split(
    "Slow Silent Last Long Blue Red Golden Empty Hidden Broken White Distant Little Second Old Quiet Cold Bright Dark Wild"
)
TOPICS = _split(PHRASES.text("topics"))
CATEGORIES: dict[str, list[str]] = {
    "animal": ANIMALS,
    "fruit": FRUITS,
    "vegetable": VEGETABLES,
    "tool": TOOLS + TOOL_EXTRA,
    "colour": COLOURS[:10],
    "vehicle": VEHICLES,
    "piece of clothing": CLOTHING,
    "piece of furniture": FURNITURE,
    "musical instrument": INSTRUMENTS,
    "drink": DRINKS,
    "job": JOBS,
    "sport": SPORTS,
    "country": COUNTRIES,
    "city": CITIES[2:],
    "day of the week": DAYS,
    "month": MONTHS,
    "language": LANGUAGES,
    "school subject": SUBJECTS,
    "tree": PHRASES.lines("categories"),
    "flower": PHRASES.lines("categories.2"),
    "metal": PHRASES.lines("categories.3"),
    "shape": PHRASES.lines("categories.4"),
    "bird": PHRASES.lines("categories.5"),
    "room": PHRASES.lines("categories.6"),
    "meal": ["breakfast", "lunch", "dinner", "supper"],
    "season": ["spring", "summer", "autumn", "winter"],
    "body part": PHRASES.lines("categories.7"),
}
CATEGORY_NAMES: dict[str, list[str]] = {
    "piece of clothing": ["piece of clothing", "garment", "thing to wear"],
    "piece of furniture": ["piece of furniture", "furniture item"],
    "musical instrument": ["musical instrument", "instrument"],
    "colour": ["colour", "color"],
    "job": ["job", "profession", "occupation"],
    "drink": ["drink", "beverage"],
    "day of the week": ["day of the week", "weekday name"],
    "sport": ["sport"],
}
CATEGORY_SHORT = {
    "piece of clothing": "clothing",
    "piece of furniture": "furniture",
    "musical instrument": "instrument",
    "day of the week": "day",
    "school subject": "subject",
}
USES: dict[str, list[str]] = {
    "drive a nail into wood": ["hammer"],
    "cut paper": ["scissors"],
    "cut bread": ["knife"],
    "eat soup": ["spoon"],
    "write a letter": ["pen", "pencil"],
    "see in the dark": ["lamp", "torch", "candle"],
    "open a lock": ["key"],
    "tell the time": ["clock", "watch"],
    "dig a hole": ["shovel", "spade"],
    "sweep the floor": ["broom"],
    "boil water": ["kettle", "pot"],
    "stay dry in the rain": ["umbrella", "raincoat"],
    "sleep": ["bed", "pillow"],
    "sit down": ["chair", "sofa", "stool", "bench"],
    "keep food cold": ["fridge"],
    "call a friend": ["phone"],
    "take a photo": ["camera"],
    "brush your hair": ["comb", "hairbrush"],
    "clean your teeth": ["toothbrush"],
    "dry your hands": ["towel"],
    "find the way": ["map", "compass"],
    "look at the stars": ["telescope"],
    "climb onto a roof": ["ladder"],
    "cut down a tree": ["axe", "saw"],
    "keep your head warm": ["hat", "cap"],
    "keep your hands warm": ["gloves"],
    "carry your shopping": ["bag", "basket"],
    "bake a cake": ["oven"],
    "wash your hands": ["soap"],
    "read a story": ["book"],
    "pay in a shop": ["money", "coins"],
    "fly to another country": ["plane"],
    "cross a river": ["boat", "bridge"],
    "play music": ["piano", "guitar", "violin"],
    "measure a line": ["ruler"],
    "sew on a button": ["needle"],
    "water the flowers": ["watering can", "hose"],
    "paint a wall": ["paintbrush"],
    "drink tea": ["cup", "mug"],
    "send a letter": ["stamp", "envelope"],
}
ADVERB_TIMES = _split(
    "yesterday today last_week last_night this_morning on_Monday on_Friday in_May in_June last_year at_noon on_Sunday"
)

_SYL_A = [
    *_split(
        "b br bl c ch cl cr d dr f fl fr g gl gr h j k kl kn l m n p ph pl pr qu r rh s sc sh sk sl sm sn sp st sw t th tr v w wh x y z zh"
    ),
    "",
    "",
]
_SYL_B = _split("a e i o u a e i o u a e i o ai ea ee ou ia ie oo au y ei io ue")
_SYL_C = (
    _split("n r l m s t k d v n r l nd rn st th x ck lt rk b g p z sh ng mp ss ll tt f") + [""] * 14
)
_NAME_END = [
    *_split(
        "a en in o us ia or el is an ett ova ez ik sen son berg man ley ton y ie as er ski ini ard elle ine ah"
    ),
    "",
    "",
    "",
    "",
]
_CITY_END = [
    *_split(
        "ford ton burg ville stad heim ia a ora mouth dale wick holm ona um field port by ness grad au"
    ),
    "",
    "",
]
_IRREGULAR = {
    "mouse": "mice",
    "goose": "geese",
    "sheep": "sheep",
    "deer": "deer",
    "fish": "fish",
    "foot": "feet",
    "knife": "knives",
    "leaf": "leaves",
    "shelf": "shelves",
    "wolf": "wolves",
    "man": "men",
    "child": "children",
    "salmon": "salmon",
    "trout": "trout",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "mango": "mangoes",
    "loaf": "loaves",
    "candy": "candies",
    "fisherman": "fishermen",
    "box": "boxes",
    "sheaf": "sheaves",
    "person": "people",
    "calf": "calves",
    "scarf": "scarves",
}


def plural(noun: str) -> str:
    """The plural of an English noun of the lists above."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith(("s", "x", "ch", "sh", "z")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def count(number: int, noun: str) -> str:
    """`1 apple`, `3 apples`."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def article(noun: str) -> str:
    """`a pear`, `an apple`."""
    return (
        "an " if noun[0] in "aeiouAEIOU" and not noun.startswith(("uni", "one", "Uni")) else "a "
    ) + noun


def syllables(rng: random.Random, number: int) -> str:
    """A made-up word of lower-case letters."""
    return "".join(
        rng.choice(_SYL_A) + rng.choice(_SYL_B) + rng.choice(_SYL_C) for _ in range(number)
    )


def made_name(rng: random.Random) -> str:
    """A made-up family or given name."""
    return (syllables(rng, 1 if rng.random() < 0.8 else 2) + rng.choice(_NAME_END)).capitalize()


def made_city(rng: random.Random) -> str:
    """A made-up place."""
    return (syllables(rng, rng.choice((1, 1, 2))) + rng.choice(_CITY_END)).capitalize()


def listing(items: list[str], last: str = "and") -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" {last} " + items[-1]
