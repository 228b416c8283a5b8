"""SVG charts."""

import math

from keras_attn.reports.page import Markup, tag

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 10, 34


class Chart:
    """A chart with two numeric axes.

    Args:
        label: Description for screen readers.
        x, y: `(low, high)` of the axes.
        titles: Titles of the two axes.
    """

    def __init__(self, label, x, y, titles):
        self.label, self.titles = label, titles
        self.x, self.y = axis_range(x), axis_range(y)
        self.shapes = []

    def at(self, x, y):
        """Returns the coordinates of a point in the SVG, as two strings."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return (
            f"{LEFT + across * (WIDTH - LEFT - RIGHT):.1f}",
            f"{HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM):.1f}",
        )

    def line(self, xs, ys, kind="line"):
        """Draws a line through points."""
        points = " ".join(",".join(self.at(x, y)) for x, y in zip(xs, ys, strict=True))
        self.shapes.append(tag("polyline", points=points, class_=kind))

    def dots(self, xs, ys, titles=None, kind="dot", radius=3):
        """Draws points; `titles` are their tooltips."""
        for number, place in enumerate(zip(xs, ys, strict=True)):
            x, y = self.at(*place)
            title = tag("title", titles[number]) if titles else ""
            self.shapes.append(tag("circle", title, cx=x, cy=y, r=radius, class_=kind))

    def bar(self, low, high, height, title):
        """Draws a bar from `low` to `high` on the x axis."""
        (left, bottom), (right, top) = self.at(low, self.y[0]), self.at(high, height)
        self.shapes.append(
            tag(
                "rect",
                tag("title", title),
                x=f"{float(left) + 1:.1f}",
                y=top,
                width=f"{float(right) - float(left) - 2:.1f}",
                height=f"{float(bottom) - float(top):.1f}",
                class_="bar",
            )
        )

    def svg(self):
        """Returns the SVG element."""
        axes = []
        for value in ticks(*self.y):
            _, y = self.at(self.x[0], value)
            axes += [
                tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="rule"),
                tag(
                    "text",
                    number(value),
                    x=LEFT - 6,
                    y=y,
                    text_anchor="end",
                    dominant_baseline="middle",
                ),
            ]
        for value in ticks(*self.x):
            x, _ = self.at(value, self.y[0])
            axes.append(
                tag("text", number(value), x=x, y=HEIGHT - BOTTOM + 14, text_anchor="middle")
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        axes.append(tag("text", self.titles[0], x=middle, y=HEIGHT - 4, text_anchor="middle"))
        place = f"translate(9 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"
        axes.append(tag("text", self.titles[1], transform=place, text_anchor="middle"))
        return tag(
            "svg",
            axes,
            self.shapes,
            viewBox=Markup(f"0 0 {WIDTH} {HEIGHT}"),
            role="img",
            aria_label=self.label,
        )


def interval_bar(value, ends, low):
    """Returns a small SVG of a fraction and its interval on an axis from `low` to 1."""

    def at(fraction):
        return f"{4 + 152 * (fraction - low) / max(1 - low, 1e-9):.1f}"

    return tag(
        "svg",
        tag("line", x1=4, x2=156, y1=9, y2=9, class_="rule"),
        tag("line", x1=at(ends[0]), x2=at(ends[1]), y1=9, y2=9, class_="line"),
        tag("circle", cx=at(value), cy=9, r=4, class_="dot"),
        viewBox="0 0 160 18",
        role="img",
        aria_label=f"{value:.3f}, from {ends[0]:.3f} to {ends[1]:.3f}",
    )


def axis_range(ends):
    """Returns `(low, high)` of an axis as floats, with `low < high`; for one value, from 0."""
    low, high = map(float, ends)
    if low < high:
        return low, high
    return (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)


def ticks(low, high, most=5):
    """Returns about `most` round numbers in `[low, high]`."""
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def number(value):
    """Formats a number of an axis."""
    if abs(value) >= 10000:
        return f"{value / 1000:,.6g}k"
    if abs(value) >= 0.001 or not value:
        return f"{value:.4g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
