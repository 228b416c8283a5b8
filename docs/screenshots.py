"""Screenshots of the documentation, made by headless Chromium.

    python docs/screenshots.py --report=runs/reviews/report.html

Writes docs/images/report.png: the upper part of the report of a finetuned model.
"""

import argparse
import pathlib
import subprocess
import tempfile

IMAGES = pathlib.Path(__file__).parent / "images"


def screenshot(page: str, image: pathlib.Path, width: int = 1100, height: int = 900) -> None:
    """Opens a page in Chromium and saves what its window shows.

    Args:
        page: Path of an HTML file.
        image: Path of the PNG file.
        width, height: Size of the window in pixels.
    """
    image.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                f"--window-size={width},{height}",
                f"--screenshot={image}",
                pathlib.Path(page).resolve().as_uri(),
            ],
            check=True,
            timeout=60,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", required=True, help="report.html of a workdir")
    screenshot(parser.parse_args().report, IMAGES / "report.png")
