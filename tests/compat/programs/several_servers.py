import appl
from appl import gen, ppl

appl.init(
    servers={"first": {"model": "model-a", "temperature": 0.0}, "second": {"template": "first"}},
    default_servers={"default": "first", "small": "second"},
)


@ppl
def add1(a, b):
    f"{a} plus {b}?"
    return gen("second")


@ppl
def add2(a, b):
    f"{a} plus {b}?"
    return gen(server="small")


print(add1("one", "two"))
print(add2("three", "four"))
