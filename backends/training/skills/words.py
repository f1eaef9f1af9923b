"""The vocabulary of the generator: plain word lists, and the small grammar (plural, article, made-up words) that they need."""

from __future__ import annotations

import random


def _split(text: str) -> list[str]:
    return [word.replace("_", " ") for word in text.split()]


FIRST = _split("""
Mia Leo Anna Tom Sam Nora Olaf Mira Ben Clara David Emma Felix Greta Hugo Ida Jack Kate Liam Maya Noah Olga Paul Quinn Rosa Simon Tara
Uma Victor Wendy Xavier Yara Zoe Alice Bob Carol Dan Eve Frank Grace Henry Irene Jonas Karin Lucas Maria Nina Oscar Petra Rita Stefan
Tina Ursula Vera Walter Yusuf Zara Aisha Boris Chen Diego Elena Farid Gita Hana Ivan Jana Kofi Lena Marco Nadia Omar Priya Raj Sofia
Tariq Ugo Valentina Wei Yuki Zofia Adam Bella Carlos Daisy Ethan Fiona George Holly Isaac Julia Kevin Laura Martin Nancy Oliver Peter
Rachel Sarah Thomas Violet William Amir Beatriz Cyrus Dora Emil Freya Gus Hector Ines Jorge Kira Lars Mina Nils Otto Pia Rafael Sven Theo
Ulla Viktor Willow Ximena Yasmin Zeno Arthur Bruno Celia Dennis Edith Fabio Gloria Harold Ingrid James Klara Louis Mabel Nathan Opal Pablo
Ruth Silas Tessa Vince Wanda Yvonne Abel Bianca Cleo Dmitri Elsa Finn Gina Hans Isla Jasper Kim Luna Max Naomi Oren Penny Ravi Stella Toby
Maria John Mary Robert Linda Michael Susan Daniel Karen Mark Lisa Steven Janet Ali Fatima Mei Ahmed Sara Lucy Ella Ryan Amy Eric Jenny
Marcus Helen Joe Nick Alex Chris Jamie Robin Pat Lee Jordan Taylor Kai Sasha Milan Tim Ann Jane Jim Bill Sue Rob Ted Meg Liz Ron Kenji
Aaron Abby Andre Astrid Bjorn Camille Chloe Dina Edgar Eli Esther Gabriel Gwen Hassan Imani Ivy Joel Juan June Khalid Layla Leon Lily Lola
Malik Mona Mateo Nell Niko Odette Pedro Rana Rosie Rubén Samir Selma Tomas Vikram Zainab Zack
""")
LAST = _split("""
Holt Brand Vell Berg Stone Marsh Lind Cole Frost Hale Novak Silva Costa Meyer Weber Fischer Rossi Moreau Dubois Laurent Kowalski Petrov
Ivanov Tanaka Sato Suzuki Kim Park Chen Wang Singh Patel Khan Ali Hassan Okafor Mensah Diallo Smith Jones Brown Taylor Wilson Clark Lewis
Walker Hall Young King Wright Hill Green Baker Adams Carter Turner Parker Evans Cook Reed Bell Ward Gray Brooks Price Wood Ross Long Foster
Powell Hughes Flores Garcia Lopez Perez Torres Ramos Rivera Vega Cruz Ortiz Larsen Hansen Olsen Nilsen Dahl Lund Strand Vik Moen Haugen
Keller Vogel Wolf Koch Bauer Richter Klein Schwarz Winter Sommer Lang Kaiser Horn Falk Stein Bloom Crane Finch Hawk Swan Drake Thorn Ash
""")
CITIES = _split("""
Tarn Lund Paris London Rome Oslo Berlin Madrid Lisbon Vienna Prague Dublin Athens Cairo Delhi Tokyo Kyoto Seoul Lima Quito Boston Chicago
Denver Dallas Austin Seattle Toronto Ottawa Sydney Perth Helsinki Bergen Malmo Ghent Bruges Lyon Nice Turin Milan Naples Seville Porto
Krakow Riga Vilnius Tallinn Geneva Basel Zurich Munich Hamburg Leipzig Dresden Bremen York Leeds Bath Cardiff Glasgow Cork Galway Nairobi
Lagos Accra Tunis Rabat Dakar Hanoi Manila Jakarta Mumbai Lahore Dhaka Havana Bogota Santiago Utrecht Delft Leiden Graz Linz Salem Dover
""")
COUNTRIES = _split("""
France Spain Italy Norway Sweden Denmark Finland Germany Poland Portugal Greece Turkey Egypt Kenya Ghana India China Japan Peru Chile
Brazil Mexico Canada Ireland Scotland Wales England Austria Hungary Iceland Morocco Vietnam Australia Argentina Belgium Holland Cuba
""")
JOBS = _split("""
baker pilot teacher gardener doctor nurse farmer painter writer singer driver cook waiter plumber carpenter tailor librarian lawyer judge
engineer dentist fisherman sailor soldier guard mechanic electrician clerk cashier butcher barber shepherd miner potter weaver blacksmith
architect actor dancer poet journalist photographer scientist chemist biologist translator accountant programmer designer coach referee
firefighter postman beekeeper florist vet musician sculptor historian astronomer detective captain chef builder student professor banker
""")
ANIMALS = _split("""
dog cat horse cow sheep goat pig rabbit duck hen goose parrot mouse hamster lion tiger bear wolf fox deer elephant giraffe monkey snake
frog turtle eagle owl swan whale shark dolphin salmon trout bee ant spider butterfly donkey camel zebra kangaroo penguin crow sparrow
squirrel hedgehog otter seal crab lizard beetle falcon robin llama
""")
FRUITS = _split("""
apple pear plum peach cherry banana orange lemon lime grape melon mango kiwi fig apricot pineapple strawberry raspberry blueberry
blackberry coconut papaya
""")
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
DRINKS = [
    "tea",
    "coffee",
    "milk",
    "water",
    "juice",
    "lemonade",
    "cocoa",
    "soda",
    "wine",
    "beer",
    "cider",
]
FOODS = _split("""
bread soup rice pasta cheese pizza salad fish chicken cake pie stew curry noodles pancakes sausages honey butter yogurt chocolate
sandwiches dumplings omelettes porridge mushrooms olives
""")
SPORTS = _split(
    "football tennis hockey golf rugby cricket basketball volleyball swimming rowing boxing fencing judo skiing cycling"
)
SUBJECTS = _split("""
history physics chemistry biology law medicine music mathematics geography economics philosophy literature astronomy geology art botany
""")
LANGUAGES = _split("""
French Spanish Italian German Polish Greek Turkish Arabic Hindi Chinese Japanese Korean Russian Dutch Danish Swedish Norwegian English
Portuguese Swahili Latin
""")
HOBBIES = _split("""
painting fishing reading chess cooking gardening hiking sailing knitting dancing singing climbing running photography camping baking
drawing skating surfing woodwork pottery birdwatching stamp_collecting writing_poems
""")
NOUNS = _split("""
book pen pencil lamp cup plate bottle box bag key clock phone letter ball kite doll drum map coin ticket stamp basket bucket candle mirror
picture pillow blanket carpet towel spoon fork knife pot pan kettle bowl glass jar brush broom rope chain ring necklace watch umbrella
backpack suitcase camera radio computer laptop printer notebook magazine newspaper card flower rose tulip tree plant seed leaf stone shell
brick tile button needle thread wheel engine battery cable lock tent flag helmet toy puzzle robot balloon cookie muffin sandwich egg
sticker marble poster folder envelope stapler eraser ruler crayon wallet purse comb soap toothbrush sponge hose pump nail screw bolt
vase statue painting drawing guitar bicycle scooter skateboard sled boat hat coat scarf jacket cake pie pizza candle telescope microscope
""")
COUNTABLE = _split("""
apple pear orange plum book pen pencil card sticker marble coin stamp cookie muffin egg candy balloon ball toy flower rose ticket shell
stone button box bottle cup plate photo badge bead brick page letter chair lamp kite doll key candle sandwich cake pie banana peach lemon
cherry nut seed plant tree duck fish hen rabbit cow sheep crayon magazine postcard poster notebook folder shirt sock hat glove ribbon
battery puzzle magnet feather leaf acorn potato onion tomato carrot melon mango grape strawberry bun donut pancake cupcake pretzel
""")
CONTAINERS = _split(
    "bag box basket crate pack jar tray carton case shelf bucket sack drawer album packet"
)
ADJECTIVES = _split("""
small big old new red blue green yellow black white brown grey round square wooden golden silver broken heavy light long short tall clean
dirty warm cold wet dry soft hard bright dark cheap expensive quiet loud fast slow pretty strange tiny huge plastic metal paper shiny
""")
ROOMS = _split("""
kitchen garden garage cellar attic bedroom bathroom hall office library school shop market station park museum church hospital hotel bank
cafe restaurant barn stable workshop studio cupboard drawer basement balcony theatre castle harbour airport classroom shed yard
""")
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
BOOK_HEADS = _split("""
River House Garden Winter Road Mountain Night Letter Bridge Storm Bird Tower Sea Forest Clock Mirror Island Shadow Summer Door Stone Lamp
Harbour Window Moon Star Wind Field Train Key
""")
BOOK_ADJ = _split(
    "Slow Silent Last Long Blue Red Golden Empty Hidden Broken White Distant Little Second Old Quiet Cold Bright Dark Wild"
)
TOPICS = _split("""
cats dogs gardens trains bicycles school_uniforms homework libraries museums zoos parks books films television video_games phones computers
robots the_internet social_media newspapers music dancing painting cooking baking bread tea coffee chocolate vegetables fruit breakfast
fast_food restaurants holidays camping hiking swimming football chess board_games running cycling walking cars buses planes boats bridges
cities villages farms forests rivers mountains the_sea beaches islands weather rain snow winter summer recycling solar_power wind_power
electric_cars clean_water trees bees birds horses fish pets friendship family sleep exercise teamwork reading writing drawing languages
history science space maps clocks money saving_money shopping markets cash small_shops early_trains night_buses remote_work four-day_weeks
school_lunches longer_breaks public_transport umbrellas hats shoes furniture houses kitchens bedrooms windows candles lamps letters
birthdays parties gifts volunteering neighbours travel photography theatre poetry stamps puzzles toys tests exams uniforms alarms
zoos cheese honey soup salad pizza tea_parties handwriting school_trips bicycle_lanes car-free_days paper_books e-books
""")
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
    "tree": ["oak", "pine", "birch", "maple", "willow", "elm", "beech", "fir", "cedar", "poplar"],
    "flower": [
        "rose",
        "tulip",
        "daisy",
        "lily",
        "violet",
        "sunflower",
        "daffodil",
        "orchid",
        "poppy",
        "iris",
    ],
    "metal": [
        "iron",
        "gold",
        "copper",
        "tin",
        "lead",
        "zinc",
        "steel",
        "silver",
        "bronze",
        "nickel",
    ],
    "shape": [
        "circle",
        "square",
        "triangle",
        "rectangle",
        "oval",
        "cube",
        "sphere",
        "cone",
        "hexagon",
        "star",
    ],
    "bird": [
        "eagle",
        "owl",
        "swan",
        "parrot",
        "crow",
        "sparrow",
        "robin",
        "falcon",
        "penguin",
        "duck",
        "goose",
        "hen",
        "pigeon",
    ],
    "room": [
        "kitchen",
        "bathroom",
        "bedroom",
        "cellar",
        "attic",
        "hall",
        "garage",
        "living room",
        "dining room",
    ],
    "meal": ["breakfast", "lunch", "dinner", "supper"],
    "season": ["spring", "summer", "autumn", "winter"],
    "body part": [
        "arm",
        "leg",
        "hand",
        "foot",
        "head",
        "nose",
        "ear",
        "knee",
        "elbow",
        "finger",
        "shoulder",
    ],
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
