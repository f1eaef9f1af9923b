import asyncio

from data import REVIEWS
from pydantic_ai import Agent
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected

agent = Agent("openai-chat:m")


async def short(review: str) -> str:
    return (await agent.run(f"Good or bad? {review}")).output


async def careful(review: str) -> str:
    return (await agent.run(f"Read carefully and say good or bad. {review}")).output


cases = [Case(name=review, inputs=review, expected_output=mood) for review, mood in REVIEWS]
dataset = Dataset(name="reviews", cases=cases, evaluators=[EqualsExpected()])


async def main() -> None:
    before = await dataset.evaluate(short, progress=False)
    after = await dataset.evaluate(careful, progress=False)
    after.print(baseline=before, width=120)


asyncio.run(main())
