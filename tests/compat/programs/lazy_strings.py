from appl import StringFuture, gen, ppl


@ppl
def mul(x: int, y: int):
    f"3*4=12"
    f"{x}*{y}="
    return gen()


n = 3
table = StringFuture("\n").join(
    StringFuture(" ").join(mul(i + 1, j + 1) for j in range(n)) for i in range(n)
)
print(table)

again = ""
for i in range(2):
    if i:
        again += ", "
    again += mul(i + 1, 2)
print(again)
print(str(mul(3, 3)), mul(2, 2).results)
