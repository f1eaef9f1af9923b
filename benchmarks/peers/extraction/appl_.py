from data import RECORDS
from pydantic import BaseModel

from appl import gen, map, ppl


class Order(BaseModel):
    customer: str
    item: str
    quantity: int
    price: float


@ppl
def extract(record: str) -> Order:
    f"Extract the order. {record}"
    return gen(response_format=Order, max_asks=3)


def main() -> str:
    found = map(extract, RECORDS, concurrency=64, on_error="collect")
    orders = [each for each in found if isinstance(each, Order)]
    total = sum(each.quantity * each.price for each in orders)
    return f"{len(orders)} orders, {len(found) - len(orders)} failed, {total:.2f}"
