"""Twins of real servers: they refuse what the real one refuses, and answer in its own style.

Each rule stands beside the address of the page, the source file or the public report that it comes
from. Nothing here knows how the product writes its requests.
"""
