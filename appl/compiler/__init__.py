"""The compiler: from a decorated ``def`` to code over the runtime's hooks, and to a call graph."""
