from openai import OpenAI

client = OpenAI()


def reply(messages: list, heard: str) -> str:
    messages.append({"role": "user", "content": heard})
    completion = client.chat.completions.create(model="default", messages=messages)
    text = completion.choices[0].message.content
    messages.append({"role": "assistant", "content": text})
    return text


def chat(personas: list[str], opening: str, turns: int) -> list[str]:
    agents = [[{"role": "system", "content": persona}] for persona in personas]
    said = [opening]
    for turn in range(turns):
        said.append(reply(agents[turn % 2], said[-1]))
    return said
