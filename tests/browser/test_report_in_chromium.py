"""The report in headless Chromium: what it shows, how wide it is, what it loads."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import squad_files
from tests.support.browser_pages import framed, title_of
from tests.support.small_reports import LABELS, TEXTS, Reader, finetuned

pytestmark = pytest.mark.browser

MEASURE = """[page.scrollWidth, page.clientWidth, getComputedStyle(page).backgroundColor]
             .join("|")"""
DARK, LIGHT = (f"--blink-settings=preferredColorScheme={number}" for number in (0, 1))


@pytest.fixture(scope="module")
def report(tmp_path_factory, server):
    """The page of a run whose texts would like to load from the server, and its results."""
    place = f"http://127.0.0.1:{server.server_port}"
    image, style = f"<img src='{place}/img'>", f"<style>@import '{place}/css';</style>"
    run, results = finetuned(tmp_path_factory.mktemp("report"), (*TEXTS, image, style))
    return run / "report.html", results


def of_kind(kind, folder):
    """The page of a small run."""
    if kind == "reading":
        fields = {
            "data.task": "reading_comprehension",
            "data.text": None,
            "data.label": None,
            "data.max_question": 8,
            "data.length": 32,
            "data.train": squad_files.write(folder / "a.json", *squad_files.made_up(9)),
            "data.validation": squad_files.write(
                folder / "b.json", *squad_files.made_up(6, seed=1, impossible=True)
            ),
        }
    else:
        fields = {
            "multilabel": {"data.task": "multilabel", "data.label_separator": "&"},
            "regression": {"data.task": "regression", "data.label": "score"},
            "several_runs": {"train.seeds": 2, "search.learning_rates": "0.01,0.001"},
        }[kind]
    return finetuned(folder, **fields)[0] / "report.html"


@pytest.mark.parametrize("kind", ["multilabel", "regression", "reading", "several_runs"])
def test_the_page_of_each_kind_of_run_is_whole_and_fits(chromium, tmp_path, server, kind):
    path = of_kind(kind, tmp_path)
    dom = chromium(path, "--dump-dom")
    shown, written = Reader(dom), Reader(path.read_text(encoding="utf-8"))
    assert shown.tables == written.tables and shown.quotes == written.quotes and shown.tables
    assert [name for name, _ in shown.elements] == [name for name, _ in written.elements]
    assert server.paths == []
    for width in (320, 1400):
        frame = framed(path, width, tmp_path, MEASURE)
        found = title_of(chromium(frame, "--dump-dom", "--window-size=1500,900"))
        assert found.split("|")[:2] == [str(width)] * 2


def test_the_document_is_what_was_written(chromium, report):
    path, results = report
    dom = chromium(path, "--dump-dom", "--host-resolver-rules=MAP * ~NOTFOUND")
    shown, written = Reader(dom), Reader(path.read_text(encoding="utf-8"))
    assert shown.tables == written.tables and shown.quotes == written.quotes
    assert len(shown.quotes) == len(TEXTS) + 2
    assert shown.numbers == {name: f"{results[name]:.3f}" for name in ("accuracy", "f1", "loss")}
    model = shown.tables["Accuracy and baselines"][1]
    assert model[1] == f"{results['accuracy']:.3f}"
    rows = [row[1:] for row in shown.tables["Confusion matrix"][1:]]
    counts = np.array([[int(cell.replace("·", "0")) for cell in row] for row in rows])
    assert counts.sum() == len(LABELS) * (len(TEXTS) + 2)
    assert np.trace(counts) / counts.sum() == pytest.approx(results["accuracy"])
    # A parser that had to mend the page would have added or moved elements.
    assert [name for name, _ in shown.elements] == [name for name, _ in written.elements]
    assert title_of(dom) == "run"


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
    frame = framed(report[0], width, tmp_path, MEASURE)
    dom = chromium(frame, "--dump-dom", "--window-size=1500,900")
    scrolled, seen, _ = title_of(dom).split("|")
    assert int(scrolled) == int(seen) == width


def test_it_is_dark_where_that_is_preferred(chromium, report, tmp_path):
    frame = framed(report[0], 400, tmp_path, MEASURE)
    colours = [
        title_of(chromium(frame, "--dump-dom", scheme)).split("|")[2] for scheme in (DARK, LIGHT)
    ]
    assert colours == ["rgb(23, 23, 22)", "rgb(253, 253, 251)"]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", [DARK, LIGHT])
def test_every_part_is_drawn(chromium, report, tmp_path, width, scheme):
    frame, image = framed(report[0], width, tmp_path, MEASURE), tmp_path / "page.png"
    chromium(frame, scheme, f"--screenshot={image}", "--window-size=1400,2400")
    pixels = tf.io.decode_png(image.read_bytes(), channels=3).numpy()[:, :width].astype(int)
    assert pixels.shape[0] == 2400
    away = np.abs(pixels - pixels[0, 0]).max(axis=2) > 40
    bands = away.reshape(12, 200, width).mean(axis=(1, 2))
    assert (bands > 0.002).all() and (bands < 0.5).all()
