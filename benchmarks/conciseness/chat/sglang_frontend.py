import sglang as sgl


@sgl.function
def talk(s, personas: list[str], opening: str, turns: int):
    agents = s.fork(len(personas))
    agents += [sgl.system(persona) for persona in personas]
    said = [opening]
    for turn in range(turns):
        agent = agents[turn % 2]
        agent += sgl.user(said[-1])
        agent += sgl.assistant(sgl.gen(f"said{turn}"))
        said.append(agent[f"said{turn}"])
    s.set_var("said", said)


def chat(personas: list[str], opening: str, turns: int) -> list[str]:
    return talk.run(personas, opening, turns)["said"]
