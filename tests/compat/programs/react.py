import appl
from appl import AIRole, as_tool, as_tool_choice, gen, ppl

appl.init()


class Switches:
    """A row of switches.

    All of them should be on.
    """

    def __init__(self, count: int):
        self.on = [False] * count

    def render(self) -> str:
        return " ".join("on" if each else "off" for each in self.on)


def flip(env: Switches, number: int) -> str:
    """Flip one switch.

    Args:
        number (int): The switch, from 0.

    Returns:
        str: How the switches are now.
    """
    env.on[number] = not env.on[number]
    return env.render()


@ppl
def react(env: Switches, max_steps: int = 5):
    tools = [as_tool(flip, env=env)]
    (desc := (env.__doc__ or "").split("\n\n")[1].strip())
    "Think before each step."
    env.render()
    steps = 0
    while steps < max_steps:
        with AIRole():
            f"Thoughts: {gen(tools=tools, tool_choice='none')}"
        (actions := gen(tools=tools, tool_choice=as_tool_choice(flip)))
        if actions.is_tool_call:
            (results := actions.run_tool_calls())
            for i in range(len(results)):
                steps += 1
                print(f"step {steps}: {results[i].get_content()}")
        else:
            assert False, "a call was expected"
        if all(env.on):
            print(f"done in {steps} steps")
            break


react(Switches(2))
