from absl import flags

from benchmarks.interleaved import left_out, median_range, reports_in_turn


class Counted:
    def __init__(self, name, order):
        self.name, self.order = name, order

    def measure(self, count):
        self.order.append(self.name)
        return {"seconds": count}


def test_every_contender_is_measured_each_turn_in_a_rotating_order():
    order = []
    found = reports_in_turn([Counted(name, order) for name in "abc"], 4, {"a": 1, "b": 2, "c": 3})
    assert [order[i : i + 3] for i in range(0, 12, 3)] == [
        list("abc"),
        list("bca"),
        list("cab"),
        list("abc"),
    ]
    assert {name: [r["seconds"] for r in reports] for name, reports in found.items()} == {
        "a": [1] * 4,
        "b": [2] * 4,
        "c": [3] * 4,
    }


def test_without_contenders_there_are_no_reports():
    assert reports_in_turn([], 4, {}) == {}


def test_a_check_lists_what_the_flags_leave_out():
    values = flags.FlagValues()
    flags.DEFINE_list("sizes", ["tiny", "base"], "", flag_values=values)
    flags.DEFINE_list("lengths", ["128"], "", flag_values=values)
    values(["program", "--sizes=tiny"])
    assert left_out(values, sizes=["tiny", "base"], lengths=["128"]) == ["--sizes leaves out base"]
    values(["program", "--sizes=tiny,base"])
    assert left_out(values, sizes=["tiny", "base"], lengths=["128"]) == []


def test_a_median_range_is_the_median_with_the_range():
    assert median_range([3.0, 1.0, 10.0]) == "3.0 (1.0 to 10.0)"
