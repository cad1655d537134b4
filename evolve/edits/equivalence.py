"""Recognising a program that was judged before under another layout, other comments or other local names."""

from __future__ import annotations

import hashlib

from evaluators.source import normal_form
from evaluators.task import Language
from evolve.edits.cpp_form import cpp_form
from evolve.edits.python_form import python_form


def equivalence_key(source: str, language: Language) -> str:
    """Equal keys: the same program, not worth judging again. Different keys say nothing.

    Comments that mean something (tunables, compiler flags) and preprocessor lines are part of the program.
    """
    text = normal_form(source.replace("\r\n", "\n"))
    form = cpp_form(text) if language in {"cpp", "cuda"} else python_form(text)
    return hashlib.sha256(f"{language}\x00{form}".encode("utf-8", "surrogatepass")).hexdigest()
