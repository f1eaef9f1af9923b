import asyncio

from data import RECORDS
from pydantic import BaseModel
from pydantic_ai import Agent


class Order(BaseModel):
    customer: str
    item: str
    quantity: int
    price: float


agent = Agent("openai-chat:m", output_type=Order, retries=2)
at_once = asyncio.Semaphore(64)


async def extract(record: str) -> Order:
    async with at_once:
        return (await agent.run(f"Extract the order. {record}")).output


async def main() -> str:
    found = await asyncio.gather(*map(extract, RECORDS), return_exceptions=True)
    orders = [each for each in found if isinstance(each, Order)]
    total = sum(each.quantity * each.price for each in orders)
    return f"{len(orders)} orders, {len(found) - len(orders)} failed, {total:.2f}"


print(asyncio.run(main()))
