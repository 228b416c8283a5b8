"""Signals that stop a run."""

import signal
import threading


class StopSignals:
    """Records SIGTERM and SIGINT while the context is active; a second one ends the process.

    Attributes:
        received: Number of the signal; 0 if there was none.
    """

    def __init__(self):
        self.received = 0
        self._handlers = {}

    def __enter__(self):
        # Python allows signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._handlers = {
                number: signal.signal(number, self._record)
                for number in (signal.SIGTERM, signal.SIGINT)
            }
        return self

    def __exit__(self, *_):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _record(self, number, frame):
        if self.received:  # the second signal does not wait for the checkpoint
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.received = number
