"""Methods of models that need weights."""

import functools


def needs_weights(method):
    """The method, which builds the model where that has not been done; as a call does."""

    @functools.wraps(method)
    def built(model, *args, **kwargs):
        if not model.built:
            model.build()
        return method(model, *args, **kwargs)

    return built
