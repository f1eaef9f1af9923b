import appl
from appl import AIRole, convo, gen, ppl, records

appl.init()


@ppl(ctx="same")
def get_output(attempt_index: int):
    with AIRole():
        (res := gen())
    is_valid = res == "2"
    if is_valid:
        "You guessed it!"
    else:
        "Try again!"
    return is_valid, records()


@ppl(ctx="copy")
def get_valid_gen(num_attempts: int = 5):
    messages = None
    for i in range(num_attempts):
        is_valid, messages = get_output(i)
        if is_valid:
            break
    return messages


@ppl
def main():
    "Guess the number between 1 and 10."
    get_valid_gen()
    return convo()


print(main())
