import json
from typing import Literal

import appl
from appl import as_tool_choice, gen, ppl

appl.init()


def get_weather(place: str, unit: Literal["celsius", "fahrenheit"] = "fahrenheit") -> str:
    """Get the weather of a place.

    Args:
        place (str): The town, e.g. Tarn
    """
    degrees = {"tarn": "10", "orme": "22"}.get(place.lower(), "unknown")
    return json.dumps({"place": place, "temperature": degrees, "unit": unit})


@ppl
def weather_of_towns():
    "How is the weather in Tarn and Orme?"
    (actions := gen(tools=[get_weather], tool_choice=as_tool_choice(get_weather)))
    if actions.is_tool_call:
        (results := actions.run_tool_calls())
        answer = gen(tools=[get_weather], tool_choice="none")
    else:
        answer = actions.message
    return answer


print(weather_of_towns())
