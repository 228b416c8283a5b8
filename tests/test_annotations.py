"""Everything in an `__all__` of the package has type annotations."""

import ast
import importlib
import inspect
import pathlib
import types

import pytest

import keras_attn

ROOT = pathlib.Path(keras_attn.__file__).parent


def packages():
    """Returns the names of the modules of the package that define `__all__`."""
    for path in sorted(ROOT.rglob("*.py")):
        targets = [
            target
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.Assign)
            for target in node.targets
        ]
        if any(getattr(target, "id", None) == "__all__" for target in targets):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__")


def functions_of(value):
    """The public functions of a public name: itself, or the methods of a class and those that it
    inherits from classes of this package."""
    if isinstance(value, types.ModuleType):
        value = type(value).__call__ if callable(value) else None
    if inspect.isclass(value):
        for owner in value.__mro__:
            if owner.__module__.startswith("keras_attn"):
                for name, member in vars(owner).items():
                    if not name.startswith("_") or name in ("__init__", "__call__"):
                        yield from _plain(member)
    else:
        yield from _plain(value)


def _plain(member):
    """The function inside a method, a property or a decorator, if it is one of this package."""
    if isinstance(member, property):
        member = member.fget
    member = inspect.unwrap(getattr(member, "__func__", member))
    if inspect.isfunction(member) and member.__module__.startswith("keras_attn"):
        yield member


def lacks(function):
    """Names of the parameters without an annotation, and `return`."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if "." in function.__qualname__ and parameters:
        parameters = parameters[1:]  # self or cls
    names = [one.name for one in parameters if one.annotation is one.empty]
    return names + ["return"] * (signature.return_annotation is signature.empty)


def problems(values):
    found = {}
    for value in values:
        for function in functions_of(value):
            if missing := lacks(function):
                name = f"{function.__module__}.{function.__qualname__}"
                found[name] = f"{name}: {', '.join(missing)}"
    return sorted(found.values())


def test_every_public_function_has_type_annotations():
    modules = [importlib.import_module(name) for name in packages()]
    assert {keras_attn, keras_attn.layers, keras_attn.models, keras_attn.ops} <= set(modules)
    found = problems(getattr(module, name) for module in modules for name in module.__all__)
    assert not found, "Without type annotation:\n" + "\n".join(found)


def test_convert_has_type_annotations_behind_its_call():
    assert not problems([keras_attn.convert.convert])


@pytest.mark.parametrize(
    "value, expected",
    [
        (lambda a, *, b: None, ["a", "b", "return"]),
        (type("Class", (), {"__init__": lambda self, x: None}), ["x", "return"]),
        (type("Class", (), {"value": property(lambda self: 1)}), ["return"]),
        (type("Class", (), {"make": classmethod(lambda cls, x: 1)}), ["x", "return"]),
        (type("Class", (), {"_private": lambda self, x: None}), []),
    ],
)
def test_a_missing_annotation_is_found(value, expected, monkeypatch):
    for function in [value, *vars(value).values()]:
        function = getattr(function, "fget", None) or getattr(function, "__func__", function)
        if inspect.isfunction(function):
            function.__module__ = "keras_attn.test"
            function.__qualname__ = "Class.method" if inspect.isclass(value) else "function"
    if inspect.isclass(value):
        value.__module__ = "keras_attn.test"
    assert [name for function in functions_of(value) for name in lacks(function)] == expected


def test_the_package_is_marked_as_typed():
    assert (ROOT / "py.typed").is_file()
