"""The page of attention in headless Chromium: what it shows of the token that is chosen."""

import html
import json

import numpy as np
import pytest

from keras_attn.visualize import attention_page
from tests.support.browser_pages import framed, title_of

pytestmark = pytest.mark.browser
WAIT = "--virtual-time-budget=20000"
TOKENS = ["[CLS]", "a", "<b>bold</b>", "film", "[SEP]"]

# Chooses a layer, a head and a token, and tells what the page then shows.
LOOK = """await (async () => {
    const $ = id => page.ownerDocument.getElementById(id);
    const view = page.ownerDocument.defaultView;
    const until = async name => {
        while (page.ownerDocument.body.dataset.ready !== name)
            await new Promise(done => setTimeout(done, 10));
    };
    const set = (id, value) => {
        $(id).value = value;
        $(id).dispatchEvent(new view.Event("change"));
    };
    const look = () => ({
        chosen: [...$("queries").children].findIndex(
            span => span.getAttribute("aria-selected") === "true"),
        tokens: [...$("queries").children].map(span => span.textContent),
        weights: [...$("keys").children].map(span => Number(span.title)),
        most: $("most").children[0].textContent,
        canvas: [$("matrix").width, $("matrix").height],
        width: [page.scrollWidth, page.clientWidth],
    });
    const point = number => $("queries").children[number].dispatchEvent(
        new view.PointerEvent("pointerover", { bubbles: true }));
    const press = key => $("queries").dispatchEvent(new view.KeyboardEvent("keydown", { key }));
    const found = {};
    ACTIONS
    return JSON.stringify(found);
})()"""


@pytest.fixture
def shown(chromium, tmp_path):
    """What a page shows while actions are done to it, JavaScript that fills `found`."""

    def show(page, actions, width=800):
        path = tmp_path / "page.html"
        page.save(path)
        frame = framed(path, width, tmp_path, LOOK.replace("ACTIONS", actions))
        return json.loads(html.unescape(title_of(chromium(frame, "--dump-dom", WAIT))))

    return show


def normalized(*shape):
    weights = np.random.default_rng(0).random(shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_layers_heads_and_tokens_can_be_chosen(shown):
    maps = {"first": normalized(1, 3, 5, 5), "second": normalized(1, 2, 5, 5)}
    found = shown(
        attention_page(maps, TOKENS),
        """
        await until("first");
        found.begin = look();
        point(2); found.pointed = look();
        set("head", 1); found.head = look();
        set("layer", 1); await until("second"); found.layer = look();
        $("queries").children[3].click(); point(0); found.held = look();
        press("Escape"); point(1); found.let_go = look();""",
    )
    first, second = (maps[name][0] for name in ("first", "second"))
    expected = {
        "begin": (first.mean(0), 0),
        "pointed": (first.mean(0), 2),
        "head": (first[1], 2),
        "layer": (second[1], 2),
        "held": (second[1], 3),
        "let_go": (second[1], 1),
    }
    for name, (weights, chosen) in expected.items():
        assert found[name]["chosen"] == chosen, name
        # Bytes hold a share of the largest weight of a row.
        np.testing.assert_allclose(found[name]["weights"], weights[chosen], atol=0.002)
        best = weights[chosen].argmax()
        token, weight = found[name]["most"].rsplit(" ", 1)
        assert token == TOKENS[best]
        assert float(weight) == pytest.approx(weights[chosen][best], abs=0.002)
    assert found["begin"]["tokens"] == TOKENS
    assert found["begin"]["canvas"] == [5, 5]


def test_the_arrow_keys_choose_and_stop_at_both_ends(shown):
    found = shown(
        attention_page(np.eye(5)[None], TOKENS),
        """
        await until("attention");
        for (const key of ["ArrowLeft", "ArrowRight", "ArrowDown", "ArrowUp", "End", "ArrowRight",
                           "Home"]) {
            press(key);
            found[Object.keys(found).length + key] = look();
        }
        found.reachable = [$("queries").tabIndex, $("layer").tabIndex, $("head").tabIndex];""",
    )
    assert found.pop("reachable") == [0, 0, 0]
    assert [one["chosen"] for one in found.values()] == [0, 1, 2, 1, 4, 4, 0]
    for one in found.values():
        np.testing.assert_array_equal(one["weights"], np.eye(5)[one["chosen"]])


@pytest.mark.parametrize("tokens", [1, 512])
@pytest.mark.parametrize("width", [320, 1400])
def test_one_token_and_many_fit_into_narrow_and_wide_windows(shown, tokens, width):
    names = [f"token-{number}" * (1 + 20 * (number == 7)) for number in range(tokens)]
    weights = normalized(1, 2, tokens, tokens)
    found = shown(
        attention_page(weights, names),
        """
        await until("attention");
        press("End"); found.end = look();""",
        width,
    )["end"]
    assert found["chosen"] == tokens - 1 and found["tokens"] == names
    np.testing.assert_allclose(found["weights"], weights[0].mean(0)[-1], atol=1e-4)
    assert found["width"] == [width, width] and found["canvas"] == [tokens, tokens]


def test_nothing_is_loaded(chromium, server, tmp_path):
    place = f"http://127.0.0.1:{server.server_port}/token"
    tokens = [f"<img src='{place}'>", f"<script src='{place}'></script>", "</script><p>"]
    path = tmp_path / "page.html"
    attention_page(np.eye(3)[None], tokens, title=tokens[0]).save(path)
    dom = chromium(path, "--dump-dom", WAIT)
    assert dom.count("data-number=") == 6 and server.paths == []
