"""The report in headless Chromium: what it shows, how wide it is, what it loads."""

import html
import http.server
import shutil
import subprocess
import threading

import numpy as np
import pytest
import tensorflow as tf
from small_reports import LABELS, TEXTS, Reader, finetuned

pytestmark = pytest.mark.browser

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--no-first-run",
         "--hide-scrollbars")
DARK, LIGHT = (f"--blink-settings=preferredColorScheme={number}" for number in (0, 1))


@pytest.fixture(scope="module")
def server():
    """A web server on this machine; `paths` are those it was asked for."""
    paths = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        made.paths = paths
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def report(tmp_path_factory, server):
    """The page of a run whose texts would like to load from the server, and its results."""
    place = f"http://127.0.0.1:{server.server_port}"
    image, style = f"<img src='{place}/img'>", f"<style>@import '{place}/css';</style>"
    run, results = finetuned(tmp_path_factory.mktemp("report"), (*TEXTS, image, style))
    return run / "report.html", results


@pytest.fixture
def chromium(tmp_path):
    """A function that opens a file in a new browser and returns what this prints."""
    program = shutil.which("chromium")
    assert program, "chromium is needed: make test-browser"

    def open_file(path, *flags):
        done = subprocess.run(
            [program, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, path.as_uri()],
            capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return open_file


def _framed(report, width, tmp_path):
    """A page with the report in a frame, which a window cannot be too wide for."""
    path = tmp_path / f"framed-{width}.html"
    path.write_text(f"""<!doctype html><body style="margin: 0">
        <iframe style="border: 0; width: {width}px; height: 100vh"
            srcdoc="{html.escape(report.read_text(encoding="utf-8"))}"></iframe>
        <script>onload = () => {{
            const page = document.querySelector("iframe").contentDocument.documentElement;
            document.title = [page.scrollWidth, page.clientWidth,
                              getComputedStyle(page).backgroundColor].join("|");
        }}</script>""", encoding="utf-8")
    return path


def _title(dom):
    return dom.partition("<title>")[2].partition("</title>")[0]


def test_the_document_is_what_was_written(chromium, report):
    path, results = report
    dom = chromium(path, "--dump-dom", "--host-resolver-rules=MAP * ~NOTFOUND")
    shown, written = Reader(dom), Reader(path.read_text(encoding="utf-8"))
    assert shown.tables == written.tables and shown.quotes == written.quotes
    assert len(shown.quotes) == len(TEXTS) + 2
    assert shown.numbers == {name: f"{results[name]:.3f}" for name in ("accuracy", "f1", "loss")}
    model = shown.tables["Accuracy and what it has to beat"][1]
    assert model[1] == f"{results['accuracy']:.3f}"
    rows = [row[1:] for row in shown.tables["Confusion matrix"][1:]]
    counts = np.array([[int(cell.replace("·", "0")) for cell in row] for row in rows])
    assert counts.sum() == len(LABELS) * (len(TEXTS) + 2)
    assert np.trace(counts) / counts.sum() == pytest.approx(results["accuracy"])
    # A parser that had to mend the page would have added or moved elements.
    assert [name for name, _ in shown.elements] == [name for name, _ in written.elements]
    assert _title(dom) == "run"


def test_nothing_is_loaded(chromium, report, server, tmp_path):
    chromium(report[0], "--dump-dom")
    assert server.paths == []
    control = tmp_path / "control.html"
    control.write_text(f'<img src="http://127.0.0.1:{server.server_port}/control">')
    chromium(control, "--dump-dom")
    assert server.paths == ["/control"]
    server.paths.clear()


@pytest.mark.parametrize("width", [320, 400, 768, 1400])
def test_the_page_is_no_wider_than_its_window(chromium, report, tmp_path, width):
    dom = chromium(_framed(report[0], width, tmp_path), "--dump-dom", "--window-size=1500,900")
    scrolled, seen, _ = _title(dom).split("|")
    assert int(scrolled) == int(seen) == width


def test_it_is_dark_where_that_is_preferred(chromium, report, tmp_path):
    frame = _framed(report[0], 400, tmp_path)
    colours = [_title(chromium(frame, "--dump-dom", scheme)).split("|")[2]
               for scheme in (DARK, LIGHT)]
    assert colours == ["rgb(23, 23, 22)", "rgb(253, 253, 251)"]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", [DARK, LIGHT])
def test_every_part_is_drawn(chromium, report, tmp_path, width, scheme):
    frame, image = _framed(report[0], width, tmp_path), tmp_path / "page.png"
    chromium(frame, scheme, f"--screenshot={image}", "--window-size=1400,2400")
    pixels = tf.io.decode_png(image.read_bytes(), channels=3).numpy()[:, :width].astype(int)
    assert pixels.shape[0] == 2400
    away = np.abs(pixels - pixels[0, 0]).max(axis=2) > 40
    bands = away.reshape(12, 200, width).mean(axis=(1, 2))
    assert (bands > 0.002).all() and (bands < 0.5).all()
