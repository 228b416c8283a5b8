"""Ops of TensorFlow that tf2onnx 1.17 does not convert; imported for an export to ONNX."""

import numpy as np
from tf2onnx.handler import tf_op
from tf2onnx.utils import map_onnx_to_numpy_type


@tf_op("Erfc")
class Erfc:
    """The complementary error function, in the exact GELU: `1 - Erf(x)`."""

    @classmethod
    def version_9(cls, ctx, node, **kwargs):
        (kind,), (shape,) = node.output_dtypes, node.output_shapes
        erf = ctx.make_node("Erf", node.input, dtypes=[kind], shapes=[shape])
        one = ctx.make_const(f"{node.name}_one", np.ones((), map_onnx_to_numpy_type(kind)))
        ctx.remove_node(node.name)
        ctx.make_node(
            "Sub",
            [one.output[0], erf.output[0]],
            name=node.name,
            outputs=node.output,
            dtypes=[kind],
            shapes=[shape],
        )
