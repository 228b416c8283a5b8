import time
from collections import Counter

import pytest

from keras_attn.data.sources import docstring_files, docstrings
from keras_attn.data.sources.docstring_text import docstring_sentences, is_english
from keras_attn.errors import UserError


def test_prose_is_kept_and_what_is_no_prose_is_dropped():
    docstring = """Computes the mean of a tensor.

    See :func:`~a.b.mean` and `the guide <https://x.org>`_, or [the paper](http://y.org/z).
    It is ``fast``, *really*
    **fast**.

    Example usage:

    >>> mean([1, 2])
    the output of this call is not prose

    ```python
    # The comment of a block is not prose either.
    x = mean(y)
    ```

    The code that follows is dropped::

        this is the code of a block, and it is dropped

    This comes after the code.

    .. code-block:: python

        here is the code of another block

    Parameters
    ----------
    x : array_like, optional
        The values of which it is the mean.
    axis : int

    Args:
      x: A `Tensor`. The values to be
        averaged over.
      axis (int): The axis, or None.

    - The first of two points.
    - The second of them.

    =====  =====
    a      the b
    =====  =====
    | this is | the table |

    Returns:
      f(x) = sum(x) / len(x)
    """
    assert docstring_sentences(docstring) == [
        "Computes the mean of a tensor.",
        "See a.b.mean and the guide, or the paper.",
        "It is fast, really fast.",
        "The code that follows is dropped:",
        "This comes after the code.",
        "The values of which it is the mean.",
        "The values to be averaged over.",
        "The axis, or None.",
        "The first of two points.",
        "The second of them.",
    ]


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Returns the sum.", True),
        ("Returns it", False),
        ("x = a + b is the sum", False),
        ("Gibt die Summe aller Werte", False),
        ("", False),
    ],
)
def test_english_is_distinguished_from_code_and_other_languages(text, english):
    assert is_english(text) is english


@pytest.fixture
def installation(tmp_path, monkeypatch):
    """A standard library and packages of our own; returns the folder of the packages."""
    library = tmp_path / "lib"
    packages = library / "site-packages"
    packages.mkdir(parents=True)
    paths = {"stdlib": str(library), "platlib": str(packages), "purelib": str(packages)}
    monkeypatch.setattr(docstring_files.sysconfig, "get_paths", lambda: paths)
    _forget()
    yield packages
    _forget()


def _forget():
    docstrings.read_modules.cache_clear()
    docstrings._validation_names.cache_clear()


def _write(folder, name, *texts, code=""):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    functions = [f"def f{n}():\n    '''{text}'''\n" for n, text in enumerate(texts)]
    path.write_text("\n".join(functions) + code, encoding="utf-8")


def _text(number):
    # Differs from the text of another number in its first words.
    names = "abcdefghij"
    words = " ".join(names[int(digit)] * 3 for digit in str(number))
    return f"Computes the {words} of it and returns what the caller has to know about it."


def test_modules_are_read_in_order_and_never_run(installation):
    _write(installation, "numpy/b.py", _text(1), code="raise SystemExit\nimport no_such_module\n")
    _write(installation, "numpy/a.py", _text(2), "too short", _text(3))
    _write(installation, "numpy/broken.py", _text(4), code="def (")
    _write(installation, "keras_attn/own.py", _text(5))
    _write(installation, "numpy/tests/test_a.py", _text(6))
    _write(installation.parent, "json/decoder.py", _text(7))
    _write(installation, "single.py", code="'''It is the text of a module.'''")
    _write(
        installation,
        "numpy/c.py",
        code=f'class A:\n    """{_text(8)}"""\n    if 1:\n        async def f():\n'
        f'            """{_text(9)}"""\n',
    )
    found = [
        (module.name, module.package, module.docstrings) for module in docstrings.read_modules()
    ]
    assert found == [
        ("json/decoder.py", "the standard library", [[_text(7)]]),
        ("numpy/a.py", "numpy", [[_text(2)], [_text(3)]]),
        ("numpy/b.py", "numpy", [[_text(1)]]),
        ("numpy/c.py", "numpy", [[_text(8)], [_text(9)]]),
        ("single.py", "single", [["It is the text of a module."]]),
    ]


def test_versions_of_a_docstring_and_boilerplate_are_dropped(installation):
    same = " ".join(f"is {letter} the" for letter in "abcdefgh")
    _write(installation, "a/a.py", f"Here {same} end of 2019.", f"Here, {same} End of all.")
    _write(installation, "a/b.py", *(f"{_text(n)} Defaults to the first one." for n in range(9)))
    documents = docstrings.docstring_documents("train") + docstrings.docstring_documents(
        "validation"
    )
    sentences = Counter(sentence for document in documents for sentence in document)
    assert sum("end of" in sentence.lower() for sentence in sentences) == 1
    assert sentences["Defaults to the first one."] == 3
    assert sum(_text(n) in sentences for n in range(9)) == 9


@pytest.mark.parametrize(
    "run", [".", ":", ":a", "[", "[a](", "`", "`a ", ":a:`b <", ":a:`b" + 9 * " ", "'", "a'", "a'("]
)
def test_a_long_run_of_markup_takes_linear_time(run):
    started = time.process_time()
    docstring_sentences("The rest of the text " + run * (200_000 // len(run)) + "# is.")
    assert time.process_time() - started < 2  # quadratic time would be minutes


def test_the_fingerprint_changes_with_any_file(installation):
    _write(installation, "numpy/a.py", _text(1))
    before = docstrings.fingerprint()
    assert docstrings.fingerprint() == before
    _write(installation, "numpy/a.py", _text(1), _text(2))
    assert docstrings.fingerprint() != before


def test_a_link_to_nowhere_is_passed_over(installation):
    _write(installation, "numpy/a.py", _text(1))
    (installation / "numpy" / ".#x.py").symlink_to("nowhere")
    assert docstrings.fingerprint()
    assert len(docstrings.read_modules()) == 1


def _fill(installation):
    for package, start in (("keras", 0), ("numpy", 1000), ("other", 2000)):
        for module in range(40):
            texts = [
                f"{_text(start + 5 * module + n)[:-1]}, or by tf.nn.relu, np.mean, NumPy's or "
                "the TensorFlow and Keras guides, or the TPU hub." for n in range(5)
            ]  # fmt: skip
            _write(installation, f"{package}/m{module}.py", *texts)


def test_splits_share_no_module_and_every_package_is_in_both(installation):
    _fill(installation)
    train = docstrings.docstring_documents("train")
    validation = docstrings.docstring_documents("validation")
    assert len(train) + len(validation) == 120
    texts = [{document[0] for document in documents} for documents in (train, validation)]
    assert not texts[0] & texts[1]
    # 5 % of a package, or a quarter of a small one that is a class.
    assert len(validation) == 40 // 20 + 2 * 40 // 4
    with pytest.raises(UserError, match="split=test"):
        docstrings.docstring_documents("test")


def test_labelled_docstrings_are_balanced_and_name_no_package(installation):
    _fill(installation)
    _write(installation, "keras/more.py", *(_text(5000 + n) for n in range(8)))
    held_out = set()
    for split, size in (("train", 150), ("validation", 50)):
        texts, labels = docstrings.labelled_docstrings(split)
        counts = Counter(labels)
        assert set(counts) == {"keras", "numpy"} and counts["keras"] == counts["numpy"] >= size - 8
        assert Counter(labels[:20]) == {"keras": 10, "numpy": 10}
        assert len(texts) == len(labels) == len(set(texts))
        words = set(" ".join(texts).lower().replace(".", " ").replace("'", " ").split())
        assert not words & {"keras", "numpy", "tensorflow", "tf", "np", "hub"}
        assert "relu," in words and "tpu" in words
        assert not held_out & set(texts)
        held_out |= set(texts)
    assert docstrings.labelled_docstrings("validation") == (texts, labels)


def test_processes_read_the_same_as_one(installation):
    for number in range(7):
        _write(installation, f"a/m{number}.py", _text(number))
    paths = [path for _, path in docstring_files.find_modules()]
    alone = docstring_files.read_docstrings(paths, 1)
    assert docstring_files.read_docstrings(paths, 3) == alone
    assert len(alone) == 7 and all(alone)


@pytest.mark.thorough
def test_this_installation_has_enough_english():
    found = docstring_files.find_modules()
    texts = docstring_files.read_docstrings([path for _, path in found[::40]], 1)
    assert 40 * sum(map(len, texts)) > 10_000
