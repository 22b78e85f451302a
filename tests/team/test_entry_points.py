"""What the package adds to the program is there under every name that pyproject.toml declares."""

from importlib import metadata


def test_every_entry_point_names_something() -> None:
    points = [point for point in metadata.distribution("memory-mcp-tree").entry_points if point.group.startswith("memory_mcp.")]
    assert len(points) > 10
    assert [point.name for point in points if point.load() is None] == []
