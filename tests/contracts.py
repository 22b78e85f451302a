"""The two kinds of import contract that are ours: tables of which each row is one of import-linter's own contracts.

pyproject.toml names them under [tool.importlinter]; a row names modules without the name of the contract's package, which is
the first of the root packages if the contract names none.
"""

from abc import abstractmethod
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract


class Table(fields.Field[dict[str, list[str]]]):
    """Rows by name, each a list of texts."""

    def parse(self, raw_data: Any) -> dict[str, list[str]]:
        if not isinstance(raw_data, dict) or not all(isinstance(row, list) for row in raw_data.values()):
            raise fields.ValidationError("Expected a table of lists.")
        return raw_data


class _Rows(Contract):
    """A table that holds when the contract of each of its rows does."""

    rows = Table()
    package = fields.StringField(required=False)

    @property
    def root(self) -> str:
        return str(self.package or self.session_options["root_packages"][0])

    def full_name(self, name: str) -> str:
        """Return a module's name with that of its package, unless it begins with one."""
        return name if name.partition(".")[0] in self.session_options["root_packages"] else f"{self.root}.{name}"

    @abstractmethod
    def of_row(self, name: str, listed: list[str]) -> Contract:
        """The contract that a row stands for."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        table: dict[str, list[str]] = self.rows  # type: ignore[assignment]
        contracts = [self.of_row(name, listed) for name, listed in table.items()]
        broken = [(one, done) for one in contracts if not (done := one.check(graph, verbose)).kept]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for contract, done in check.metadata["broken"]:
            output.print_error(contract.name)
            output.new_line()
            contract.render_broken_contract(done)


class RoomsContract(_Rows):
    """A row for every package: its files, the highest floor first, "|" between those of one floor."""

    def of_row(self, name: str, listed: list[str]) -> Contract:
        options = {"layers": listed, "containers": [f"{self.root}.{name}"], "exhaustive": "True"}
        return LayersContract(f"Inside {name}", self.session_options, options)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        done = super().check(graph, verbose)
        packages = {module for module in graph.find_descendants(self.root) if graph.find_children(module)}
        without = sorted(packages - {f"{self.root}.{name}" for name in self.rows})  # type: ignore[attr-defined]
        return ContractCheck(kept=done.kept and not without, metadata={**done.metadata, "without": without})

    def render_broken_contract(self, check: ContractCheck) -> None:
        super().render_broken_contract(check)
        for package in check.metadata["without"]:
            output.print_error(f"{package} has no row", bold=False)


class ImportersContract(_Rows):
    """A row for each module, of ours or installed: who alone may import it."""

    def of_row(self, name: str, listed: list[str]) -> Contract:
        options = {"protected_modules": [self._named(name)], "allowed_importers": [self.full_name(one) for one in listed]}
        return ProtectedContract(f"Importers of {name}", self.session_options, options)

    def _named(self, name: str) -> str:
        """An installed library has its own name, a module of ours a dot in it."""
        return self.full_name(name) if "." in name else name
