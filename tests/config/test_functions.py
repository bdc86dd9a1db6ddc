"""Dotted functions are checked without importing what they name."""

import sys

import pytest

from batchscout.errors import ConfigError
from batchscout.functions import check_exists, load


def test_what_exists_passes_and_torch_stays_out(monkeypatch):
    before = "torch" in sys.modules
    check_exists("trainer.function", "batchscout.train.policy_gradient.trainer:train")
    assert ("torch" in sys.modules) == before
    assert load("search.function", "batchscout.search.grid:GridSearch").__name__ == "GridSearch"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("batchscout.train.foo:train", "there is no module batchscout.train.foo"),
        ("no_such_package.x:train", "there is no module no_such_package.x"),
        ("batchscout.train.synthetic:trian", "has no trian; did you mean batchscout.train.synthetic:train?"),
    ],
)
def test_what_does_not_exist_is_named_with_the_nearest(path, message):
    with pytest.raises(ConfigError) as caught:
        check_exists("trainer.function", path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"trainer.function={path} cannot be found")


def test_a_module_beside_the_script_is_found(tmp_path, monkeypatch):
    (tmp_path / "mine_e.py").write_text("from os.path import join as glue\nif True:\n    def train(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    check_exists("trainer.function", "mine_e:train")
    check_exists("trainer.function", "mine_e:glue")
    with pytest.raises(ConfigError, match="has no tune"):
        check_exists("trainer.function", "mine_e:tune")
