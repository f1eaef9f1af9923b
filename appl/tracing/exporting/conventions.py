"""Names of OpenTelemetry's semantic conventions and of OpenInference's, as exports use them.

Invariant: nothing here is a name of ours but those that begin with ``appl.``.
"""

from __future__ import annotations

from typing import Final

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions that the names are of."""

# generative AI
OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE: Final = "invoke_workflow"
PROVIDER: Final = "gen_ai.provider.name"
WORKFLOW: Final = "gen_ai.workflow.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
CHOICE_COUNT: Final = "gen_ai.request.choice.count"
STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
WRITTEN_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
REQUEST: Final = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "seed": "gen_ai.request.seed",
}
"""Sampling parameters that say nothing of what is talked about."""
STOP: Final = "gen_ai.request.stop_sequences"

# general
ERROR_TYPE: Final = "error.type"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
FUNCTION: Final = "code.function.name"
FILE: Final = "code.file.path"
LINE: Final = "code.line.number"
SERVICE: Final = "service.name"

# OpenInference
KIND: Final = "openinference.span.kind"
LLM: Final = "LLM"
CHAIN: Final = "CHAIN"
TOOL: Final = "TOOL"
OI_MODEL: Final = "llm.model_name"
OI_PARAMETERS: Final = "llm.invocation_parameters"
OI_INPUT: Final = "llm.input_messages"
OI_OUTPUT: Final = "llm.output_messages"
OI_PROMPT_TOKENS: Final = "llm.token_count.prompt"
OI_ANSWER_TOKENS: Final = "llm.token_count.completion"
OI_TOTAL_TOKENS: Final = "llm.token_count.total"
OI_CACHED_TOKENS: Final = "llm.token_count.prompt_details.cache_read"
OI_WRITTEN_TOKENS: Final = "llm.token_count.prompt_details.cache_write"
OI_REASONING_TOKENS: Final = "llm.token_count.completion_details.reasoning"
OI_COST: Final = "llm.cost.total"
OI_ROLE: Final = "message.role"
OI_CONTENT: Final = "message.content"
OI_CALL_ID: Final = "message.tool_call_id"
OI_CALLS: Final = "message.tool_calls"
OI_TOOL_ID: Final = "tool_call.id"
OI_TOOL_NAME: Final = "tool_call.function.name"
OI_TOOL_ARGUMENTS: Final = "tool_call.function.arguments"
OI_TOOL: Final = "tool.name"
OI_TOOL_PARAMETERS: Final = "tool.parameters"
OI_IN: Final = "input.value"
OI_OUT: Final = "output.value"

# ours
ADDRESS: Final = "appl.address"
RUN: Final = "appl.run"
STATE: Final = "appl.run.state"
OUTCOME: Final = "appl.call.outcome"
SOURCE: Final = "appl.call.source"
OF: Final = "appl.call.of"
SUPERSEDED: Final = "appl.call.superseded"
MASKED: Final = "appl.call.masked"
COST: Final = "appl.usage.cost"
TIER: Final = "appl.usage.tier"
CACHE_MISS: Final = "appl.usage.cache_miss"
ATTEMPT: Final = "appl.attempt"
ATTEMPT_NUMBER: Final = "appl.attempt.number"
LINK: Final = "appl.link"
KEPT: Final = "appl.call.cached_samples"
METADATA: Final = "appl.metadata"
ARGUMENTS: Final = "appl.function.arguments"
RESULT: Final = "appl.function.result"
