import appl
from appl import ppl
from appl.func import gen

appl.init()


@ppl
def count(stream=True):
    "Count to five."
    return gen(stream=stream)


print(f"whole: {count(stream=False)}")
print(f"streamed: {count(stream=True)}")
for chunk in count().text_stream:
    print(chunk, end="|")
print()
