"""The order of calls to servers that cache prefixes, which their backends bring.

Invariant: nothing outside of this package but such a backend imports it.
"""

from appl.runtime.scheduling.prefix_order.prefix_order import PrefixOrder as PrefixOrder
