"""An HTTP/1.1 client for model servers, used by the backends ``openai`` and ``sglang``."""
