"""Free and peak memory of this process."""

import pathlib
import sys

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def peak_memory():
    """Returns the peak memory of this process in bytes; None if unknown."""
    if resource is None:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def free_memory(root="/"):
    """Returns the memory in bytes that this process can still allocate within its control groups.

    Args:
        root: Folder of /proc and /sys.

    Returns:
        Number of bytes; None on other systems than Linux.
    """
    root = pathlib.Path(root)
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
    return min([available * 1024, *_of_control_groups(root)])


def _of_control_groups(root):
    """Yields the free memory within the limit of each control group and of its parents."""
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
    except (OSError, ValueError):  # no limit: the file is missing or contains "max"
        return
