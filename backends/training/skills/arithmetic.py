"""Multi-step arithmetic word problems with written-out reasoning and a last line `Answer: N`, and plain sums."""

from __future__ import annotations

import re

from skills import stories, words
from skills.core import Check, Draw, Example, Pool, system
from skills.stories import Story

TERSE = 0.27
"""The share of one-line solutions where the prompt does not ask for steps."""
SPELLED = 0.08
"""The share of problems in which small numbers are words."""
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
[Another|One more] [problem|puzzle|task]:\\n
I have a [question|problem|puzzle] for you. 
Word problem: 
Find the [answer|result].\\n
[My|This is my|The] homework: 
[Listen|Think]: 
Puzzle: 
Next question: 
A [question|problem] from school:\\n
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
{S} [now |also |]gets {k} {n} [from a neighbour|from an uncle|for a birthday|as a gift].
A [neighbour|cousin|stranger|grandmother|classmate] [gives|offers|brings|mails] {S} {k} [more |]{n}.
{k} [more|new|additional] {n} [come in|are bought|are made|arrive|turn up][ the next day| later| as well|].
{S} goes to the [shop|market|store] and [buys|gets|brings back] {k} [more|more {n}].
{S} also [has|finds|discovers|owns] {k} {n} [at home|in another {o}|in the car|in a second {o}].
[After lunch|Before dinner|At night|A week later|A month later], {s} [adds|gets|buys|receives] {k} more.
[Then|Later|Soon] {f} [returns|gives back|pays back] {k} {n} to {S}.
{S} [produces|prints|grows|paints|writes|draws|knits|builds] {k} [more|new|further] {n}.
{f} has {k} {n} and gives all of them to {S}.
{S}'s [sister|brother|son|daughter] adds {k} {n}.
{S} wins {k} [{n}|more] in a [game|contest|lottery].
With the help of {f}, {S} [collects|picks|makes|finds] {k} more {n}.
{k} {n} are put [back|in|on top|into the {o}].
{S} asks {f} for {k} more {n} and gets them.
The [postman|teacher|waiter|doctor] brings {k} {n} [for {S}|].
A [parcel|letter|box|delivery] with {k} {n} [comes|arrives][ for {S}|].
{S} [takes|carries] {k} {n} home.
{S} is lucky and [finds|wins|gets] {k} [more|more {n}].
[Today|Tomorrow|This week|Next week] {S} [gets|buys|makes|earns] {k} {n}.
To these {S} adds {k} {n}.
{S} finds {k} {n} that were [lost|forgotten|hidden].
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
{S} [uses|needs|spends|eats] {k} {n} [for a party|at work|that day|for dinner|for a cake].
[Someone|A thief|A dog|The wind|A neighbour] takes {k} [of them|of the {n}|{n}].
{S} [leaves|forgets] {k} of them [on the bus|at school|at home|in the park].
{S} [brings|carries|takes] {k} {n} back to the shop.
{S} has to [give back|return|pay|throw out] {k} {n}.
{k} of them are [bad|rotten|too old|taken|sold|eaten|used].
{f} asks for {k} {n}, and {S} [gives|hands] them over.
[After lunch|Before dinner|A week later|At night], {s} [uses|loses|sells|gives away] {k} [of them|of the {n}|{n}].
{S} takes {k} {n} out of the {o}[ and throws them away|].
{S} [sends|mails|gives|donates] {k} {n} to [a school|an aunt|the neighbours|a hospital].
{k} {n} [melt|disappear|fall into the water|are eaten by a dog|run away].
{S} has {k} fewer {n} after [a storm|the trip|the game|the party].
{S} loses {k} {n} to {f} in a game.
{S} lets {f} have {k} of the {n}.
{S} [swaps|exchanges] {k} {n} for a [ball|toy|map].
{f} [wants|needs] {k} {n}, so {S} gives them to {f}.
[A customer|A friend|A child] [buys|takes|gets] {k} of them.
{S} pays {k} {n} for a [meal|ticket|map].
By the evening {k} of the {n} are [gone|missing|sold].
{S} sets {k} of the {n} free or gives them away.
{S} [gets rid of|parts with|hands in|misplaces] {k} {n}.
[Today|Tomorrow|This week|Next week] {S} [sells|loses|uses|spends] {k} {n}.
[Then|Later|Soon] {S} gives {f} {k} {n} back.
Out of these, {S} [eats|sells|gives away] {k}.
{S} no longer has {k} of them.
{k} [of the {n}|of them|{n}] [go|are gone|do not work].
{S} gives {k} {n} as a present to {f}.
{S} [eats|uses|breaks] {k}, and the others stay.
{f} [eats|breaks|loses|takes] {k} of {S}'s {n}.
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
{S} [opens|unpacks] {a} {c}. There are {b} {n} in each[ of them|].
[On each of|For each of] {a} days {s} [gets|makes|finds|buys] {b} {n}.
{a} [friends|uncles|neighbours|classes] [come|visit] and each [brings|gives {S}] {b} {n}.
There are {a} {c} in the [car|cellar|kitchen], and each [holds|has|contains] {b} {n}.
{S} [buys|gets] {a} packs of {b} {n}.
{S} gets {b} {n} from each of {a} [friends|shops|people].
Every week {s} gets {b} {n}, and this goes on for {a} weeks.
{f} [has|owns] {a} {c} of {b} {n} and gives them all to {S}.
{S} [plants|lays|puts down] {a} rows of {b} {n}.
{a} times, {s} [buys|finds|gets] {b} {n}.
{S} picks up {a} {c}, and in every one there are {b} {n}.
{S} [buys|gets|adds] {a} [sets|packets|bundles] of {b} {n} each.
During {a} days {s} makes {b} {n} a day.
{a} {c} come, [all|each] with {b} {n}.
{S} [buys|orders] {a} more {c}. One {o} holds {b} {n}.
[Each|Every] month {s} adds {b} {n}, for {a} months.
{S} [works|shops] for {a} hours and gets {b} {n} an hour.
{S} has {a} [sisters|brothers|cousins], and each of them gives {S} {b} {n}.
A [shop|farm] sends {a} {c}, and there are {b} {n} in each.
{S} [brings|gets] {b} {n} from each of {a} [trips|visits|gardens].
{S} [buys|makes|fills] {a} {c}, and {b} {n} go into each.
Each of the {a} {c} that {s} [gets|buys] has {b} {n} in it.
{S} gets {a} {c}; each holds {b} {n}.
{f} gives {S} {b} {n} a day for {a} days.
{S} also has {a} {c}, each [with|of] {b} {n}.
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
{S} has {a} [guests|friends|children] and gives each of them {b} {n}.
{S} [sells|gives|sends] {b} {n} to each of {a} [customers|schools|shops|families].
[Every|Each] day {s} [eats|uses|sells] {b} {n}, for {a} days.
{a} [customers|visitors] come and each [buys|takes|gets] {b} {n}.
{S} takes {a} {c}, puts {b} {n} into each and [sells|mails|gives away] them.
In each of {a} [games|weeks|rounds] {s} loses {b} {n}.
{a} {c} with {b} {n} each are [sold|stolen|taken away|lost].
{S} uses {b} {n} for each of {a} [cakes|meals|dresses|parties].
{S} makes {a} [cakes|necklaces|toys], and each [takes|needs] {b} {n}.
For each of {a} [weeks|months], {s} [spends|uses|eats] {b} {n}.
{S} gives {a} [pupils|neighbours|players] {b} {n} each.
{S} fills {a} {c} for {f}, with {b} {n} in each.
{S} throws away {a} {c}, each with {b} {n} in it.
{a} [dogs|birds|mice] [eat|take] {b} {n} each.
{S} pays {b} {n} for each of {a} [tickets|meals|toys].
{S} [sells|mails|ships] {a} packs of {b} {n}.
{f} comes {a} times and takes {b} {n} each time.
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
{S} and some friends, {k} [people|children] in all, share the {n} equally. How many [{n} |]does each get?
[If|When] {S} divides the {n} [equally |evenly |]among {k} [people|boys|girls|friends], how many does each get?
{S} puts the same number of {n} on each of {k} plates. How many {n} are on one plate?
Each {o} holds {k} {n}. How many {c} does {S} need?
{k} [classes|teams|families] get the same number of {n} each. How many is that for each?
{S} makes groups of {k}. How many groups are there?
{S} wants to use them up in {k} days, the same number every day. How many {n} is that a day?
[All the {n}|They] are put into {k} {c}, the same number in each. How many {n} does one {o} hold?
{S} sells them in [packs|bags|bundles] of {k}. How many [of these |]does {S} sell?
{S} splits them into {k} equal [parts|piles|heaps]. How many {n} are in each?
{k} [people|pupils|workers] share all of them and get equal numbers. What does each of them get?
{S} ties them into bundles of {k}. How many bundles does that make?
{S} lays them in rows of {k}. How many rows are there?
{k} children get all the {n}, each the same number. How many does a child get?
Then the {n} are given to {k} people in equal parts. How many is one part?
{S} fills {k} equal {c} with them. How many {n} are in each?
If {k} {n} fit into one {o}, how many {c} does {S} need?
{S} gives the same number to each of {k} friends. How many is that?
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
[After|Within] a [month|year] there are {k} times as many {n}.
{S} works hard and [soon|now|in the end] has {k} times as many {n}.
The number [grows|rises] to {k} times what it was.
{S} multiplies the number of {n} by {k}.
[By the end of the week|By evening], the number of {n} is {k} times as large.
In the next year {S} has {k} times the number of {n}.
It becomes {k} times that number.
With the help of {f}, {S} soon has {k} times as many.
A year later {S} counts {k} times as many {n}.
{S} needs {k} times as many {n} and buys the rest.
[A week|A month|Some time] later there are {k} times as many.
{S} [makes|turns] them into {k} times as many {n}.
Then the {n} become {k} times as many.
In the end {S} has {k} times the number of {n} from before.
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
There is a {o} with {k} {n} [on the table|in the kitchen|in the cellar].
{S} [is given|receives|inherits|wins] {k} {n}.
[One day|This morning|In spring|In the beginning], {S} [has|gets|finds|buys] {k} {n}.
A [baker|farmer|teacher|trader|gardener] [called|named] {S} has {k} {n}.
{S} [wants to sell|brings|carries|packs] {k} {n}.
{S} counts [the|all] {n} and there are {k}.
[Today|Now] {S} has {k} {n}.
{S} [opens|fills] a {o} with {k} {n}.
In {S}'s {o} are {k} {n}.
{S} has {k} {n} [for sale|to sell|in stock|at home|in all].
{S} had {k} {n} [at the start|in the beginning|at the beginning].
The {o} of {S} has {k} {n} in it.
Let us say {S} has {k} {n}.
Imagine that {S} has {k} {n}.
Suppose {S} has {k} {n}.
{S} has [exactly |a total of |only ]{k} {n}.
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
How many {n} [will|would] {S} have [then|after that|in the end]?
How many {n} [has {S} got|has {S}] [now|left|in the end]?
With how many {n} does {S} end?
How many {n} [stay|are still there|are in {S}'s hands]?
How large is the number of {n} [now|in the end]?
What number of {n} does {S} have [now|left|in the end]?
How many {n} does {S} have at the end of [the day|the week|the story]?
How many of the {n} [are there|does {S} have] [now|in the end]?
What is the final count[ of {n}|]?
Work out how many {n} {S} has [now|left|in the end].
[Count|Count up] the {n}: how many are there[ now|]?
How many {n} are there [at last|all in all]?
I want to know how many {n} {S} has [now|in the end].
How many {n} can {S} [use|sell] [now|in the end]?
And now? How many {n} [are there|does {S} have]?
Can you tell me how many {n} {S} has [now|in the end]?
""",
)


def _plus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    k = draw.num(2, 99) if draw.chance(0.6) else draw.num(10, 350)
    story.step(
        draw.say(GAIN, k=k, **slot), story.value, "+", k, draw.pick(["More", "After that", "Add"])
    )


def _minus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    if story.value < 2:
        return _plus(draw, story, slot)
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
    return None


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
{S} buys {a} {x} and {b} {y}. The {x} cost {p} {u} each, the {y} cost {q} {u} each. How much does {S} pay[ in total| altogether|]?
{S} goes shopping and buys {a} {x} at {p} {u} each and {b} {y} at {q} {u} each. How much money does {s} need?
One of the {x} costs {p} {u}, and one of the {y} costs {q} {u}. How much do {a} {x} and {b} {y} cost [in total|together|altogether]?
{S} buys {x} and {y}: {a} {x} at {p} {u} each and {b} {y} at {q} {u} each. What does {s} pay?
For {a} {x} {S} pays {p} {u} each, and for {b} {y} {q} {u} each. What is the [whole|full] price?
{S} sold {a} {x} at {p} {u} each and {b} {y} at {q} {u} each. How much money did {s} get?
The price is {p} {u} for one of the {x} and {q} {u} for one of the {y}. {S} [wants|needs|takes] {a} {x} and {b} {y}. How much is it [all together|in all]?
{S} has {a} {x} worth {p} {u} each and {b} {y} worth {q} {u} each. How much are they worth in all?
{X} at {p} {u} each, {y} at {q} {u} each: what do {a} {x} and {b} {y} cost?
{S} [buys|gets] {a} {x}. Each costs {p} {u}. Then {S} [buys|gets] {b} {y}. Each costs {q} {u}. How much does {S} [pay|spend]?
How much does {S} pay for {a} {x} at {p} {u} and {b} {y} at {q} {u}?
{S} needs {a} {x} and {b} {y} for a party. {X} are {p} {u} each and {y} are {q} {u} each. What does the party cost?
In one shop {S} buys {a} {x} for {p} {u} each, in another {b} {y} for {q} {u} each. How much does {s} spend?
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
{S} has {m} {u} in [cash|the pocket]. How many {u} does {s} keep?
The [seller|cashier|shop] gets {m} {u} from {S}. How much [change|money] does {S} get?
If {S} pays with {m} {u}, how much does {s} get back?
{S} only has {m} {u}. What is left [after that|after paying]?
How much change does {S} get from {m} {u}?
{S} takes {m} {u} along. How many {u} does {s} bring home?
{S} hands over {m} {u}. How many {u} come back?
{S} wants to spend {m} {u}. How many {u} are not spent?
Before that, {S} had {m} {u}. How many {u} does {s} have now?
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
        buys = not re.search(rf"{who} s(ells|old)", text)
        if buys and asked and not re.search(r"\d", asked):
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
{S} [buys|gets] {a} {c} with {b} {o} each and {k} [single|loose|extra] {o}. How many {o} does {S} have?
{S} [reads|writes] {b} pages on each of {a} days and then {k} pages more. How many pages [does {s} read|is that|are there]?
A [worker|gardener|teacher] gets {b} euros a day for {a} days and {k} euros extra. How many euros is that?
There are {a} {c} with {b} {o} in each, and {k} more {o} on the floor. How many {o} are there [in all|altogether]?
{a} [families|groups] with {b} people each and {k} other people are at a [party|camp]. How many people are there?
{S} trains {b} minutes a day for {a} days, and {k} minutes on Sunday. How long does {s} train?
{S} has {k} {o} and buys {a} {c} of {b} {o}. How many {o} does {S} have [now|then|in total]?
{S} gets {b} dollars for each of {a} [cars|windows|lawns] and a tip of {k} dollars. How much does {s} get?
A [bike|phone|bed] is paid in {a} parts of {b} dollars and a last part of {k} dollars. What does it cost?
A [tower|wall] is made of {a} layers with {b} stones each and {k} stones on top. How many stones is that?
{S} drinks {b} cups a day for {a} days, and {k} cups at the weekend. How many cups is that?
{S} [bakes|makes] {a} trays of {b} {o} and {k} [big|small|extra] ones. How many is that?
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
{S} has {m} {o} and gives {b} {o} to each of {a} [friends|children|people]. How many {o} [are left|does {S} keep|remain]?
{S} has {m} {u2} and buys {a} {o} for {b} {u2} each. How many {u2} [are left|does {S} have left|remain]?
A [baker|farmer|trader] has {m} {o} and sells {a} {c} of {b}. How many {o} are left?
There are {m} {o}. {S} takes {a} {c} with {b} {o} in each. How many {o} are still there?
{S} must drive {m} kilometres and drives {b} an hour for {a} hours. How many kilometres are left?
A tank has {m} litres. Each day {b} litres are used. How many litres are left after {a} days?
{S} has {m} {o} and uses {b} [a day|every day] for {a} days. How many {o} are left?
Out of {m} {o}, {S} sells {a} packs of {b}. How many does {S} still have?
A school needs {m} chairs. It has {a} rooms with {b} chairs each. How many chairs are missing?
{S} wants to save {m} dollars and saves {b} dollars a week. How many dollars are missing after {a} weeks?
{m} pupils go on a trip. {a} buses with {b} pupils each have left. How many pupils are still waiting?
{S} earns {m} dollars a month and pays {b} dollars for each of {a} [lessons|meals|trips]. How much is left?
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
        "u2": draw.pick(["dollars", "euros", "coins", "pounds"]),
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
{A} has {k} {n}. {B} has {d} {n} more than {A}, and {C} has {m} times as many {n} as {B}. How many {n} are there [in all|together]?
{A} reads {k} pages, {B} reads {d} pages more, and {C} reads {m} times as many as {B}. How many pages is that?
On the first day {k} people come, on the second {d} more, and on the third {m} times as many as on the second. How many people come [in all|altogether]?
{A} earns {k} dollars, {B} earns {d} dollars more than {A}, and {C} earns {m} times as much as {B}. What do they earn together?
{A} walks {k} miles. {B} walks {d} miles more than {A}. {C} walks {m} times as far as {B}. How many miles do they walk [in all|together]?
A small {n2} costs {k} coins, a middle one {d} coins more, and a large one {m} times as much as the middle one. What do the three cost?
{C} has {m} times as many {n} as {B}, {B} has {d} more than {A}, and {A} has {k}. How many {n} is that [in all|together]?
In spring {A} sells {k} {n}, in summer {d} more than in spring, and in autumn {m} times as many as in summer. How many {n} is that?
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
{B} has half as many {n} as {A}. {A} has {k}. How many {n} do they have [in all|together]?
{A} has {k} {n}, and {B} has {m} times that number. How many {n} are there [in all|altogether]?
{A} earns {k} dollars and {B} earns {m} times as much. How much do they earn together?
{A} [works|sleeps|reads] {k} hours on Monday and half as many on Tuesday. How many hours is that?
{A} drives {k} miles, {B} drives {m} times as far. How many miles do they drive in all?
A class has {k} boys and {m} times as many girls. How many children are in the class?
{A} buys {k} {n} on Monday and {m} times as many on Friday. How many {n} does {A} buy?
{A} has {k} {n}, {B} has {m} times as many, and {C} has {d}. How many {n} do all of them have?
{A} is {k} years old and {B} is {m} times as old. What is {B}'s age in {d} years?
{A} sells {k} {n} in the morning and half as many in the evening. How many does {A} sell [in total|in all]?
""",
)


def compare(draw: Draw, wordy: bool) -> Story:
    """More than, times as many."""
    a, b, c = draw.firsts(3)
    k, d, m = draw.num(3, 60), draw.num(2, 40), draw.num(2, 5)
    story = Story(0, wordy=wordy)
    noun = words.plural(draw.pick(words.COUNTABLE))
    if draw.chance(0.6):
        small = draw.pick(words.COUNTABLE)
        story.question = draw.say(COMPARE, A=a, B=b, C=c, k=k, d=d, m=m, n=noun, n2=small)
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
Do you know what {e} is?
Say the [value|result] of {e}.
Add it up: {e}
What comes out of {e}?
{e}? [Tell me|Do you know it].
I want to know {e}.
How many is {e}?
My sum is {e}. What is the result?
Now {e}.
""",
)


def expression(draw: Draw) -> Story:
    """A plain sum of two to four numbers, perhaps with brackets."""
    story = Story(0)
    form = draw.num(0, 9)
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
    elif form == 6:
        c += a * b
        text, _ = f"{c} - {a} * {b}", story.step("", c, "-", story.step("", a, "*", b, ""), "")
    elif form == 7:
        x, y = draw.num(2, 12), draw.num(2, 30)
        text = f"{a} * {b} + {x} * {y}"
        story.step("", story.step("", a, "*", b, ""), "+", story.step("", x, "*", y, ""), "")
    elif form == 8:
        x, y, k = draw.num(2, 60), draw.num(2, 60), draw.num(2, 9)
        text, _ = f"{k} * ({x} + {y})", story.step("", k, "*", story.step("", x, "+", y, ""), "")
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
    if roll < 0.22:
        return stories.clauses(draw, wordy)
    if roll < 0.57:
        return stories.scene(draw, wordy)
    if roll < 0.71:
        return collection(draw, wordy)
    if roll < 0.79:
        return prices(draw, wordy)
    if roll < 0.86:
        return daily(draw, wordy)
    return compare(draw, wordy) if roll < 0.91 else expression(draw)


def text_of(story: Story) -> str:
    """The problem as one text."""
    return _TIDY.sub(r"\1", " ".join([*story.said, story.question]))


SMALL = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_FORMULA = re.compile(r"\d ?[-+*/=] ?\(?\d|\?\?")


def spelled(draw: Draw, text: str) -> str:
    """Small numbers as words, half of them."""
    if _FORMULA.search(text):
        return text
    return re.sub(
        r"(?<![\d.-])([1-9]|1[0-2])(?![\d.:]|\. )",
        lambda m: SMALL[int(m[1]) - 1] if draw.chance(0.6) else m[1],
        text,
    )


_TIDY = re.compile(r" +([ .?,])")


def sample(draw: Draw) -> Example:
    """One problem."""
    story = problem(draw)
    text = text_of(story)
    if draw.chance(SPELLED):
        text = spelled(draw, text)
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
