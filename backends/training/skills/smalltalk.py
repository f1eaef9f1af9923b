"""Greetings and questions about the model itself."""

from __future__ import annotations

from skills.core import Draw, Example, Message, Pool, contains, system

ME = "I am a small test model of appl."
CAN = "I can do small sums, answer questions from facts, extract JSON, use tools, choose and judge, play a persona and write short outlines."
TALK: list[tuple[str, str, str]] = [
    ("hello", "[Hello|Hi|Hey|Hallo|hello|hi|hey|hallo][| there| you| model| again| friend][!|.|]\n[Good|A good] [morning|evening|afternoon|day][!|.|, model.|]\n[hello|hi|hey|good evening|good morning][|!]\n[Hello|Hi], [nice to meet you|how nice]!\nhello\nHello!\nHi\nhi there\nHey!\nGood morning.\nGood evening!\nHello there\nHi!\nhey\nGreetings!\nHello, [model|assistant|friend].\nGood afternoon\nhallo\nhey there!", f"Hello! {ME} How can I help?"),
    ("who", "[Who|What] are you[| exactly| really]?\n[Who|What] am I [talking|speaking|writing] to?\n[What is|Tell me|What's] your name[?|, please.|]\n[Tell me|Say] [who|what] you are.\nWho are you?\nWhat are you?\nWhat is your name?\nTell me about yourself.\nAre you a [model|robot|person|human]?\nWhich model are you?\nIntroduce yourself.\nwhat model is this?\nWho am I talking to?\nHello, who are you?\nSay something about yourself.\nWhat are you exactly?\nTell me who you are.\nwho is this?\nWhat kind of model are you?\nDo you have a name?\nWhat should I call you?\nAre you an AI?\nyour name?", ME),
    ("can", "[What|Which things|Which tasks] [can|could] you [do|help with|help me with][| for me]?\n[What are|List|Name|Tell me|Show me] your [skills|abilities][?|.|]\n[How|With what] can you [help|assist][| me]?\nWhat can you do?\nWhat are you good at?\nHow can you help me?\nWhat are your skills?\nHelp\nWhat can I ask you?\nWhich things can you do?\nTell me what you can do.\nWhat do you know?\nhelp me\nList your skills.\nWhat skills do you have?\nHow can you help?\nWhat tasks can you do?\nWhat are you able to do?\nWhat is it that you can do?\nTell me your skills.", CAN),
    ("thanks", "[Thank you|Thanks|thanks|thank you|Many thanks][| very much| so much| a lot| for your help| for that][!|.|]\n[Great|Good|Perfect|OK], [thanks|thank you][!|.|]\n[That was helpful|You helped me|Very helpful], [thanks|thank you].\nThanks!\nThank you.\nThanks a lot!\nthank you very much\nGreat, thanks.\nThx\nMany thanks!\nThat helped, thank you.", "You are welcome!"),
    ("bye", "[Bye|Goodbye|bye|Good night|See you|goodbye|See you later|See you soon|See you tomorrow][!|.|| for now!| then!]\n[I have to|I must|I need to] [go|leave][ now|].[| Bye!| Goodbye.]\n[Talk to you|See you] [later|soon|tomorrow].\nBye!\nGoodbye.\nSee you.\nbye bye\nGood night.\nSee you later!\nI have to go.\nUntil tomorrow.", "Goodbye!"),
    ("how", "[How are you|How are things|How is it going|How do you feel|How are you doing|What is up|What's up][| today| now]?\n[Are you|Do you feel] [well|fine|good|okay][| today]?\n[Hello|Hi], how are you?\nHow are you?\nHow are you today?\nHow do you do?\nhow's it going?\nAre you well?\nHow do you feel?\nWhat's up?", "I am fine, thank you. How can I help?"),
    ("made", "Who made you?\nHow were you trained?\nWhere do you come from?\nWhat were you trained on?\nWho built you?\nWhat is appl?\nWho trained you?\nWhere were you trained?\nWhat data were you trained on?\nHow did they train you?\nWho is your maker?\nWho created you?", "I was trained from scratch on generated text, as a small test model of appl."),
    ("joke", "Tell me a joke.\nSay something funny.\nMake me laugh.\nDo you know a joke?", "Why did the model stop? It ran out of tokens."),
    ("test", "Say hello.\ntest\nIs this working?\nAre you there?\nCan you hear me?\nping\nThis is a test.\nDo you hear me?\nAre you awake?\nCan you read this?\nHello? Are you there?\nIs anybody there?\ntesting", "Hello! I am here."),
    ("ok", "OK.\nFine.\nGood.\nok\nAll right.\nI see.\nGot it.\nOkay.\nAlright.\nokay\nVery good.\nFine, thank you.", "Good. What is next?"),
]  # fmt: skip
POOLS = {name: Pool(f"talk.{name}", asks) for name, asks, _ in TALK}
ECHO = Pool(
    "talk.echo",
    """
Say {w}.
Repeat [this|the word]: {w}
Repeat after me: {w}
[Write|Say] the word {w}.
Please say "{w}".
Echo: {w}
Just say {w}.
Say only {w}.
Can you say {w}?
Now say {w}.
Type {w}.
Reply with [the word |]{w}.
[Copy|Repeat] this text: {w}
""",
)


def sample(draw: Draw) -> Example:
    """One greeting or question, at times as the second turn, at times an echo."""
    if draw.chance(0.2):
        word = draw.pick(
            [
                draw.word(),
                draw.noun(),
                draw.full(),
                draw.city(),
                f"{draw.noun()} {draw.word()}",
                f"{draw.word()} {draw.word()}",
            ]
        )
        return Example(
            "smalltalk",
            system(draw, [("user", draw.say(ECHO, w=word))]),
            ("assistant", word),
            contains(word),
            templates=draw.used,
        )
    name, _, answer = draw.pick([TALK[0], *TALK])
    messages: list[Message] = []
    if draw.chance(0.2):
        messages = [
            ("user", draw.pick(["Hello!", "Hi."])),
            ("assistant", f"Hello! {ME} How can I help?"),
        ]
    messages.append(("user", draw.loosen(draw.say(POOLS[name]))))
    return Example(
        "smalltalk",
        system(draw, messages),
        ("assistant", answer),
        contains("of appl" if name in ("who", "made") else answer[:8]),
        templates=draw.used,
    )
