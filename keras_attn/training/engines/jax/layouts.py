"""How weights and optimizer slots are sharded over the devices of a mesh."""

import re

from jax.sharding import PartitionSpec

from keras_attn.errors import UserError

DATA, MODEL = "data", "model"
# Variables, and their axes that may be divided, the preferred one first: the tokens of the
# vocabulary, the outputs of the projections of attention, and the units of feed-forward layers.
_LAYOUTS = (
    (re.compile(r"(^|/)(token|mlm|target)_embedding$"), (0, 1)),
    (re.compile(r"(^|/)(output_kernel|feed_forward/output/kernel)$"), (0,)),
    (re.compile(r"(query|key|value|position)_kernel$|feed_forward/intermediate/kernel$"), (1,)),
    (re.compile(r"(query|key|value)_bias$|feed_forward/intermediate/bias$"), (0,)),
)


def mesh_shape(mesh, devices):
    """Returns the sizes of the axes `data` and `model`.

    Args:
        mesh: Such as "data:4,model:2". A missing axis `data` has all other devices.
        devices: Number of devices.

    Raises:
        UserError: If an axis is unknown, or the sizes do not multiply to the number of devices.
    """
    found = re.fullmatch(rf"(?:{DATA}:([1-9]\d*))?(?:(?:^|(?<=\d),){MODEL}:([1-9]\d*))?", mesh)
    if not mesh or not found:
        raise UserError(
            f"--mesh must be {DATA}:SIZE,{MODEL}:SIZE or one of the two. Received: mesh={mesh}"
        )
    model = int(found[2] or 1)
    data = int(found[1] or devices // model)
    if data * model != devices:
        raise UserError(
            f"The sizes of --mesh must multiply to the number of devices, {devices}. "
            f"Received: mesh={mesh}"
        )
    return data, model


def weight_layout(path, shape, size):
    """Returns the `PartitionSpec` of a weight; one whose axes cannot be divided is replicated.

    Args:
        path: Path of the variable.
        shape: Its shape.
        size: Size of the axis `model`.

    Reference:
        Shoeybi et al., Megatron-LM, 2019, section 3.
    """
    axes = next((axes for pattern, axes in _LAYOUTS if pattern.search(path)), ())
    axis = next((axis for axis in axes if shape[axis] % size == 0), None)
    if size == 1 or axis is None:
        return PartitionSpec()
    return PartitionSpec(*[None] * axis, MODEL)


def slot_layout(layout, shape, size):
    """Returns the `PartitionSpec` of an optimizer slot that the axis `data` divides, too.

    Args:
        layout: That of the weight.
        shape: Shape of both.
        size: Size of the axis `data`.

    Reference:
        Rajbhandari et al., ZeRO, 2020, section 5.1.
    """
    axes = [*layout, *[None] * (len(shape) - len(layout))]
    free = [axis for axis, name in enumerate(axes) if name is None and shape[axis] % size == 0]
    if size == 1 or not free:
        return layout
    axes[max(free, key=lambda axis: shape[axis])] = DATA
    return PartitionSpec(*axes)


def slot_layouts(optimizer, weights, layouts, size):
    """Returns the layouts of the optimizer slots that have the shape of a weight, by variable id.

    Args:
        optimizer: A built Keras optimizer.
        weights: The trainable variables.
        layouts: Their layouts.
        size: Size of the axis `data` if it divides the slots; 1: it does not.
    """
    # Keras names a slot by the path of its weight and the kind of slot.
    known = {
        weight.path.replace("/", "_"): (weight.shape, layout)
        for weight, layout in zip(weights, layouts, strict=True)
    }
    found = {}
    for slot in optimizer.variables:
        shape, layout = known.get(slot.name.rpartition("_")[0], (None, None))
        if shape == slot.shape:
            found[id(slot)] = slot_layout(layout, shape, size)
    return found
