from __future__ import annotations

import pytest

from batchscout.errors import ConfigError
from batchscout.train.trainer import load_trainer


def test_a_trainer_is_found_by_its_dotted_name() -> None:
    from batchscout.train.synthetic import train

    assert load_trainer("batchscout.train.synthetic:train") is train


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("batchscout.train.synthetic", "is not of the form"),
        ("batchscout.nowhere:train", "no module batchscout.nowhere"),
        ("batchscout.train.synthetic:trian", "has no trian"),
        ("batchscout.train.synthetic:FILE", "is not callable"),
    ],
)
def test_a_wrong_name_says_what_is_wrong_with_it(function: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_trainer(function)
