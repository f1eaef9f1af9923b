import appl
from appl import Image, gen, ppl

appl.init()


@ppl
def describe(url: str):
    "What is in this picture?"
    Image(url)
    return gen()


print(describe("https://pictures.example/boat.png"))
