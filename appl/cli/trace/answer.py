"""``appl trace answer``: answers the questions of a run that waits for people.

Invariant: all answers are checked before one is added; without answers nothing is changed.
"""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, option
from appl.cli.target import UsageError
from appl.cli.terminal import counted, print_found, report_done
from appl.cli.trace.asked import time_in_words
from appl.cli.trace.run_names import run_path
from appl.config import load
from appl.runtime.waiting.forms import Form
from appl.runtime.waiting.people import this_user
from appl.session.answers import add_answers
from appl.tracing import Trace
from appl.tracing.reading.waits import RecordedQuestion, open_questions


@appl_command(
    "answer",
    example="appl trace answer last\nappl trace answer last /main.0/refund.0=yes\n"
    "appl trace answer last '/main.0/refund.0=no: too much'",
)
@argument(
    "words",
    nargs=-1,
    metavar="[RUN] ADDRESS=VALUE",
    help=f"the run ({parameters.RUN}; {parameters.LAST}), and answers by address",
    shell_complete=parameters.RUNS,
)
@option("--by", metavar="NAME", help="who answers; by default the user of this system")
@parameters.as_json
def command(options: Options) -> None:
    """Answer the questions of a run that waits, or list them.

    Of an address a part is enough that no other question has, such as `refund.0`. An approval is
    `yes`, `no`, `no: REASON`, or other arguments as a JSON object; the type of a question says what
    else can be answered. `appl trace resume RUN` goes on with the answers.
    """
    run, answers = _parsed(options.words)
    path = run_path(run)
    if not answers:
        questions = open_questions(Trace.open(path, home=load().home))
        data = {"run": path.stem, "questions": [question.as_data() for question in questions]}
        print_found(options.json, data, _lines(path.stem, questions))
        return
    by = options.by or this_user()
    try:
        answered = add_answers(path, answers, by=by, via="command line")
    except ValueError as error:
        raise UsageError(str(error)) from None
    addresses = [question.address for question in answered]
    done = {"run": path.stem, "answered": addresses, "by": by}
    sentence = (
        f"answered {counted(len(addresses), 'question')}: {', '.join(addresses)}; "
        f"`appl trace resume {run}` goes on"
    )
    report_done(options.json, done, sentence)


def _parsed(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The run, and the answers by address."""
    run = words[0] if words and "=" not in words[0] else "last"
    answers: dict[str, str] = {}
    for word in words[1:] if words and "=" not in words[0] else words:
        address, sign, value = word.partition("=")
        if not sign or not address:
            raise UsageError(f"an answer is ADDRESS=VALUE, got {word!r}")
        if address in answers:
            raise UsageError(f"{address} is answered twice")
        answers[address] = value
    return run, answers


def _lines(name: str, questions: list[RecordedQuestion]) -> list[str]:
    if not questions:
        return [f"{name} asks nothing now"]
    lines: list[str] = []
    for question in questions:
        lines.append(f"{question.address}  {question.text}")
        if question.tool:
            lines.append(f"  calls   {question.tool} with {dict(question.arguments)}")
        lines.append(f"  answer  {Form.of_data(question.form).hint}")
        if question.due is not None:
            lines.append(f"  until   {time_in_words(question.due)}")
    lines.append(f"appl trace answer {name} {questions[0].address}=VALUE")
    return lines
