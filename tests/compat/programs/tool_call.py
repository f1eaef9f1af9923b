import appl
from appl import Generation, as_tool, gen, ppl, records

appl.init()


def is_lucky(x: int) -> bool:
    """Tell whether a number is lucky.

    Args:
        x (int): The number to look at.

    Returns:
        bool: True if it is, False otherwise.
    """
    return x % 7 == 0


@ppl
def answer(x: int):
    f"Is {x} lucky?"
    (actions := gen(tools=[is_lucky]))
    if actions.is_tool_call:
        (results := actions.run_tool_calls())
        print(results[0].get_content())
    return gen(tools=[is_lucky], tool_choice="none")


print(as_tool(is_lucky).openai_schema["function"]["parameters"]["required"])
print(answer(2023))
