"""A stand-in for `Run`, of which a test needs a few methods alone."""

import types


class SmallRun(types.SimpleNamespace):
    """What functions that choose fields need of a `Run`.

    Attributes:
        config, resolved: As those of a `Run`.
        said: Lines that were printed.
    """

    chief, resumed, compared = True, False, False

    def __init__(self, config, **attributes):
        super().__init__(config=config, resolved=config.to_dict(), said=[], **attributes)

    def set_field(self, path, value):
        group, name = path.split(".")
        self.config[group][name] = self.resolved[group][name] = value

    def say(self, line):
        self.said.append(str(line))

    def barrier(self):
        pass
