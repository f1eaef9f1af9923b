"""Chat templates in the manner of models in use, each with one of their habits."""

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DEFAULT_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are Q.<|im_end|>\n{% endif %}"
    + CHATML
)
TRIMMED = (
    "{{ bos_token }}{% for m in messages %}<|start|>{{ m['role'] }}<|end|>\n\n{{ m['content'] | trim }}<|eot|>"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant<|end|>\n\n{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] }}</turn>{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}{% if m['role'] == 'assistant' and '</think>' in m['content'] %}"
    "<|im_start|>assistant\n{{ m['content'].split('</think>')[-1].lstrip('\n') }}<|im_end|>\n{% else %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
COUNTING = (
    "{% for m in messages %}[{{ loop.index }}/{{ messages | length }}]{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
THINKING = CHATML.replace("assistant\\n'", "assistant\\n<think>\\n'") + "{# </think> #}"
