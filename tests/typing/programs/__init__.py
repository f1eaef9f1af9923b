"""Programs as users write them, judged by mypy and pyright; expected errors are marked.

A mark without an error is an error too (``warn_unused_ignores``, and pyright's
``reportUnnecessaryTypeIgnoreComment``), so the lint of the repository holds both directions.
"""
