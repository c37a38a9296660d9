"""One service of fake hardware for each suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster, running

#: What the interpreters of the suites run, not this one.
collect_ignore = ["programs"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("service")
    with running(Cluster(folder, f"sqlite:///{folder}/ironic.sqlite", "fake://")) as cluster:
        cluster.migrate()
        cluster.start_all_in_one()
        yield cluster


@pytest.fixture
def tell(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line that is seen without -s."""

    def line(text: str) -> None:
        with capfd.disabled():
            print(f"\n{text}", flush=True)

    return line
