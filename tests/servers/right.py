"""Right answers: of OpenAI's interface whole and streamed, of SGLang's, and what a server says of itself."""

from __future__ import annotations

from typing import Any

LOGPROBS = {"content": [{"token": "a", "logprob": -0.5, "bytes": [97],
                         "top_logprobs": [{"token": "b", "logprob": -1}]}]}  # fmt: skip
CALL = {"index": 0, "id": "c", "type": "function",
        "function": {"name": "f", "arguments": "{}"}}  # fmt: skip
USAGE = {"prompt_tokens": 8, "completion_tokens": 2, "cost": 0.1,
         "prompt_tokens_details": {"cached_tokens": 0}}  # fmt: skip
CHAT = {"id": "c1", "model": "m", "usage": USAGE, "choices": [{
    "index": 0, "finish_reason": "stop", "logprobs": LOGPROBS, "message": {
        "role": "assistant", "content": "ok", "refusal": None, "reasoning_content": "so",
        "tool_calls": [CALL]}}]}  # fmt: skip
EVENTS = (
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {
        "role": "assistant", "content": "ok", "reasoning_content": "so", "refusal": "",
        "tool_calls": [CALL]}, "logprobs": LOGPROBS, "finish_reason": None}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}]},
    {"id": "c1", "choices": [], "usage": USAGE},
)  # fmt: skip
NATIVE = {"text": "ok", "output_ids": [1, 2], "index": 0, "meta_info": {
    "id": "1", "prompt_tokens": 8, "completion_tokens": 2, "cached_tokens": 0,
    "finish_reason": {"type": "stop", "matched": 2},
    "output_token_logprobs": [[-0.5, 1, "a"]], "output_top_logprobs": [[[-1, 2, "b"]]]}}  # fmt: skip
FACTS: dict[str, Any] = {
    "/model_info": {"model_path": "m", "tokenizer_path": "t", "is_generation": True,
                    "has_image_understanding": False},
    "/server_info": {"version": "0.5.17", "served_model_name": "m", "disable_radix_cache": False,
                     "max_total_num_tokens": 9, "schedule_policy": "lpm", "context_length": 9,
                     "max_req_input_len": 9, "incremental_streaming_output": False,
                     "internal_states": [{"effective_max_running_requests_per_dp": 4}]},
    "/v1/models": {"data": [{"id": "m", "max_model_len": 9}]},
    "/tokenize": {"tokens": [1, 2]},
}  # fmt: skip


def sse(events: list[bytes]) -> bytes:
    """Server-sent events."""
    return b"".join(b"data: %b\n\n" % each for each in [*events, b"[DONE]"])
