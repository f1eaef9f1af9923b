import appl
from appl import gen, ppl

appl.init()


@ppl
def greet(name: str):
    f"Hi there! I am called {name}."
    return gen()


print(greet("Ada"))
