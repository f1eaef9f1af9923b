from langchain_openai import ChatOpenAI
from langgraph.prebuilt import ToolNode, create_react_agent
from tools import calculate, search

agent = create_react_agent(
    ChatOpenAI(model="default"),
    ToolNode([search, calculate], handle_tool_errors=True),
    prompt="Use the tools to answer the question.",
)


def react(question: str, max_steps: int) -> str:
    asked = {"messages": [("user", question)]}
    done = agent.invoke(asked, {"recursion_limit": 2 * max_steps + 1})
    return done["messages"][-1].content
