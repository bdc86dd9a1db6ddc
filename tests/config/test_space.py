"""From lists to the space a search may use."""

import pytest

from batchscout.config import SweepConfig
from batchscout.errors import ConfigError
from batchscout.search.protocol import Point, Space
from batchscout.sweep_space import Interval, Lists, make_space, restricted

CONFIG = SweepConfig()


def lists(**values):
    return Lists.of(values, frozenset(values))


def test_two_lists_make_every_pair():
    space = make_space(CONFIG, lists(batch_size=[64, 128], lr=[1e-3, 1e-4]))
    assert space.points is None
    assert space.all_points() == (Point(64, 1e-4), Point(64, 1e-3), Point(128, 1e-4), Point(128, 1e-3))


def test_points_give_each_batch_size_its_own_rates():
    config = SweepConfig.from_mapping({"points": {16: [1e-4], "32": [1e-4, 2e-4]}})
    assert make_space(config, Lists()).all_points() == (Point(16, 1e-4), Point(32, 1e-4), Point(32, 2e-4))
    assert make_space(config, lists(batch_size=[32])).batch_sizes == (32,)
    with pytest.raises(
        ConfigError, match=r"batch_size=64 has no learning rates in this sweep's points \(16, 32\)"
    ):
        make_space(config, lists(batch_size=[32, 64]))
    assert make_space(config, lists(batch_size=[64], lr=[3e-4])).all_points() == (Point(64, 3e-4),)


def test_a_rule_gives_one_rate_per_batch_size_and_reference():
    config = SweepConfig.from_mapping({"lr_rule": {"name": "linear", "reference_batch_size": 64}})
    space = make_space(config, lists(batch_size=[64, 128], lr_reference=[1e-4]))
    assert space.all_points() == (Point(64, 1e-4), Point(128, 2e-4))
    with pytest.raises(ConfigError, match="contradicts lr_rule=linear"):
        make_space(config, lists(batch_size=[64], lr=[1e-4]))


def test_rates_of_the_sweep_file_give_way_to_a_rule():
    config = SweepConfig.from_mapping({"lr_rule": {"name": "linear", "reference_batch_size": 64}})
    filed = Lists(
        batch_size=[64, 128], lr=[1e-3, 1e-2], lr_reference=[1e-4], typed=frozenset({"lr_reference"})
    )
    assert make_space(config, filed).lrs == (1e-4, 2e-4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": [64, "abc"], "lr": [1e-4]}, "batch_size=abc must be a whole number"),
        ({"batch_size": [64, 100], "lr": [1e-4]}, "batch_size=100 is not a multiple of group_size=8"),
        ({"batch_size": [64], "lr": [1e-4, -1]}, "lr=-1 must be above 0"),
        ({"batch_size": [64]}, "lr=null must be given: one rate or a list"),
        (
            {"batch_size": [64], "lr": [1e-4], "seed": [0, 2]},
            "seed=0,2 must be consecutive numbers, as in seed=0,1",
        ),
        ({"batch_size": [64], "lr": [1e-4], "seed": [-1]}, "seed=-1 must be at least 0"),
        ({"batch_size": Interval(512, 16), "lr": [1e-4]}, "must have 0 < low < high"),
        (
            {"batch_size": [64], "lr_reference": [1e-4]},
            "lr_reference=0.0001 is only read by lr_rule=sqrt or linear",
        ),
    ],
)
def test_every_listed_value_is_checked(values, message):
    with pytest.raises(ConfigError) as caught:
        make_space(CONFIG, lists(**values))
    assert message in str(caught.value)


def test_seeds_are_listed_or_counted():
    assert make_space(CONFIG, lists(lr=[1e-4], seed=[2, 1, 3])).all_seeds() == (1, 2, 3)
    counted = SweepConfig.from_mapping({"seed": 5, "seeds": 2})
    assert make_space(counted, lists(lr=[1e-4])).all_seeds() == (5, 6)
    assert make_space(counted, lists(lr=[1e-4], seed=[7])).all_seeds() == (7, 8)


def test_a_log_interval_lists_multiples_of_the_group_evenly_in_the_logarithm():
    space = make_space(CONFIG, lists(batch_size=Interval(16, 4096), lr=Interval(1e-4, 1e-3)))
    assert (space.batch_sizes[0], space.batch_sizes[-1]) == (16, 4096)
    assert all(b % 8 == 0 for b in space.batch_sizes)
    assert {128, 256, 512, 1024, 2048} <= set(space.batch_sizes)
    ratios = [b / a for a, b in zip(space.batch_sizes[8:], space.batch_sizes[9:], strict=False)]
    assert max(ratios) < 1.26
    assert space.lrs[0] == 1e-4
    assert space.lrs[-1] == 1e-3


def test_a_recordings_space_is_narrowed_by_what_was_typed_only():
    cells = frozenset((Point(b, lr), s) for b in (16, 32) for lr in (1e-4, 1e-3) for s in (0, 1, 2))
    recorded = Space(
        (16, 32), (1e-4, 1e-3), seeds=3, points=tuple(sorted({p for p, _ in cells})), available=cells
    )
    filed = Lists(batch_size=[999], lr=[5.0])  # of a sweep file
    assert restricted(recorded, filed, CONFIG, seeds_typed=False).available == cells
    typed = restricted(recorded, lists(batch_size=[32], seed=[1]), CONFIG, seeds_typed=False)
    assert typed.available == {(Point(32, 1e-4), 1), (Point(32, 1e-3), 1)}
    with pytest.raises(ConfigError, match="batch_size=64 is not in the recording; it has 16, 32"):
        restricted(recorded, lists(batch_size=[64]), CONFIG, seeds_typed=False)
