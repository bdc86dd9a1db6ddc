"""Makes the files of sweeps/, beside conf/, the config group `sweep`, wherever one starts."""

from __future__ import annotations

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin

GROUP = "sweep"


class SweepsConfigSource(FileConfigSource):
    """sweeps://DIRECTORY presents the files of DIRECTORY as the group `sweep`."""

    @staticmethod
    def scheme() -> str:
        return "sweeps"

    def load_config(self, config_path: str) -> ConfigResult:
        inner = _inner(config_path)
        if inner is None:
            raise ConfigLoadError(f"Config not found : {config_path}")
        return super().load_config(inner)

    def is_group(self, config_path: str) -> bool:
        inner = _inner(config_path)
        return config_path == "" or (inner is not None and super().is_group(inner))

    def is_config(self, config_path: str) -> bool:
        inner = _inner(config_path)
        return bool(inner) and super().is_config(inner or "")

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return [GROUP] if results_filter in (None, ObjectType.GROUP) else []
        inner = _inner(config_path)
        folder = Path(self.path) / (inner or "")
        if inner is None or not folder.is_dir():
            return []
        groups = [p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(("_", "."))]
        configs = [p.stem for p in folder.glob("*.yaml")]
        return sorted(
            {None: {*groups, *configs}, ObjectType.GROUP: groups, ObjectType.CONFIG: configs}.get(
                results_filter, ()
            )
        )


def _inner(config_path: str) -> str | None:
    """The path below DIRECTORY, None outside the group."""
    if config_path == GROUP:
        return ""
    return config_path.removeprefix(f"{GROUP}/") if config_path.startswith(f"{GROUP}/") else None


class SweepsSearchPath(SearchPathPlugin):
    """Appends sweeps://… where there is a folder sweeps/ beside the application's conf/."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        main = [element.path for element in search_path.get_path() if element.provider == "main"]
        if not main or ("://" in main[0] and not main[0].startswith("file://")):
            return
        folder = Path(main[0].removeprefix("file://")).resolve().parent / "sweeps"
        if folder.is_dir():
            search_path.append("batchscout", f"sweeps://{folder}")
