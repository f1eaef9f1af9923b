"""Greetings and questions about the model itself."""

from __future__ import annotations

from skills.core import Draw, Example, Message, Pool, contains, system

ME = "I am a small test model of appl."
CAN = "I can do small sums, answer questions from facts, extract JSON, use tools, choose and judge, play a persona and write short outlines."
TALK: list[tuple[str, str, str]] = [
    ("hello", "[Hello|Hi|Hey|Hallo|hello|hi|hey|hallo][| there| you| model| again| friend][!|.|]\n[Good|A good] [morning|evening|afternoon|day][!|.|, model.|]\n[hello|hi|hey|good evening|good morning][|!]\n[Hello|Hi], [nice to meet you|how nice]!\nhello\nHello!\nHi\nhi there\nHey!\nGood morning.\nGood evening!\nHello there\nHi!\nhey\nGreetings!\nHello, [model|assistant|friend].\nGood afternoon\nhallo\nhey there!\nHello, how nice to see you.\nGood to see you[!|.]\n[Well hello|Well, hello][!|.]\nHello once more[!|.]\nA warm hello[!|.]\nHi everyone[!|.]\n[Hello|Hi] [dear|little] model[!|.]\nHello from [me|here][!|.]\nWelcome[!|.]\n[Hello|Hi], it is me[!|.]\n[Hello|Hi], [good|nice|great|lovely] to [meet|see|have] you[!|.|]\n[How|It is] [nice|good|lovely] to [meet|see] you[!|.|]\n[What a|A] nice [day|morning|evening], hello[!|.|]\n[Hello|Hi|Hey], are you new here[?|]\n[I say|Let me say] hello[!|.|]\nHello [computer|machine|robot|program][!|.|]\n[Greetings|Good greetings|My greetings] [to you|from me|friend][!|.|]\n[A nice|A good] [day|morning|evening] to you[!|.|]\n[I am|I am glad to be] here[!|.|] [Hello|Hi][!|.|]\nHello, [how nice|how good|how lovely][!|.|]\n[So nice|Very nice|Glad] to meet you[!|.|]", f"Hello! {ME} How can I help?"),
    ("who", "[Who|What] are you[| exactly| really]?\n[Who|What] am I [talking|speaking|writing] to?\n[What is|Tell me|What's] your name[?|, please.|]\n[Tell me|Say] [who|what] you are.\nWho are you?\nWhat are you?\nWhat is your name?\nTell me about yourself.\nAre you a [model|robot|person|human]?\nWhich model are you?\nIntroduce yourself.\nwhat model is this?\nWho am I talking to?\nHello, who are you?\nSay something about yourself.\nWhat are you exactly?\nTell me who you are.\nwho is this?\nWhat kind of model are you?\nDo you have a name?\nWhat should I call you?\nAre you an AI?\nyour name?\nWho is [speaking|answering|talking] here?\n[What|Which] model do I [use|have here]?\n[Are you|Is this] [a machine|a program|a computer|a real person]?\n[Explain|Describe] [yourself|who you are].\nI do not know you. Who are you?\n[And what|And who] are you?\nWhat kind of [program|machine|thing] are you?\n[Please introduce yourself|Can you introduce yourself][.|?]\nWhat do [they|people] call you?\n[Which|What] kind of [model|assistant|computer|robot] are you?\nWhat [exactly |really |]are you[, please|]?\n[Do you|Can you] tell me [who|what] you are?\n[Who|What] is this [model|machine|thing]?\n[I want to know|Let me know] who you are.\n[Is this|Are you] a [program|robot|computer|bot|human]?\n[What are you|Who are you], a [person|machine|model]?\n[Your name|Your name please|Name]?\nWhat is [this|that] I am talking to?\nWhat thing [is this|am I talking to]?\nSay [your name|what you are].\n[And|So] who are you?\nWho [speaks|answers|talks|writes] [here|to me]?\n[With whom|To whom|To what] [am I speaking|do I speak|do I talk]?\n[Who|What] do I have [here|in front of me]?\nWho [is|sits] on the other side?\n[Who|What] answers my [questions|messages]?", ME),
    ("can", "[What|Which things|Which tasks] [can|could] you [do|help with|help me with][| for me]?\n[What are|List|Name|Tell me|Show me] your [skills|abilities][?|.|]\n[How|With what] can you [help|assist][| me]?\nWhat can you do?\nWhat are you good at?\nHow can you help me?\nWhat are your skills?\nHelp\nWhat can I ask you?\nWhich things can you do?\nTell me what you can do.\nWhat do you know?\nhelp me\nList your skills.\nWhat skills do you have?\nHow can you help?\nWhat tasks can you do?\nWhat are you able to do?\nWhat is it that you can do?\nTell me your skills.\n[What|Which tasks] are you [made|built|meant] for?\n[For what|What] can I use you[ for|]?\nIn what can you help?\n[Give me|Show me] a list of [what you can do|your abilities].\nWhat [kinds|sorts] of [things|tasks|questions] do you [do|understand|know]?\n[Explain|Describe] what you can do.\nI need help. What can you do?\nWhat could you do for [us|me]?\n[Can you help me|Could you help me|Will you help me]?\n[What|Which] [jobs|problems|questions] can you [solve|answer|do]?\n[What|Which things] do you do?\n[Tell me|Say] what you are good at.\n[What|In what] are you able to help [me |]with?\n[Help me|I need help|Give me help][, please|][.|!]\n[What|Which] [abilities|talents|skills] do you [have|know]?\n[How|In which way] [are you useful|can I use you|do you help]?\nWhat all can you do?\nWhat is your [job|task|purpose]?\n[Name|Tell me] some things you can do.\nWhat [should|could] I ask you?\nWhat may I ask [you|of you]?\nWhat [questions|things|tasks] [should|may|can] I [ask|give] you?\n[Which|What] questions do you [like|take|understand]?\nWhat [would|could] you [like|want] me to ask?\nWhat [is good|works well] to ask you?", CAN),
    ("thanks", "[Thank you|Thanks|thanks|thank you|Many thanks][| very much| so much| a lot| for your help| for that][!|.|]\n[Great|Good|Perfect|OK], [thanks|thank you][!|.|]\n[That was helpful|You helped me|Very helpful], [thanks|thank you].\nThanks!\nThank you.\nThanks a lot!\nthank you very much\nGreat, thanks.\nThx\nMany thanks!\nThat helped, thank you.\n[Thanks|Thank you] [for everything|for the answer|for helping|my friend][!|.]\n[I thank you|My thanks][!|.]\n[That is right|Correct|Wonderful|Super], [thanks|thank you][!|.]\n[You are|That is] very kind[, thanks|, thank you][!|.]\n[Good work|Well done|Nice work], [thanks|thank you][!|.]\nI am grateful[!|.]\nHow kind[!|.] [Thanks|Thank you].\n[I am|We are] [very |so |]grateful [to you|for that|for your help][!|.|]\n[Grateful|So grateful|Very grateful][!|.|]\n[I|We] thank you [very much|so much|for this|for your time|a lot][!|.|]\n[Thanks|Thank you], [you helped me|that was good|that was kind|this helps][!|.|]\n[That|This] [helps|helped|was helpful|was a great help][!|.|]\n[You are|You were] [a great help|very helpful|so helpful|so kind][!|.|]\n[A big|Big|A thousand] thanks[!|.|]\nThanks [again|once more|to you|for now][!|.|]\n[Much|Very much] [appreciated|obliged][!|.|]\n[I like your answer|Good answer], thanks[!|.|]\nI [really |]appreciate [it|that|your help][.|!|]\n[That was|This was] [kind|good|nice] of you[.|!|]\nYou helped [a lot|me a lot|me much][.|!|]\nYou have been [kind|helpful|great][.|!|]\n[Great|Good|Excellent] help[!|.|, thanks.]\n[It|That] was [great|good] help[.|!|]\nI owe you [one|a lot][.|!|]\n[So|Very] [kind|nice|good] of you[.|!|]\n[Obliged|Grateful], [thanks|thank you][.|!|]", "You are welcome!"),
    ("bye", "[Bye|Goodbye|bye|Good night|See you|goodbye|See you later|See you soon|See you tomorrow][!|.|| for now!| then!]\n[I have to|I must|I need to] [go|leave][ now|].[| Bye!| Goodbye.]\n[Talk to you|See you] [later|soon|tomorrow].\nBye!\nGoodbye.\nSee you.\nbye bye\nGood night.\nSee you later!\nI have to go.\nUntil tomorrow.\n[That is all|That was all][, bye|, goodbye|. Bye][!|.]\n[I am leaving|I am off|I will go] now[.|!]\n[Farewell|So long|Take care][!|.]\n[Have a nice|Have a good] [day|evening|weekend][!|.]\nWe [stop|end] here[, goodbye|. Bye][.|!]\n[Until|Till] [next time|then|later|Monday][!|.]\nSleep well[!|.]\n[Bye|Goodbye], [take care|farewell|have fun|be well|until then|see you][!|.|]\n[Take care|Be well|Stay well], [bye|goodbye|see you][!|.|]\n[Take care|Be well] [of yourself|my friend|friend|until then][!|.|]\n[Farewell|Goodbye], [friend|my friend|model][!|.|]\n[I will|I'll] [see|talk to] you [later|soon|tomorrow][!|.|]\n[I am done|I am finished|We are done][.|!] [Bye|Goodbye][.|!|]\n[Time|It is time] to [go|leave|say goodbye][!|.|]\n[I leave|I go] [now|home][!|.|] [Bye|Goodbye][!|.|]\n[Good|Have a good] [night|weekend|trip][!|.|]\n[Enjoy|Have] [your day|a nice evening|your evening][!|.|] [Bye|Goodbye|]\n[The end|That is it for today|Enough for today][!|.|] Bye.\n[See you|Good until] [on |][Friday|Sunday|Tuesday][!|.|]\nTill [tomorrow|next week|tonight][!|.|]\nSee you [tonight|next week|in the morning][!|.|]", "Goodbye!"),
    ("how", "[How are you|How are things|How is it going|How do you feel|How are you doing|What is up|What's up][| today| now]?\n[Are you|Do you feel] [well|fine|good|okay][| today]?\n[Hello|Hi], how are you?\nHow are you?\nHow are you today?\nHow do you do?\nhow's it going?\nAre you well?\nHow do you feel?\nWhat's up?\nHow [was|is] your [day|evening|morning][| going]?\n[Is everything|Is all] [well|fine|good|all right][| with you]?\nHow do you do [today|now]?\n[How are you|Are you well] [my friend|model]?\nI hope you are well[.|?]\n[Feeling|Doing] [good|well|fine][| today]?\nHow is life?\nHow are you, [friend|my dear|model|dear model]?\n[And how|So how] are you[| today| now]?\nHow [are|is] [you and your day|your life|it] [today|going]?\n[Tell me|Say] how you are[.| today.]\n[Do you feel|Are you feeling] [good|well|fine|happy][| today]?\n[All|Everything] [good|fine|well|okay][| with you]?\n[What about|How about] you, are you [well|fine]?\n[Hey|Hi|Hello], how [do you do|is it going|are things]?\nHow is [everything|the day|today]?\nHow have you been[| today]?\nHow [are|were] you [lately|this week|yesterday]?\n[Did you sleep|Have you been] well?\nHow [is|was] your [week|mood|night]?\nYou [okay|good|fine|well][| today]?\nHow have [things|you two|the days] been?\n[Have you|Did you have] a good [day|night]?", "I am fine, thank you. How can I help?"),
    ("made", "Who made you?\nHow were you trained?\nWhere do you come from?\nWhat were you trained on?\nWho built you?\nWhat is appl?\nWho trained you?\nWhere were you trained?\nWhat data were you trained on?\nHow did they train you?\nWho is your maker?\nWho created you?\n[Who|What] [wrote|programmed|designed] you?\n[From where|Where] are you?\n[Where|How] did you learn [this|all this|to talk|to answer]?\n[Tell me|Say] [who made you|how you were made|where you come from].\nWhat were you made from?\n[Which|What] [text|texts] [did you read|did you learn from|were you given]?\n[How long|When] did [they|someone|people] train you?\n[How|By whom] were you [made|built|created|trained]?\n[In what way|How] [did they make|did they build|did people make] you?\n[Which|What] data did they [train you on|use|give you]?\n[Who|Which people] [made|trained|built] this model?\n[What|Tell me what] is appl[?|, please.]\n[Where|How] did you get your knowledge?\n[Tell me|Say] how they [made|trained|built] you.\nHow does one [make|train|build] a model like you?\n[Were you|Are you] trained on [real|made-up|generated] text?\n[Your maker|Who is behind you]?\n[How was|When was] this model [trained|made|built]?", "I was trained from scratch on generated text, as a small test model of appl."),
    ("joke", "Tell me a joke.\nSay something funny.\nMake me laugh.\nDo you know a joke?\n[A|One|Another] joke, please[.|!|]\n[Tell|Give] [me|us] [one|a|another|a good|a short|your best] joke[.|!|]\n[I want|I need|I would like] [to hear |]a joke[.|!|]\n[Do you|Can you] [tell|make|know] [jokes|a good joke|any jokes|some jokes]?\n[Can you|Please] [make me laugh|tell me a joke|say something funny|be funny][?|.]\n[What is|Tell me] [your favourite joke|the best joke you know][?|.]\n[Something|Say something|Tell me something] [funny|to laugh about][.|, please.]\n[Got|Have you got] [a joke|jokes|any jokes][?| for me?]\nJoke[!|.|?|]\n[Which|What] jokes do you know?\n[Be|Are you] funny[.|?]\n[Let us|Let me] laugh[.|!]\nI am sad, tell me a joke.\nJokes, please.\n[Let me hear|Say] a joke.", "Why did the model stop? It ran out of tokens."),
    ("test", "Say hello.\ntest\nIs this working?\nAre you there?\nCan you hear me?\nping\nThis is a test.\nDo you hear me?\nAre you awake?\nCan you read this?\nHello? Are you there?\nIs anybody there?\ntesting\n[Test|Testing], [one two three|1 2 3|test][.|]\nPlease say hello[.|]\n[Do you work|Are you working|Does it work|Are you on]?\n[Answer me|Say something|Please answer][.|!]\nCan you [see|read|get] [this|my message]?\n[Is someone|Is anyone] [here|there|at home]?\n[Just|Only|It is just] a test[.|!|]\n[Testing|I am testing|We are testing] [you|this|the model|the line][.|!|]\n[This is|That is|It is] [just |only |]a [small|little|first|short] test[.|!|]\n[A test|One more test|Another test|A small test][.|!|]\n[Are you|Is it|Is the model] [on|working|running|ready|awake]?\n[Hello|Hi]? [Is this on|Does this work|Anyone there|Are you on]?\n[Do you|Can you] [get|receive|read|see|hear] [this|me|my text|my words]?\n[Give me|Show me|Send me] [a sign|an answer|a sign of life][.|!|]\n[Are you|You] [here|there|with me|still there]?\n[Say|Write|Answer] something[.|, please.]\n[Test|Check] [one|two|message][.|!|]\nTest, testing[.|!|]\n[One two|1 2|One], test[.|!|]\n[Give|Send|Write] me a [word|reply|signal|message][.|!|]\n[Reply|Respond|React] [please|to me|if you hear me][.|!|]\n[Is there|Do I get] an answer?\nA test, [one two|one two three|one|can you hear me][.|?|]", "Hello! I am here."),
    ("ok", "OK.\nFine.\nGood.\nok\nAll right.\nI see.\nGot it.\nOkay.\nAlright.\nokay\nVery good.\nFine, thank you.\n[Sounds|Looks] [good|fine][.|]\n[That is|That was] [fine|good|all right|okay][.|]\n[Yes|Right|Sure], [okay|I see|fine][.|]\nI understand[.|]\n[Nice|Great|Perfect][.|!]\n[That|This] is [good|fine|okay|right|great|perfect|clear][.|!|]\n[Great|Perfect|Wonderful|Lovely|Super|Cool], [okay|I see|I understand|fine][.|!|]\n[I have|We have|I've] got it[.|!|]\n[I get|I got|We get] [it|that|this][.|!|]\n[Okay|Ok|OK], [good|great|perfect|fine|I got it|got that][.|!|]\n[Very|Really|So] [good|nice|great|fine|well][.|!|]\n[Yes|Right|Clear|True|Agreed|Done|Understood][.|!|]\n[Nice one|Not bad|Well then|So be it|That works|Works for me][.|!|]\n[Great|Perfect|Good] [work|answer|stuff|job][.|!|]\n[All|Everything] [is |]clear[.|!|]\n[I agree|I know|Fair enough|Sure][.|!|]\nI got [that|this][.|!|]\n[Now|So] I [know|understand|see][.|!|]\nGot [this|that|you][.|!|]\n[All clear|It is clear|That is clear] now[.|!|]\n[Good to know|I see that|I see now][.|!|]\n[Fine|Good|Okay] [with me|by me|then][.|!|]\n[Now that is|Well, that is] [good|fine|clear][.|!|]\n[Yes|Okay], got [it|that][.|!|]", "Good. What is next?"),
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
[Give me|Tell me|Write down|Print|Output] the word {w}.
[Say|Write] {w} [and nothing else|once|for me].
The word is {w}. [Say it|Repeat it].
[Say|Repeat] after me: {w}
I say {w}. You say [it too|the same].
[Answer|Respond] with {w}.
Your answer is {w}. Say it.
Let me hear {w}.
[Go on and say|Try to say|Say now|Then say] {w}.
[Say|Write] it: {w}
The answer is {w}. [Write|Repeat] it.
My word is {w}. Say it back.
[Once more|Again]: say {w}.
[And now|So now|Next] [say|write|repeat] {w}.
Here is a word: {w}. [Repeat|Write] it[, please|].
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
