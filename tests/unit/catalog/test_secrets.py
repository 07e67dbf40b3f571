"""What is plainly a secret is masked, and nothing else."""

from __future__ import annotations

import pytest

from gputop.catalog.secrets import masked, masked_data


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.py --password hunter2 --epochs 3", "x.py --password *** --epochs 3"),
        ("x --db-password='a b' z", "x --db-password='***' z"),
        ("HF_TOKEN=abc python x", "HF_TOKEN=*** python x"),
        ("WANDB_API_KEY=abc123", "WANDB_API_KEY=***"),
        ('curl -H "Authorization: Bearer abc.defghi"', 'curl -H "Authorization: Bearer ***"'),
        ("Authorization: Basic YWxh", "Authorization: Basic ***"),
        ("git clone https://bob:pw@host/x", "git clone https://***@host/x"),
        ("key AKIAABCDEFGHIJKLMNOP", "key ***"),
        ("hf_abcdefghijklmnopqrstuv", "***"),
        ('{"password": "x", "n": 1}', '{"password": "***", "n": 1}'),
    ],
)
def test_a_secret_is_masked(text: str, expected: str) -> None:
    assert masked(text) == expected
    assert masked_data({"command": [text]}) == {"command": [expected]}


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve --max-tokens 4096 --tokenizer llama",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "Basic block",
        "add to sudoers: ops ALL=(root) NOPASSWD: /usr/bin/install -D /dev/stdin x",
        "train --task-sk-learn",
        "tokens per second: 512",
        "https://host:8080/x@y",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text
