"""How long the three programs of the APPL paper are, in four ways of writing them.

    python benchmarks/count_programs.py
    python benchmarks/count_programs.py --json

Counted are lines of code (blank ones left out; every file is formatted by ruff) and nodes of the
syntax tree, with and without the import statements. The programs of a scenario have the same
features and the same prompts; `benchmarks/conciseness/verify.py` runs those whose packages are
installed against one scripted server and compares what they return.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from pathlib import Path

HERE = Path(__file__).with_name("conciseness")
SCENARIOS = {
    "cot_sc": "chain of thought, self-consistency",
    "react": "ReAct with two tools",
    "chat": "two agents talk",
}
WAYS = {
    "appl_": "appl",
    "openai_sdk": "openai SDK",
    "sglang_frontend": "SGLang frontend",
    "langgraph_": "LangGraph",
}


def counted(path: Path) -> dict[str, int]:
    """Lines and syntax tree nodes of a file."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return {
        "lines": sum(1 for line in text.splitlines() if line.strip()),
        "nodes": sum(1 for _ in ast.walk(tree)),
        "nodes_without_imports": sum(1 for node in body for _ in ast.walk(node)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    subprocess.run(["ruff", "format", "--check", "--quiet", str(HERE)], check=True)
    table = {
        scenario: {name: counted(HERE / scenario / f"{file}.py") for file, name in WAYS.items()}
        for scenario in SCENARIOS
    }
    if given.json:
        print(json.dumps(table, indent=2))
        return
    for scenario, rows in table.items():
        smallest = min(row["nodes"] for row in rows.values())
        print(f"{SCENARIOS[scenario]}")
        for name, row in rows.items():
            print(
                f"  {name:16} {row['lines']:4} lines {row['nodes']:5} nodes "
                f"{row['nodes_without_imports']:5} without imports  "
                f"{row['nodes'] / smallest:5.2f} of the smallest"
            )


if __name__ == "__main__":
    main()
