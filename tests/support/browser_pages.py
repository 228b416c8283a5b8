"""Pages inside frames of other pages, for browser tests."""

import html


def framed(page, width, folder, script):
    """Path of a page with another in a frame, which a window cannot be too wide for.

    Args:
        page: Path of the other page.
        width: Of the frame, in pixels.
        folder: Where it is written.
        script: JavaScript, a value, may wait: it becomes the title. `page` is the root of the
            other document.
    """
    path = folder / f"framed-{width}.html"
    path.write_text(
        f"""<!doctype html><body style="margin: 0">
        <iframe style="border: 0; width: {width}px; height: 100vh"
            srcdoc="{html.escape(page.read_text(encoding="utf-8"))}"></iframe>
        <script>onload = async () => {{
            const page = document.querySelector("iframe").contentDocument.documentElement;
            document.title = {script};
        }}</script>""",
        encoding="utf-8",
    )
    return path


def title_of(dom):
    """Returns the title in the HTML of a page."""
    return dom.partition("<title>")[2].partition("</title>")[0]
