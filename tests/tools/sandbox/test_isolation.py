"""The level of isolation is what a probe met, not what a version number promises."""

import asyncio

from cuda_llm.tools.sandbox.isolation import IsolationLevel, find_isolation_level


def test_this_machine_confines_files_network_and_processes() -> None:
    level = asyncio.run(find_isolation_level())

    assert level.files == (level.landlock_abi > 0)
    assert level.network
    assert level.tracing
    assert level.leftovers


def test_what_is_missing_is_said_in_words() -> None:
    level = IsolationLevel(
        landlock_abi=0,
        files=False,
        network=True,
        tracing=True,
        signals=True,
        own_pids=False,
        leftovers=True,
    )

    assert not level.full
    assert len(level.missing) == 2
    assert "Landlock" in level.missing[0]
