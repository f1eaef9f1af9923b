"""Bugs seeded on purpose: each is a change of one place in a copy of the package.

``hunt`` runs random programs against the copy, in a process of its own, until one disagrees.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """Replaces the one place in *file* that reads *old*.

    ``first`` is the program to begin with, for a bug that few programs show.
    """

    name: str
    file: str
    old: str
    new: str
    first: int = 1


MUTANTS = (
    Mutant(
        "an f-string statement is evaluated as a whole",
        "compiler/lower.py",
        "            return self._parts(value)\n",
        "            return [self._tell('say', value, self.visit(value))]\n",
    ),
    Mutant(
        "the body of a try is no region",
        "compiler/lower.py",
        "body = [at(node, form(items=[item], body=self._catching_body(node.body, catches)))]",
        "body = self._body(node.body)",
    ),
    Mutant(
        "a conversion in a hole is forgotten",
        "compiler/lower.py",
        'conversion = constant("" if node.conversion < 0 else chr(node.conversion), node.value)',
        'conversion = constant("", node.value)',
    ),
    Mutant(
        "statements of nested functions are not said",
        "compiler/lower.py",
        "return copied(node, decorator_list=decorators, args=args, body=body)",
        "return copied(node, decorator_list=decorators, args=args)",
    ),
    Mutant(
        "C code is given futures in containers",
        "runtime/resolve.py",
        "    elif isinstance(value, Proxy):\n        futures.append(value)",
        "    elif isinstance(value, Proxy) and not visited:\n        futures.append(value)",
    ),
    Mutant(
        "a copied prompt is the caller's own",
        "runtime/activation.py",
        'prompt = Prompt() if ctx == "new" else around.prompt.copy()',
        'prompt = Prompt() if ctx == "new" else around.prompt',
    ),
    Mutant(
        "all objects share the state of a resume method",
        "runtime/prompts/state.py",
        "place = id(function), id(owner)",
        "place = id(function), 0",
    ),
    Mutant(
        "an address counts the calls of the whole run",
        "runtime/frame.py",
        "        count = self.counts.get(name, 0)\n        self.counts[name] = count + 1",
        "        counts = self.run.tree.root.counts\n        count = counts.get(name, 0)\n"
        "        counts[name] = count + 1",
    ),
    Mutant(
        "a region raises the failure that is last in program order",
        "runtime/concurrency/region.py",
        "        first = next((failure for failure in failures if failure.unseen()), None)",
        "        first = next((failure for failure in reversed(list(failures)) if failure.unseen()), None)",
        first=13,
    ),
    Mutant(
        "a failed answer stays in the prompt",
        "runtime/concurrency/region.py",
        "                prompt.tip = _before(call, prompt.tip, tip) if late else tip\n",
        "                pass\n",
    ),
    Mutant(
        "a generator speaks in the frame of whoever resumes it",
        "runtime/generators.py",
        "                        body.begun(frame)\n                out = step()\n",
        "                        body.begun(frame)\n"
        "                elif frame.parent is not None:\n"
        "                    FRAME.set(frame.parent)\n"
        "                out = step()\n",
    ),
    Mutant(
        "a role outlives its block",
        "runtime/prompts/roles.py",
        "        writer.voice = entered[writer].pop()\n",
        "        entered[writer].pop()\n",
    ),
    Mutant(
        "a call goes out when one of its missing parts is there",
        "runtime/scheduling/scheduler.py",
        "lambda _: _recheck(call, go, waiting)",
        "lambda _: _prepared(call) and go(call)",
    ),
    Mutant(
        "an edge names only the nearest answer",
        "runtime/answers/call.py",
        "        yield source\n        before",
        "        yield source\n        return\n        before",
    ),
    Mutant(
        "records() leave out what comes from answers",
        "runtime/prompts/context.py",
        "return moved(tip.since(self._frame.origin), self._frame.base, USER)",
        "said = [n for n in tip.since(self._frame.origin) if isinstance(n.part, str)]\n"
        "        return moved(said, self._frame.base, USER)",
    ),
    Mutant(
        "a failure that was handled is raised again when the run ends",
        "runtime/concurrency/promise.py",
        "        self.outcome.looked = True\n        return self.outcome.raised()",
        "        return self.outcome.raised()",
    ),
    Mutant(
        "a region goes back to the last call that failed of another, not to the first",
        "runtime/concurrency/region.py",
        "for call in reversed([pending for pending in self._marks if pending in gone]):",
        "for call in [pending for pending in self._marks if pending in gone]:",
        first=315,
    ),
    Mutant(
        "a statement in the body of a try does not wait for its calls",
        "runtime/ops.py",
        "    def kept(self, value: object = None, /) -> object:\n        region = _catching()",
        "    def kept(self, value: object = None, /) -> object:\n        region = None",
    ),
    Mutant(
        "what only stores gets an answer that may have failed",
        "runtime/resolve.py",
        "        return _stores(f) or not takes_futures(f)\n",
        "        return not takes_futures(f)\n",
    ),
    Mutant(
        "what is bound in the body of a try need not have its answer",
        "compiler/lower.py",
        "            value=self._awaited_value(node.value, value),\n        )\n\n    def _annotated",
        "            value=value,\n        )\n\n    def _annotated",
    ),
    Mutant(
        "a call that was taken back by an inner try is taken back once more by an outer one",
        "runtime/concurrency/region.py",
        "            for region in self._frame.regions:\n                region.forget(call)\n\n\n"
        "class Limit",
        "\n\nclass Limit",
        first=85,
    ),
    # -- structure
    Mutant(
        "a list that was interrupted begins again",
        "prompt/layout.py",
        "before = next((closed for closed in self._closed_levels if closed.level is other), None)",
        "before = None",
    ),
    Mutant(
        "the first item of an inline block has no number of its own",
        "prompt/layout.py",
        "counts = counts and around.level.format.inline",
        "counts = False",
        first=35,
    ),
    Mutant(
        "the lines of an item after the first are not indented",
        "prompt/chain.py",
        'text.replace("\\n", "\\n" + mark.indent)',
        "text",
    ),
    Mutant(
        "records keep the format and the role of the function that said them",
        "prompt/chain.py",
        "    if old is new:\n        return nodes\n",
        "    return nodes\n",
        first=6,
    ),
    Mutant(
        "a level of records is another one for each of their items",
        "prompt/voice.py",
        "            moved = copies[nested] = Level(moved, nested.format)",
        "            moved = Level(moved, nested.format)",
        first=43,
    ),
    Mutant(
        "an exception that leaves a block says its epilog",
        "runtime/prompts/roles.py",
        "        if kind is None:\n            self.end(writer)",
        "        self.end(writer)",
        first=63,
    ),
    Mutant(
        "a loop with a list does not leave it when it is broken off",
        "runtime/prompts/compositor.py",
        "    finally:\n        if entered is not None:",
        "    except ZeroDivisionError:\n        if entered is not None:",
    ),
    Mutant(
        "a function's compositor is around what it says on its caller's prompt only",
        "runtime/function.py",
        "        if frame.block is not None:\n            before",
        "        if frame.block is not None and frame.shares:\n            before",
    ),
    Mutant(
        "speakers of one role are one speaker",
        "prompt/chain.py",
        "if node.apart or voice.role != self.role or voice.name != self.name:",
        "if node.apart or voice.role != self.role:",
    ),
    Mutant(
        "images stand at the beginning of their message",
        "prompt/chain.py",
        "self.media.append((self.length, part))",
        "self.media.append((0, part))",
    ),
    # -- tools
    Mutant(
        "results of tools stand in the order in which they came",
        "runtime/tools/toolrun.py",
        "return [result_of(task) for task in started]",
        "return [result_of(each) for each in sorted(started, key=lambda each: not each.done)]",
        first=27,
    ),
    Mutant(
        "what a tool raises is no error of its result",
        "runtime/tools/toolrun.py",
        'return self._message(f"{self._called} failed: {described(error)}", True)',
        'return self._message("null", False)',
        first=2,
    ),
    Mutant(
        "an answer goes on after its calls of tools",
        "prompt/chain.py",
        "self.chain = Messages(self.chain, message, bool(calls), tuple(self.spans))",
        "self.chain = Messages(self.chain, message, False, tuple(self.spans))",
    ),
    Mutant(
        "a loop of tools forgets what its steps have used",
        "runtime/tools/toolloop.py",
        "total_of([text._response for text in texts], last._response.samples)",
        "last._response",
        first=103,
    ),
    Mutant(
        "the answer of a loop of tools comes from its address",
        "runtime/tools/toolloop.py",
        "return self.answers[-1]._pending.answered_by() if self.answers else (self.address,)",
        "return (self.address,)",
    ),
    Mutant(
        "a loop of tools says what its last step says",
        "runtime/tools/toolloop.py",
        "    return [*nodes, PromptNode(",
        "    return [PromptNode(",
    ),
    # -- answers in several calls
    Mutant(
        "who reads a stream late misses its beginning",
        "runtime/answers/stream.py",
        "        self._at, self._over = 0, False",
        '        self._at, self._over = getattr(getattr(pending, "stream", None), "_delivered", 0), False',
    ),
    Mutant(
        "a stream in a prompt says what has come so far",
        "runtime/answers/stream.py",
        'return self._open if self._kind == "text" else Thoughts(self.pending)',
        "return Thoughts(self.pending)",
    ),
    Mutant(
        "an answer that was asked again has used what the last call did",
        "runtime/answers/multi_call.py",
        "return total_of([response_of(source) for source in self.sources], samples)",
        "return total_of([response_of(source) for source in self.sources[-1:]], samples)",
    ),
    Mutant(
        "every answer that is asked again has the first one's address",
        "runtime/answers/multi_call.py",
        "/ask.{number}",
        "/ask.1",
        first=7,
    ),
    Mutant(
        "an answer that is asked again does not see what was said before",
        "runtime/answers/output.py",
        "source = self.after(before.source, correction, self._asked, before.number)",
        "source = self.after(before.source, correction, self._asked)",
    ),
    Mutant(
        "all samples have the first one's object",
        "runtime/answers/text.py",
        "self._objects[self._number]",
        "self._objects[0]",
        first=91,
    ),
    Mutant(
        "samples come in the order of their answers",
        "runtime/answers/samples.py",
        "for response in responses for sample in response.samples]",
        "for each in responses[::-1] for sample in each.samples]",
    ),
    Mutant(
        "a continuation repeats what it was asked to repeat",
        "runtime/answers/continuation.py",
        "        return self._buffer[start:]",
        "        return self._buffer",
    ),
    Mutant(
        "white space at a cut is kept",
        "runtime/answers/continuation.py",
        "        firm_text = firm(text)\n        if len(firm_text)",
        "        firm_text = text\n        if len(firm_text)",
    ),
    # -- continuations
    Mutant(
        "an answer is continued once too often",
        "runtime/answers/continuation.py",
        "if len(self.sources) > self._rounds:",
        "if len(self.sources) > self._rounds + 1:",
    ),
    Mutant(
        "a continuation has no more tokens than what it has to repeat needs",
        "runtime/answers/continuation.py",
        "max_tokens=sampling.max_tokens + len(joint.marker)",
        "max_tokens=sampling.max_tokens",
    ),
    Mutant(
        "a continued answer thought what its last call did",
        "runtime/answers/continuation.py",
        'reasoning="".join(filter(None, thoughts)) or None,',
        "reasoning=thoughts[-1],",
        first=94,
    ),
    Mutant(
        "the piece after a cut is joined as it comes",
        "runtime/answers/continuation.py",
        "            self._joint = overlap = Overlap(text)\n",
        "            overlap = Overlap(text)\n",
    ),
    Mutant(
        "what is continued is not in the prompt of the continuation",
        "runtime/answers/continuation.py",
        "node = Straight(), continued(trunk, BegunText(call, text))",
        'node = Straight(), continued(trunk, BegunText(call, ""))',
    ),
    Mutant(
        "an answer that is asked again is not continued",
        "runtime/answers/continuation.py",
        "return Continuation(self.call.longer(address, node), self._rounds)",
        "return Continuation(self.call.longer(address, node), 0)",
        first=30,
    ),
    # -- types and choices
    Mutant(
        "an answer of a type is asked once too often",
        "runtime/answers/output.py",
        "elif self._rounds < self._limit:",
        "elif self._rounds <= self._limit:",
    ),
    Mutant(
        "asking one sample again asks for all",
        "runtime/answers/output.py",
        "        source.call.n = 1\n",
        "",
    ),
    Mutant(
        "a prompt gets the words around a value",
        "runtime/answers/output.py",
        "return dataclasses.replace(sample, text=content), value",
        "return sample, value",
    ),
    Mutant(
        "an answer that calls tools is no answer of its type",
        "runtime/answers/output.py",
        "        if sample.tool_calls:\n            return sample, None\n",
        "",
    ),
    Mutant(
        "a choice has used what its last call did",
        "runtime/answers/choice.py",
        "dataclasses.replace(self.total([sample]), choice_method=method)",
        "dataclasses.replace(response, samples=(sample,), choice_method=method)",
        first=177,
    ),
    Mutant(
        "the numbers of options begin with 0",
        "runtime/answers/choice.py",
        "return self._options[int(number[1]) - 1]",
        "return self._options[int(number[1]) % len(self._options)]",
    ),
    # -- more of tools
    Mutant(
        "a loop of tools forces the same tool at every step",
        "runtime/tools/toolloop.py",
        'tool_choice="none" if last else None, **self.asked',
        'tool_choice="none" if last else loop.frame.run and answer.tool_calls[0].name, **self.asked',
    ),
    Mutant(
        "a loop of tools goes a step further than it may",
        "runtime/tools/toolloop.py",
        "last = len(loop.answers) >= self.most",
        "last = len(loop.answers) > self.most",
    ),
    Mutant(
        "a loop of tools begins with the prompt of its caller, whatever it was given",
        "runtime/tools/toolloop.py",
        "    frame.prompt = Prompt(nodes_of(None, rendered) if rendered is not None else node)\n",
        "",
    ),
    Mutant(
        "the filter of calls is turned round",
        "runtime/tools/toolbox.py",
        "if filter is None or filter(call)]",
        "if filter is None or not filter(call)]",
        first=45,
    ),
    Mutant(
        "all results of tools answer the first call",
        "runtime/tools/toolrun.py",
        "return ToolMessage(text, self.call.id, failed)",
        'return ToolMessage(text, "call0", failed)',
    ),
    # -- order, ways to call, and values of prompts
    Mutant(
        "every function runs beside its caller",
        "runtime/function.py",
        "        if program.decoration.parallel:\n            return program.spawn(args, kwargs)\n"
        "        settle = program.converts or (program.returns_value and _in_plain_code())\n"
        "        frame, turn = program.enter(args, kwargs)\n        return program.execute(",
        '        mode = program.asked(kwargs)\n        if mode.ctx in ("new", "copy") '
        "and is_compiled(sys._getframe(1).f_code):\n"
        "            return program.spawn(args, kwargs, mode)\n"
        "        settle = program.converts or (program.returns_value and _in_plain_code())\n"
        "        frame, turn = program.enter(args, kwargs, mode=mode)\n"
        "        return program.execute(",
    ),
    Mutant(
        "a call says in vain which prompt it works on",
        "runtime/decoration.py",
        "mode = dataclasses.replace(mode, ctx=_context(",
        "dataclasses.replace(mode, ctx=_context(",
        first=28,
    ),
    Mutant(
        "a traceable function has a prompt of its own",
        "runtime/traced.py",
        'ctx = "same" if caller.parent is not None else "new"',
        'ctx = "copy" if caller.parent is not None else "new"',
    ),
    Mutant(
        "a copy of a conversation is the conversation",
        "runtime/prompts/conversation.py",
        "return Conversation.of(self.chain)",
        "return self",
    ),
    Mutant(
        "a conversation that was asked with is not changed any more",
        "runtime/prompts/conversation.py",
        "if not self._current or self._lent:",
        "if self._chain is None:",
    ),
    Mutant(
        "copied records go on growing",
        "runtime/prompts/context.py",
        "writer = PromptWriter(frame.address, Prompt(frame.tip()), frame.base)",
        "writer = PromptWriter(frame.address, frame.prompt, frame.base)",
        first=28,
    ),
    Mutant(
        "a lazy string holds its parts in the order of their arrival",
        "runtime/prompts/joined.py",
        'return Value("".join(texts))',
        'return Value("".join(sorted(texts)))',
    ),
    # -- what is kept, and what is shown
    Mutant(
        "objects without room for a weak reference share a state",
        "runtime/prompts/state.py",
        "        place = id(function), id(owner)\n        with _LOCK:",
        '        slotted = owner is not None and not hasattr(owner, "__dict__")\n'
        "        place = id(function), 0 if slotted else id(owner)\n        with _LOCK:",
    ),
    Mutant(
        "a reset forgets all objects",
        "runtime/prompts/state.py",
        "every if owner is None else [place for place in every if place == one]",
        "every",
    ),
    Mutant(
        "a copy of a prompt in the hand is the prompt",
        "runtime/prompts/prompt_context.py",
        "return self._like(self.prompt.copy())",
        "return self._like(self.prompt)",
        first=11,
    ),
    Mutant(
        "a primed generator waits for its first step",
        "runtime/generators.py",
        "    generator = generate(body, frame, turn, inner)\n    if is_primed:",
        "    generator = generate(body, frame, turn, inner)\n    if not generator:",
    ),
    Mutant(
        "a rendering shows the rest of a prompt in place of an answer",
        "runtime/prompts/rendering.py",
        "        prompt.extend([node.after(None, part=_hole(lazy))])",
        '        prompt.extend([node.after(None, part="")])',
    ),
)


def hunt(mutant: Mutant, folder: Path, seeds: int = 600, limit: float = 90) -> int | None:
    """How many programs it took to find *mutant*; ``None`` when none of *seeds* disagrees."""
    copy = mutated(mutant, folder)
    programs = [str(mutant.first), str(mutant.first + seeds - 1)]
    return verdict(mutant, copy, ["tests.equivalence", "--quick", *programs], limit)


def verdict(mutant: Mutant, copy: Path, module: list[str], limit: float) -> int | None:
    """What *module*, with its arguments, says of the *copy* with *mutant*, as ``hunt`` returns."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", *module]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{mutant.name}: no verdict within {limit} s") from None
    word, _, number = done.stdout.strip().rpartition(" ")
    if word == "disagrees:" and done.returncode == 1:
        return int(number)
    assert done.returncode == 0, f"{mutant.name}: {done.stdout}{done.stderr}"
    return None


def mutated(mutant: Mutant, folder: Path, suites: tuple[str, ...] = ("equivalence",)) -> Path:
    """A copy of the package and of the *suites* with the bug in it: all other files are links."""
    ignored = shutil.ignore_patterns("*.pyc.*")  # other processes write them, and take them away
    for name in ("appl", *(f"tests/{suite}" for suite in suites)):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, copy_function=os.symlink)
    path = folder / "appl" / mutant.file
    text = text_with(mutant)
    path.unlink()  # the link to it
    path.write_text(text)
    return folder


def text_with(mutant: Mutant) -> str:
    """The file of *mutant* with the bug in it."""
    text = (ROOT / "appl" / mutant.file).read_text()
    assert text.count(mutant.old) == 1, f"{mutant.name}: its place in {mutant.file} has changed"
    return text.replace(mutant.old, mutant.new)


UNHURT = Mutant("no bug", "__init__.py", "from __future__", "from __future__")
