"""What nothing uses is not kept."""

from __future__ import annotations

from tests.architecture.dead_code import idle_exceptions, only_tested, unused
from tests.architecture.source import assert_none


def test_no_name_is_without_a_user() -> None:
    assert_none(unused(with_tests=True))


def test_no_name_has_tests_as_its_only_users() -> None:
    assert_none(unused(with_tests=False))


def test_no_function_or_class_is_imported_by_tests_only() -> None:
    assert_none(only_tested())


def test_every_exception_is_still_needed() -> None:
    assert_none(idle_exceptions())
