"""Content of an attention page."""

import base64
import json
import zlib

import numpy as np


def unpacked(page):
    """Returns the tokens and weights of a page by name."""
    text = page.html.partition('id="data">')[2].partition("</script>")[0]
    found = {}
    for layer in json.loads(text)["layers"]:
        shape = layer["heads"], len(layer["queries"]), len(layer["keys"])
        largest, shares = (
            zlib.decompress(base64.b64decode(layer[name])) for name in ("largest", "shares")
        )
        largest = np.frombuffer(largest, "<f4").reshape(*shape[:2], 1)
        weights = largest * np.frombuffer(shares, "uint8").reshape(shape) / 255
        found[layer["name"]] = layer["queries"], layer["keys"], weights
    return found
