from appl import AIRole, SystemMessage, gen, ppl


@ppl
def chat_in_one(name: str):
    SystemMessage(f"You are {name}")
    while True:
        print("User:")
        (msg := input())
        if msg.startswith("exit"):
            break
        print("Assistant:")
        with AIRole():
            (reply := gen(stream=True))
        print(reply)


@ppl(ctx="resume")
def bot(msg: str):
    msg
    with AIRole():
        (reply := gen(stream=True))
    return reply


@ppl
def chat_with_bot(name: str):
    SystemMessage(f"You are {name}")
    while True:
        msg = input()
        if msg.startswith("exit"):
            break
        print(bot(msg))


chat_in_one("Nora")
chat_with_bot("Olaf")
