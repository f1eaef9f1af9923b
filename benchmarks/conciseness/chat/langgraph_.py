from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent


def agent(persona: str):
    model, memory = ChatOpenAI(model="default"), InMemorySaver()
    return create_react_agent(model, [], prompt=persona, checkpointer=memory)


def reply(runnable, heard: str) -> str:
    asked = {"messages": [("user", heard)]}
    done = runnable.invoke(asked, {"configurable": {"thread_id": "chat"}})
    return done["messages"][-1].content


def chat(personas: list[str], opening: str, turns: int) -> list[str]:
    agents = [agent(persona) for persona in personas]
    said = [opening]
    for turn in range(turns):
        said.append(reply(agents[turn % 2], said[-1]))
    return said
