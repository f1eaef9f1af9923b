"""People and what can be said of them: each attribute knows its statements, questions, short answers and field names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skills import words
from skills.core import Draw, Pool


@dataclass
class Attribute:
    """`says` are verb phrases after the subject; `{o}` is the value, `{ao}` the value with its article."""

    key: str
    value: Callable[[Draw], Any]
    says: Pool
    asks: Pool
    yes: Pool
    short: str
    me: Pool
    ask_me: Pool
    fields: list[str]
    label: str


ATTRIBUTES: dict[str, Attribute] = {}


def _add(
    key: str,
    value: Callable[[Draw], Any],
    says: str,
    asks: str,
    yes: str,
    short: str,
    me: str,
    ask_me: str,
    fields: str,
) -> None:
    names = fields.split("|")
    ATTRIBUTES[key] = Attribute(
        key, value, Pool(f"say.{key}", says), Pool(f"ask.{key}", asks), Pool(f"yes.{key}", yes), short,
        Pool(f"me.{key}", me), Pool(f"askme.{key}", ask_me), names, names[0].replace("_", " "),
    )  # fmt: skip


_add(
    "city",
    Draw.city,
    """
lives in {o}
[lives in the city of|has made a home in|resides in|is at home in|settled in] {o}
[is based|resides|is resident|makes a home] in {o}
has [a home|a flat|a small house] in {o}
resides in {o}
[now|currently] lives in {o}
[has lived|has been living] in {o} for years
makes [a|her|his] home in {o}
moved to {o}
""",
    """
Where does {s} live?
[In which|Which|What] city does {s} live[| in]?
In which town does {s} live?
Where [is {s} based|can {s} be found|is {s} at home|exactly does {s} live]?
Where is {s}'s home?
What is the home town of {s}?
[Tell me|Say] where {s} lives.
Which [place|town] does {s} live in?
[Do you know where|Where exactly does] {s} live[s|]?
Where can {s} be found living?
""",
    """
Does {s} live in {o}?
Is {s} based in {o}?
Is {o} the home of {s}?
Is {s}'s home in {o}?
""",
    "In {o}",
    """
I live in {o}
I [come from|am based in|have a flat in] {o}
My home is in {o}
""",
    """
Where do you live?
[Which|What] [city|town] do you live in?
Where is your home?
Where are you based?
Tell me where you live.
And where do you live?
""",
    "city|town|home|residence|location|place|lives_in",
)
_add(
    "born",
    Draw.city,
    """
was born in {o}
[originally comes|comes|hails] from {o}
grew up in {o}
[is originally from|has roots in|is a child of|first lived in] {o}
is a native of {o}
spent a childhood in {o}
""",
    """
Where was {s} born?
[In which|Which] [city|town] was {s} born[| in]?
Where does {s} come from?
Where is {s} from?
What is the birthplace of {s}?
Where did {s} grow up?
[Tell me|Say] where {s} was born.
""",
    """
Was {s} born in {o}?
Is {s} from {o}?
Does {s} come from {o}?
Did {s} grow up in {o}?
""",
    "In {o}",
    """
I was born in {o}
I am from {o}
I grew up in {o}
""",
    """
Where were you born?
Where are you from?
Where do you come from?
Where did you grow up?
""",
    "birthplace|born_in|place_of_birth|from|origin",
)
_add(
    "year",
    lambda d: d.num(1800, 2012),
    """
was born in {o}
was born [in the year|in|around] {o}
[came into the world in|saw the light of day in|has been in the world since|has been around since] {o}
[has the birth year|has been alive since|began life in] {o}
has lived since {o}
is a child of the year {o}
was a baby in {o}
has [lived|been with us] since {o}
""",
    """
When was {s} born?
In [which|what] year was {s} born?
What is the birth year of {s}?
What year was {s} born[| in]?
What is {s}'s year of birth?
[Tell me|Say] when {s} was born.
""",
    """
Was {s} born in {o}?
Is {o} the birth year of {s}?
""",
    "In {o}",
    """
I was born in {o}
""",
    """
When were you born?
In which year were you born?
What year were you born in?
What is your birth year?
""",
    "birth_year|year|born|year_of_birth",
)
_add(
    "job",
    lambda d: d.pick(words.JOBS),
    """
is {ao}
works as {ao}
[is employed|is working|earns money|has worked|found work|started] as {ao}
earns a living as {ao}
has worked as {ao} for years
is a trained {o}
started work as {ao}
makes money as {ao}
is {ao} by [profession|trade|training]
is {ao} by trade
has a job as {ao}
became {ao}
""",
    """
What does {s} do for a living?
What is {s}'s [job|profession|occupation|trade|work]?
What is the [job|profession|occupation|work] of {s}?
What [kind of work|work|job] does {s} do?
[As what|How] does {s} earn a living?
[What|As what] does {s} work[ as|]?
Which [job|profession] does {s} have?
[Tell me|Say] what {s} does for work.
What does {s} do?
What is {s} by profession?
""",
    """
Is {s} {ao}?
Does {s} work as {ao}?
Is {s} {ao} by profession?
Does {s} have a job as {ao}?
""",
    "{Ao}",
    """
I am {ao}
I work as {ao}
I am {ao} by trade
""",
    """
What do you do for a living?
What is your [job|profession|occupation]?
What do you do?
What [is your work|kind of work do you do]?
What do you work as?
How do you earn your living?
Do you have a job?
""",
    "job|profession|occupation|work|role",
)
_add(
    "age",
    lambda d: d.num(5, 95),
    """
[is|is now|has turned|has just turned] {o}[ years old|]
is {o}
is aged {o}
turned {o} this year
just turned {o}
is {o} years of age
has reached the age of {o}
is {o} in years
was {o} on the last birthday
[is at|has come to] the age of {o}
had birthday number {o}
is now {o} years old
""",
    """
How old is {s}?
What is {s}'s age?
What is the age of {s}?
What age is {s}?
[Tell me|Say] how old {s} is.
How many years old is {s}?
""",
    """
Is {s} {o} years old?
Is {s} {o}?
Is {o} the age of {s}?
""",
    "{o}",
    """
I am {o} years old
I am {o}
""",
    """
How old are you?
What is your age?
May I ask how old you are?
What age are you?
""",
    "age|years|age_in_years",
)
_add(
    "food",
    lambda d: d.pick(words.FOODS),
    """
likes {o}
[loves|prefers|enjoys|adores] {o}
[likes|loves|prefers] to eat {o}
enjoys eating {o}
eats {o} every day
has {o} as a favourite food
prefers {o}
""",
    """
What does {s} like to eat?
What is {s}'s favourite food?
Which food does {s} like?
What food does {s} [like|love|enjoy]?
What is the favourite food of {s}?
What does {s} eat?
Which dish does {s} enjoy?
What kind of food does {s} prefer?
What should we cook for {s}?
""",
    """
Does {s} like {o}?
Does {s} like to eat {o}?
Does {s} eat {o}?
Is {o} the favourite food of {s}?
""",
    "{O}",
    """
I like {o}
I love {o}
My favourite food is {o}
I love to eat {o}
""",
    """
What do you like to eat?
What is your favourite food?
Which food do you like?
What food do you love?
Which dish do you like?
What do you eat?
What is the food you like best?
What should I cook for you?
""",
    "favourite_food|food|dish|likes_to_eat",
)
_add(
    "drink",
    lambda d: d.pick(words.DRINKS),
    """
drinks {o}
[likes to drink|always orders|prefers to drink|asks for|loves] {o}
[only|mostly|always] [drinks|orders] {o}
always orders {o}
drinks {o} every morning
prefers {o} to anything else to drink
asks for {o} in every cafe
loves a cup of {o}
has {o} as a favourite drink
""",
    """
What does {s} drink?
What does {s} like to drink?
What is {s}'s favourite drink?
Which drink does {s} like?
What drink does {s} prefer?
What does {s} order to drink?
What does {s} always drink?
Which drink is {s}'s favourite?
What should we offer {s} to drink?
""",
    """
Does {s} drink {o}?
Does {s} like to drink {o}?
Is {o} the favourite drink of {s}?
""",
    "{O}",
    """
I like {o}
I drink {o}
My favourite drink is {o}
""",
    """
What do you like to drink?
What do you drink?
What is your favourite drink?
What can I offer you to drink?
Which drink do you like?
""",
    "favourite_drink|drink|beverage",
)
_add(
    "colour",
    lambda d: d.pick(words.COLOURS),
    """
has {o} as a favourite colour
[likes|wears|paints everything in] the [colour|color] {o}
[loves the colour|prefers the color|thinks the best colour is|finds the best colour is|has the favourite colour] {o}
thinks that {o} is the best colour
has a room that is all {o}
[finds|calls] {o} the [best|nicest] colour
wears a lot of {o} and calls it the best colour
has one favourite colour, {o}
""",
    """
What is {s}'s favourite [colour|color]?
Which [colour|color] does {s} like?
What [colour|color] does {s} [like|love|prefer]?
What is the favourite [colour|color] of {s}?
""",
    """
Is {o} {s}'s favourite [colour|color]?
Does {s} like the [colour|color] {o}?
""",
    "{O}",
    """
My favourite colour is {o}
I like the colour {o}
""",
    """
What is your favourite [colour|color]?
Which [colour|color] do you like?
What colour do you like best?
""",
    "favourite_colour|colour|color",
)
_add(
    "pets",
    lambda d: (d.num(1, 12), d.pick(words.ANIMALS)),
    """
has {o}
[owns|looks after|lives together with|cares for|feeds] {o}
[keeps|has|owns] {o} [at home|in the garden|as pets]
lives with {o}
takes care of {o}
has {o} at home
looks after {o}
feeds {o} every morning
shares a home with {o}
""",
    """
[What|Which] [pets|pet] does {s} [have|keep|own]?
[What|Which] [animals|animal|pets] does {s} keep?
[Which|What] [animals|pets] [does {s} look after|live with {s}|does {s} live with|does {s} have at home]?
Does {s} [have|own|keep] [a pet|pets|animals], and [which|what]?
What kind of pets does {s} own?
Which pet or pets does {s} have?
What animals live with {s}?
What animals does {s} look after?
""",
    """
Does {s} have {o}?
Does {s} own {o}?
Does {s} keep {o}?
""",
    "{O}",
    """
I have {o}
I keep {o}
""",
    """
[What|Which] pets do you have?
[Do you have|Have you got|Do you keep] [any |some |]pets?
Do you have a pet?
Which animals do you keep?
What animals do you have?
Do you keep animals?
Which pets live with you?
Tell me about your pets.
Have you got any animals?
""",
    "pets|pet|animals",
)
_add(
    "instrument",
    lambda d: d.pick(words.INSTRUMENTS),
    """
plays the {o}
can play the {o}
[has learned to play|has lessons on|plays in a band with|is learning to play|plays concerts on|owns and practises] the {o}
plays the {o} in a band
practises the {o} every day
is good at the {o}
owns and plays the {o}
is learning the {o}
takes lessons on the {o}
""",
    """
[Which|What] instrument does {s} play?
What does {s} play?
Which musical instrument can {s} play?
What instrument [can|did] {s} [play|learn]?
""",
    """
Does {s} play the {o}?
Can {s} play the {o}?
""",
    "The {o}",
    """
I play the {o}
I can play the {o}
""",
    """
Which instrument do you play?
What instrument can you play?
Do you play an instrument?
Which musical instrument do you play?
What do you play?
What instrument did you learn?
Do you play any music?
""",
    "instrument|plays|musical_instrument",
)
_add(
    "hobby",
    lambda d: d.pick(words.HOBBIES),
    """
[likes|loves|enjoys] {o}
[enjoys|relaxes with|spends time on|is keen on] {o} [at the weekend|in the evening|on Sundays|with friends]
has {o} as a hobby
spends a lot of time on {o}
is fond of {o}
is good at {o}
spends evenings on {o}
is keen on {o}
is mad about {o}
relaxes with {o}
""",
    """
What is {s}'s hobby?
What does {s} [like|enjoy] doing?
What does {s} do [for fun|in the evening|in free time]?
What hobby does {s} have?
What is {s} fond of?
What is the hobby of {s}?
What hobby has {s} got?
How does {s} spend free time?
Which hobby does {s} have?
What pastime does {s} like?
""",
    """
Does {s} [like|enjoy] {o}?
Is {s} fond of {o}?
Is {o} the hobby of {s}?
""",
    "{O}",
    """
I like {o}
I enjoy {o}
My hobby is {o}
""",
    """
What is your hobby?
What do you do for fun?
Do you have [a hobby|hobbies]?
What do you like to do in your free time?
What do you enjoy?
What are your hobbies?
How do you spend your free time?
What hobby do you have?
What do you do in the evening?
Tell me about your hobby.
""",
    "hobby|interest|pastime|free_time",
)
_add(
    "sport",
    lambda d: d.pick(words.SPORTS),
    """
does {o}
trains for {o}
[loves|likes|prefers] {o} more than any other sport
has {o} as a favourite sport
""",
    """
Which sport does {s} [like|do]?
What sport does {s} [like|do]?
What is {s}'s favourite sport?
What is the sport of {s}?
""",
    """
Does {s} do {o}?
Does {s} like {o}?
Is {o} {s}'s favourite sport?
""",
    "{O}",
    """
My sport is {o}
I do {o}
""",
    """
Which sport do you do?
What is your favourite sport?
Do you do any sport?
What sport do you like?
""",
    "sport|favourite_sport",
)
for _rel, _his in (
    ("brother", "brother"),
    ("sister", "sister"),
    ("partner", "partner"),
    ("best friend", "best friend"),
    ("neighbour", "neighbour"),
    ("boss", "boss"),
):
    _add(
        _rel.replace(" ", "_"),
        Draw.first,
        f"""
has a {_rel} called {{o}}
has a {_rel} named {{o}}
often talks about a {_rel}, {{o}}
often visits a {_rel} called {{o}}
has a {_rel} whose name is {{o}}
likes a {_rel} called {{o}}
misses a {_rel} named {{o}}
""",
        f"""
[Who|What] is {{s}}'s {_rel}[| called]?
What is the name of {{s}}'s {_rel}?
Who is the {_rel} of {{s}}?
What is {{s}}'s {_rel} called?
Name {{s}}'s {_rel}.
What name does {{s}}'s {_rel} have?
Tell me the name of {{s}}'s {_rel}.
How is {{s}}'s {_rel} called?
Who is {{s}}'s {_rel}?
""",
        f"""
Is {{o}} {{s}}'s {_rel}?
Is {{o}} the {_rel} of {{s}}?
Is {{s}}'s {_rel} called {{o}}?
""",
        "{o}",
        f"""
My {_rel} is called {{o}}
My {_rel}'s name is {{o}}
""",
        f"""
What is your {_rel} called?
What is the name of your {_rel}?
Who is your {_rel}?
What is your {_rel}'s name?
Do you have a {_rel}?
Tell me the name of your {_rel}.
How is your {_rel} called?
""",
        f"{_rel.replace(' ', '_')}|name_of_{_rel.replace(' ', '_')}",
    )
_add(
    "language",
    lambda d: d.pick(words.LANGUAGES),
    """
speaks {o}
[is learning|talks in|talks to people in|talks to everyone at home in|knows how to speak] {o}
speaks [fluent |good |]{o} at home
can speak {o}
speaks {o} well
speaks fluent {o}
talks to everyone in {o}
learned {o} as a child
""",
    """
[Which|What] language does {s} speak?
What does {s} speak?
Which language is spoken by {s}?
What language can {s} speak?
What languages does {s} speak?
In which language does {s} talk?
Which language does {s} know?
""",
    """
Does {s} speak {o}?
Can {s} speak {o}?
""",
    "{o}",
    """
I speak {o}
""",
    """
Which language do you speak?
What language do you speak?
Do you speak another language?
What languages do you speak?
In which language do you talk?
Can you speak a foreign language?
Which languages do you know?
""",
    "language|speaks|mother_tongue",
)
_add(
    "ride",
    lambda d: f"{d.pick(words.COLOURS)} {d.pick(words.VEHICLES)}",
    """
drives {ao}
has {ao}
bought {ao}
owns {ao}
goes to work with {ao}
""",
    """
What does {s} drive?
What vehicle does {s} have?
What kind of vehicle does {s} own?
Which vehicle does {s} [drive|use|own]?
""",
    """
Does {s} have {ao}?
Does {s} own {ao}?
Does {s} drive {ao}?
""",
    "{Ao}",
    """
I drive {ao}
I have {ao}
""",
    """
What do you drive?
Which vehicle do you have?
What kind of vehicle do you own?
""",
    "vehicle|drives|transport",
)
_add(
    "owns",
    lambda d: f"{d.pick(words.ADJECTIVES)} {d.noun()}",
    """
has {ao}
owns {ao}
bought {ao}
found {ao}
carries {ao}
got {ao} as a present
lost {ao}
made {ao}
""",
    """
What does {s} [have|own]?
What does {s} have?
Which thing does {s} have?
What object does {s} own?
What has {s} got?
What thing does {s} have?
What belongs to {s}?
""",
    """
Does {s} have {ao}?
Does {s} own {ao}?
""",
    "{Ao}",
    """
I have {ao}
I own {ao}
""",
    """
What do you own?
What thing do you have?
What belongs to you?
""",
    "item|thing|possession|object",
)
_add(
    "subject",
    lambda d: d.pick(words.SUBJECTS),
    """
studies {o}
[studied|has studied|reads|lectures in|gives lectures on|is a student of] {o}
teaches {o}
is a student of {o}
takes a course in {o}
has studied {o} at school
lectures on {o}
has a degree in {o}
is interested in {o}
""",
    """
What does {s} study?
[Which|What] subject does {s} study?
What did {s} study?
Which subject is {s} interested in?
What subject did {s} learn?
What is {s}'s subject?
What field did {s} study?
""",
    """
Does {s} study {o}?
Did {s} study {o}?
Is {s} interested in {o}?
""",
    "{O}",
    """
I study {o}
I studied {o}
""",
    """
What do you study?
[Which|What] subject did you study?
What [are|were] you a student of?
[Which|What] [subject|field] are you a student of?
What did you study?
What are you a student of?
Which subject do you study?
What is your subject?
""",
    "subject|studies|field|degree",
)
_add(
    "company",
    lambda d: f"{words.made_name(d.rng)} {d.pick(words.COMPANY_END)}",
    """
[works for|has worked for|has found work at|has a job with|holds a job at|got a job at] {o}
[works at|is on the team of|is one of the staff of|is a member of staff at|started work at] {o}
is employed by {o}
has a job at {o}
runs {o}
has worked at {o} for years
is on the staff of {o}
started at {o} last year
""",
    """
[Who|Which company] does {s} work for?
Where does {s} work?
Which company employs {s}?
What is {s}'s [company|employer]?
What company does {s} work at?
For whom does {s} work?
Which firm does {s} work for?
What is the employer of {s}?
At which company does {s} work?
""",
    """
Does {s} work for {o}?
Does {s} work at {o}?
Is {s} employed by {o}?
""",
    "{o}",
    """
I work for {o}
I work at {o}
""",
    """
Who do you work for?
Where do you work?
Which company do you work for?
""",
    "company|employer|works_for|organisation|firm",
)
_add(
    "email",
    lambda d: f"{d.word()}@{d.word()}.{d.pick(['com', 'org', 'net'])}",
    """
[can be reached|can be contacted|gets mail|reads messages] at {o}
[uses|has] the address {o}
has the email address {o}
reads mail at {o}
""",
    """
What is {s}'s email[| address]?
What is the email address of {s}?
How can {s} be reached?
Which email address does {s} use?
""",
    """
Is {o} {s}'s email address?
Does {s} use the address {o}?
""",
    "{o}",
    """
My email address is {o}
""",
    """
What is your email address?
How can I reach you?
""",
    "email|email_address|mail|contact",
)
_add(
    "phone",
    lambda d: f"{d.num(100, 999)}-{d.num(1000, 9999)}",
    """
has the [phone |telephone |]number {o}
can be [called|reached by phone] at {o}
answers the phone at {o}
[picks up|is reached|takes calls] under {o}
has the number {o}
can be phoned under {o}
gave us the number {o}
""",
    """
What is {s}'s [phone|telephone] number?
What is the [phone|telephone] number of {s}?
[Which|What] [phone |]number [do I call to reach {s}|does {s} have]?
[Under|At] [which|what] number [is {s} reached|can {s} be phoned|does {s} answer]?
What number does {s} have?
How can I phone {s}?
""",
    """
Is {o} {s}'s [phone|telephone] number?
""",
    "{o}",
    """
My phone number is {o}
""",
    """
What is your phone number?
Which number can I call?
""",
    "phone|phone_number|telephone|tel",
)


def book_title(draw: Draw) -> str:
    """A made-up title."""
    head = draw.pick(words.BOOK_HEADS)
    roll = draw.rng.random()
    if roll < 0.5:
        return f"The {draw.pick(words.BOOK_ADJ)} {head}"
    if roll < 0.7:
        return f"{draw.pick(words.BOOK_ADJ)} {words.plural(head)}"
    return (
        f"The {head} of {draw.city()}"
        if roll < 0.85
        else f"{head} and {draw.pick(words.BOOK_HEADS)}"
    )


_add(
    "book",
    lambda d: f'"{book_title(d)}"',
    """
[wrote|published|finished|has written] {o}
wrote the [book|novel] {o}
is [the author of|famous for|known for|the writer of] {o}
[brought out|created|gave the world] {o}
became known for {o}
is famous for the book {o}
has a book called {o}
[sold|made|finished] the book {o}
has [made|put out|printed] {o}
is behind the book {o}
""",
    """
[Which|What] book did {s} write?
What did {s} write?
[Which|What] novel did {s} publish?
What is the title of {s}'s book?
Which book made {s} famous?
What is {s}'s book called?
""",
    """
Did {s} write {o}?
Is {s} the author of {o}?
""",
    "{o}",
    """
I wrote {o}
""",
    """
Which book did you write?
What did you write?
What is your book called?
""",
    "book|title|wrote|novel",
)

TEXTUAL = [k for k in ATTRIBUTES if k != "book"]


def shown(key: str, value: Any) -> str:
    """The value as text inside a sentence."""
    if key == "pets":
        return words.count(value[0], value[1]) if value[0] > 1 else words.article(value[1])
    return str(value)


def slots(key: str, subject: str, value: Any) -> dict[str, str]:
    """Everything that a phrasing of the attribute may name."""
    text = shown(key, value)
    with_article = words.article(text)
    big = text[0].upper() + text[1:]
    return {
        "s": subject,
        "o": text,
        "O": big,
        "ao": with_article,
        "Ao": with_article[0].upper() + with_article[1:],
    }


def conflict(a: str, b: str) -> bool:
    """Whether two attributes would make one question ambiguous (both are things one has or likes)."""
    groups = (
        {"pets", "owns", "ride"}, {"food", "hobby", "sport", "drink", "colour"}, {"born", "year", "city"}, {"language", "subject"}, {"job", "company"},
        {"sport", "instrument", "hobby"}, {"subject", "job"}, {"email", "phone"}, {"owns", "instrument"},
    )  # fmt: skip
    return any(a in g and b in g for g in groups)


@dataclass
class Person:
    """A name and some of its attributes."""

    name: str
    facts: dict[str, Any]

    @property
    def first(self) -> str:
        return self.name.split()[0]


def person(draw: Draw, keys: list[str] | None = None, number: int = 3, name: str = "") -> Person:
    """Someone with the attributes named, or with some that do not collide."""
    if keys is None:
        keys = []
        for key in draw.shuffled(TEXTUAL):
            if len(keys) < number and not any(conflict(key, k) for k in keys):
                keys.append(key)
    return Person(name or draw.person(), {k: ATTRIBUTES[k].value(draw) for k in keys})


def statement(draw: Draw, key: str, subject: str, value: Any) -> str:
    """One sentence that states the attribute."""
    return f"{subject} {draw.say(ATTRIBUTES[key].says, **slots(key, subject, value))}."


def describe(draw: Draw, who: Person, keys: list[str] | None = None) -> str:
    """Some sentences on the person: joined, or with a pronoun after the first."""
    keys = list(who.facts) if keys is None else keys
    pronoun = draw.pick(["He", "She", who.first])
    phrases = [draw.say(ATTRIBUTES[k].says, **slots(k, who.name, who.facts[k])) for k in keys]
    out, subject, at = [], who.name, 0
    while at < len(phrases):
        if at + 1 < len(phrases) and draw.chance(0.4):
            link = draw.pick([" and ", " and ", ", and "])
            out.append(f"{subject} {phrases[at]}{link}{phrases[at + 1]}.")
            at += 2
        else:
            out.append(f"{subject} {phrases[at]}.")
            at += 1
        subject = pronoun if draw.chance(0.75) else who.name
    return " ".join(out)
