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
_PART = {"type": "output_text", "text": "ok!", "annotations": [], "logprobs": LOGPROBS["content"]}
_ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "so"}],
     "encrypted_content": "gA"},
    {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [_PART]},
    {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"},
]  # fmt: skip
_COUNTED = {"input_tokens": 8, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
RESPONSE = {"id": "r1", "model": "m", "status": "completed", "error": None, "incomplete_details": None,
            "output": _ITEMS, "usage": _COUNTED, "service_tier": "default"}  # fmt: skip
_AT = {"item_id": "msg", "output_index": 1, "content_index": 0}
RESPONSE_EVENTS = (
    {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}},
    {"type": "response.reasoning_summary_text.delta", "item_id": "rs", "summary_index": 0, "delta": "so"},
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEMS[0]},
    {"type": "response.output_text.delta", "delta": "ok", **_AT},
    {"type": "response.output_text.delta", "delta": "!", **_AT},
    {"type": "response.output_item.done", "output_index": 1, "item": _ITEMS[1]},
    {"type": "response.completed", "response": RESPONSE},
)  # fmt: skip
_USED = {"input_tokens": 8, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
         "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
         "output_tokens": 2, "service_tier": "standard"}  # fmt: skip
_BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "so", "signature": "EqQB"},
    {"type": "text", "text": "ok!", "citations": None},
    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
]
MESSAGE = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": _BLOCKS,
           "stop_reason": "tool_use", "stop_sequence": None, "usage": _USED,
           "diagnostics": {"cache_miss_reason": {"type": "system_changed"}}}  # fmt: skip
MESSAGE_EVENTS = (
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "so"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "Eq"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "ok!"}},
    {"type": "content_block_start", "index": 2, "content_block": {**_BLOCKS[2], "input": {}}},
    {"type": "content_block_delta", "index": 2,
     "delta": {"type": "input_json_delta", "partial_json": "{\"a\":1}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
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
