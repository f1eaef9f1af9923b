import inspect
import json

from openai import OpenAI
from pydantic import create_model, validate_call
from tools import calculate, search

client = OpenAI()
TOOLS = {"search": search, "calculate": calculate}


def schema(name, function) -> dict:
    parameters = inspect.signature(function).parameters.values()
    fields = {each.name: (each.annotation, ...) for each in parameters}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": function.__doc__,
            "parameters": create_model(name, **fields).model_json_schema(),
        },
    }


def result(call) -> str:
    try:
        function = validate_call(TOOLS[call.function.name])
        return str(function(**json.loads(call.function.arguments)))
    except Exception as error:
        return f"Error: {error!r}"


def react(question: str, max_steps: int) -> str:
    tools = [schema(name, function) for name, function in TOOLS.items()]
    messages = [
        {"role": "system", "content": "Use the tools to answer the question."},
        {"role": "user", "content": question},
    ]
    for _ in range(max_steps):
        message = (
            client.chat.completions.create(model="default", messages=messages, tools=tools)
            .choices[0]
            .message
        )
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result(call)})
    raise RuntimeError("no answer after max_steps")
