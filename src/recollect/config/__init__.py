"""What a run is told: typed sections, read from TOML. An unknown key is an error, never ignored."""

from recollect.config.attack import UNIFORM, AttackConfig, SearchConfig, TrialSettings
from recollect.config.files import (
    COMPLETE,
    parse_config,
    read_config,
    read_run_config,
    to_toml,
    updated,
    with_drawn_trials,
    with_settings,
)
from recollect.config.run import Config
from recollect.config.sections import DataConfig, MatchConfig, SourceConfig

__all__ = [
    "COMPLETE",
    "UNIFORM",
    "AttackConfig",
    "Config",
    "DataConfig",
    "MatchConfig",
    "SearchConfig",
    "SourceConfig",
    "TrialSettings",
    "parse_config",
    "read_config",
    "read_run_config",
    "to_toml",
    "updated",
    "with_drawn_trials",
    "with_settings",
]
