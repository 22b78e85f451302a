"""How many examples a property is tried with: a number of its own in CI, ten times as many nightly."""

from hypothesis import settings

#: Of the profile that CI loads; see conftest.
CI = 40


def examples(count: int) -> settings:
    """Settings for `count` examples in CI and as many times more as the profile in force has."""
    return settings(max_examples=count * settings().max_examples // CI)
