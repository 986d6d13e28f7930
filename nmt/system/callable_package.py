"""Packages that can be called: `nmt.train(...)` and `nmt.evaluate(...)` are the names of packages, too."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def make_callable(package: str, module: str, function: str) -> None:
    """Let calls of a package call a function of one of its modules, which is imported by the first call. Importing a
    package binds its name in the package above, so that no function can have that name."""

    class CallablePackage(ModuleType):
        def __call__(self, *values: Any, **keywords: Any) -> Any:
            return self.__wrapped__(*values, **keywords)

        @property
        def __wrapped__(self) -> Any:
            """Return the function, for `inspect.signature` and others that unwrap callables."""
            return getattr(import_module(module), function)

        @property
        def __doc__(self) -> str:  # type: ignore[override]
            """Return the function's arguments and docstring, for `help`, which describes a package by it."""
            import inspect

            there = inspect.signature(self.__wrapped__).parameters.values()
            call = inspect.Signature([one.replace(annotation=one.empty) for one in there])
            return f"{package}{call}\n\n{inspect.getdoc(self.__wrapped__)}"

    sys.modules[package].__class__ = CallablePackage  # as the data model of Python describes it
