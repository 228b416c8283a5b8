"""Values that a JSON file may hold in place of what it should."""

import json

STRANGE = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    1e308,
    float("nan"),
    "",
    "x" * 10_000,
    [],
    [[]],
    {},
    {"a": []},
    "../..",
    "\ud800",
]


def strange_json(path, draw):
    """Replaces one value somewhere in a JSON file."""
    tree = json.loads(path.read_text())
    node = tree
    while True:
        key = draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
        if isinstance(inner, (dict, list)) and inner and draw.random() < 0.7:
            node = inner
        else:
            break
    if draw.random() < 0.2 and isinstance(node, dict):
        del node[key]
    else:
        node[key] = draw.choice(STRANGE)
    path.write_text(json.dumps(tree))
