"""Memory of this machine that a process can take, and has taken."""

import pathlib
import sys

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def peak_memory():
    """Most bytes that this process has held; None if unknown."""
    if resource is None:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def free_memory(root="/"):
    """Bytes that this process can still take, within the limits of its control groups.

    Args:
        root: Folder of /proc and /sys.

    Returns:
        The number; None elsewhere than on Linux.
    """
    root = pathlib.Path(root)
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    return min([available * 1024, *_of_control_groups(root)])


def _of_control_groups(root):
    """What each limit of the groups that this process is in, and of those above, leaves."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / path.lstrip("/")
        for folder in [group, *group.parents]:
            yield from _left(folder, *names)
            if folder == base:
                break


def _left(folder, limit, usage, reclaimable):
    try:
        limit, used = (int((folder / name).read_text()) for name in (limit, usage))
        statistics = dict(
            line.split() for line in (folder / "memory.stat").read_text().splitlines()
        )
        yield max(0, limit - used + int(statistics.get(reclaimable, 0)))
    except (OSError, ValueError):  # there is none, or it is "max"
        return
