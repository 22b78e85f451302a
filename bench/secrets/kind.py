"""A kind of secret: how a value is made, and the four surroundings it stands in."""

from dataclasses import dataclass

from bench.secrets.makers import Maker


@dataclass(frozen=True)
class Kind:
    """Name, maker, and a line of an environment file, a command or header, a configuration, a sentence; {v} is the value."""

    name: str
    make: Maker
    env: str
    line: str
    config: str
    prose: str
    #: The page of the vendor or program that describes it.
    source: str = ""


ALL: list[Kind] = []


def k(name: str, make: Maker, env: str, line: str, config: str, prose: str) -> None:
    ALL.append(Kind(name, make, env, line, config, prose))


BEARER = 'curl -H "Authorization: Bearer {v}" '
S = "use {v} for staging"


def token(
    name: str, make: Maker, var: str, host: str, key: str, prose: str, head: str = "Authorization: Bearer", source: str = ""
) -> Kind:
    """A token with the usual surroundings: variable, header of its API, key in a config file, prose."""
    gap = "" if head.endswith("=") else " "
    line = f"curl -s {host} -H '{head}{gap}{{v}}'" if head.startswith("Authorization") else f"curl -s {host} -H '{head}: {{v}}'"
    config = f'{{"{key}": "{{v}}", "timeout": 30}}' if len(name) % 2 else f"service:\n  {key}: {{v}}\n  retries: 3\n"
    return Kind(name, make, f"{var}={{v}}", line, config, prose, source)


def t(name: str, make: Maker, var: str, host: str, key: str, prose: str, head: str = "Authorization: Bearer") -> None:
    ALL.append(token(name, make, var, host, key, prose, head))
