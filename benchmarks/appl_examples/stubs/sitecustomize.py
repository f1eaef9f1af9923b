"""Has tiktoken count tokens without its tables, which are downloads: four characters are one."""

import tiktoken


class _Encoding:
    def encode(self, text: str, **_: object) -> list[int]:
        said = str(text)  # real ones take texts alone; an example gives a conversation
        return [sum(map(ord, said[at : at + 4])) for at in range(0, len(said), 4)]


tiktoken.encoding_for_model = lambda name: _Encoding()
