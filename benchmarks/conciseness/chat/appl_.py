from appl import AIRole, SystemMessage, gen, ppl


@ppl(auto_prime=True)
def agent(persona: str):
    SystemMessage(persona)
    said = None
    while True:
        yield said
        with AIRole():
            (said := gen())


def chat(personas: list[str], opening: str, turns: int) -> list[str]:
    agents = [agent(persona) for persona in personas]
    said = [opening]
    for turn in range(turns):
        said.append(agents[turn % 2].send(said[-1]))
    return [str(each) for each in said]
