"""Trains the byte-level BPE tokenizer on generator text and writes its Hugging Face files; any UTF-8 text encodes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

sys.path.insert(0, str(Path(__file__).parent))

import generator
from chat import SPECIAL, TEMPLATE

SIZE = 3072
ATTACHED = (
    "the a an is are was of in to and or for with on at by from has have that this it as be not do does did you I my your who what "
    "which where when how many each more than them she he they one if"
)
"""Words that may carry the space before them; all others are the same tokens wherever they stand, which makes copying easy."""
PATTERN = rf" (?:{'|'.join(ATTACHED.split())})(?![A-Za-z])|'s(?![A-Za-z])|\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+|\n+|\s"


def texts(number: int) -> Iterator[str]:
    """The text of training conversations."""
    for example in generator.training("tokenizer", number):
        yield from (text for _, text in generator.conversation(example))


def train(number: int = 150_000) -> Tokenizer:
    """The tokenizer, the same for the same number of conversations."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        min_frequency=20,
    )
    tokenizer.train_from_iterator(texts(number), trainer)
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(
        json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    )
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "<|end|>",
        "pad_token": "<pad>",
        "additional_special_tokens": [t for t in SPECIAL if t not in ("<s>", "<|end|>", "<pad>")],
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    )


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--number", type=int, default=150_000)
    options = parser.parse_args()
    save(train(options.number), options.out)


if __name__ == "__main__":
    main()
