"""Makes squad_metrics.json: results of SQuAD's evaluation scripts on synthetic answers.

The scripts are not copied here; pass their paths:

    python tests/golden/make_squad_metrics.py evaluate-v1.1.py evaluate-v2.0.py

Sources: deeppavlov/stand_squad_en@1abeaf1, evaluate-v1.1.py, and qwang70/bert@27ef15a,
evaluate-v2.0.py, both copies of the scripts on SQuAD's site; the file has the SHA-256 of both.
"""

import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
WORDS = [
    "the",
    "The",
    "a",
    "an",
    "An",
    "red",
    "Red",
    "fox",
    "fox's",
    "foxes",
    "naïve",
    "Ωmega",
    "10",
    "1,000",
    "U.S.",
    "US",
    "--",
    "“quoted”",
    "jumps",
    "over",
    "then",
    "anthem",
    "日本",
    "é",
    "%",
]


def make_cases(seed, number, impossible):
    """Returns dictionaries of `right`, `answer` and `no_answer`."""
    draw = random.Random(seed)

    def text(least, most):
        space = draw.choice([" ", "  ", "\t", "\u00a0", "-"])
        return space.join(draw.choices(WORDS, k=draw.randint(least, most)))

    cases = []
    for _ in range(number):
        right = [text(1, 4) for _ in range(draw.randint(1, 3))]
        if impossible and draw.random() < 0.4:
            right = []
        answer = draw.choice([*right, *right, text(1, 5)])
        if right and draw.random() < 0.5:
            answer += " " + text(1, 2)
        if draw.random() < 0.05:
            answer = ""
        score = round(draw.gauss(0 if right else 2, 2), 2)
        cases.append({"right": right, "answer": answer, "no_answer": score})
    return cases


def run(script, cases, *flags):
    """Returns the output of a script."""
    questions = [
        {"id": str(number), "answers": [{"text": text} for text in case["right"]]}
        for number, case in enumerate(cases)
    ]
    files = {
        "data": {"version": "1.1", "data": [{"paragraphs": [{"qas": questions}]}]},
        "answers": {str(number): case["answer"] for number, case in enumerate(cases)},
        "none": {str(number): case["no_answer"] for number, case in enumerate(cases)},
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: pathlib.Path(folder) / f"{name}.json" for name in files}
        for name, content in files.items():
            paths[name].write_text(json.dumps(content))
        more = [str(paths["none"]) if flag == "NONE" else flag for flag in flags]
        command = [sys.executable, script, str(paths["data"]), str(paths["answers"]), *more]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main(first, second):
    found = {
        "scripts": {
            pathlib.Path(path).name: hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            for path in (first, second)
        }
    }
    cases = make_cases(1, 80, impossible=False)
    found["1.1"] = [{"cases": cases, "printed": run(first, cases)}]
    found["2.0"] = []
    for seed, number, threshold in ((2, 80, "0.7"), (3, 40, "-1.3"), (4, 3, "1.0")):
        cases = make_cases(seed, number, impossible=True)
        printed = run(second, cases, "--na-prob-file", "NONE", "--na-prob-thresh", threshold)
        found["2.0"].append({"cases": cases, "threshold": float(threshold), "printed": printed})
    path = FOLDER / "squad_metrics.json"
    path.write_text(json.dumps(found, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
