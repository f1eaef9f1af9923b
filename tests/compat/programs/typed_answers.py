from typing import Literal

from pydantic import BaseModel

from appl import gen, ppl


class User(BaseModel):
    name: str
    age: int


class Thoughtful(BaseModel):
    thoughts: str
    answer: Literal["Yes", "No"]


@ppl
def get_user(text: str):
    f"Take the user out of: {text}"
    return gen(response_format=User)


@ppl
def decide(question: str):
    question
    return gen(response_format=Literal["Yes", "No"])


@ppl
def think(question: str):
    question
    return gen(response_format=Thoughtful).response_obj


user = get_user("Jo is 25 years old.").response_obj
print(user.name, user.age)
print(decide("Is 7 odd?").response_obj)
print(think("Is 8 odd?").answer)
