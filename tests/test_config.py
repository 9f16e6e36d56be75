"""Configuration: TOML there and back, --set into every corner, settings drawn at random."""

from __future__ import annotations

import math
import statistics
import string
from contextlib import suppress

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from recollect.config import (
    AttackConfig,
    Config,
    DataConfig,
    MatchConfig,
    SearchConfig,
    SourceConfig,
    TrialSettings,
    parse_config,
    read_config,
    to_toml,
    updated,
    with_drawn_trials,
)
from recollect.config.attack import SUITED
from recollect.core import RecollectError
from recollect.overrides import apply_override
from recollect.zoo import ConvArchitecture, MLPArchitecture

POSITIVE = st.floats(1e-6, 1e6)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=12)
FOLDERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r./\\"), min_size=1, max_size=12)
TRIALS = st.builds(
    TrialSettings, lr_x=POSITIVE, lr_duals=POSITIVE, init_scale=POSITIVE, dual_min=POSITIVE, smoothing=POSITIVE
)
ATTACKS = st.builds(
    AttackConfig,
    method=st.sampled_from(["kkt", "activation", "weights"]),
    candidates=st.integers(1, 10**6),
    momentum=st.floats(0, 0.999),
    layer_weights=st.none() | st.tuples(POSITIVE, POSITIVE),
    trials=st.lists(TRIALS, min_size=1, max_size=3).map(tuple),
    search=st.none() | st.builds(SearchConfig, trials=st.integers(1, 9), lr_x=st.just((0.25, 4.0))),
)
SCALES = st.just("standard") | POSITIVE
HIDDEN = st.lists(st.integers(1, 99), min_size=1, max_size=3).map(tuple)
OUTPUTS = st.none() | st.integers(1, 10)
MODELS = st.builds(MLPArchitecture, hidden=HIDDEN, outputs=OUTPUTS, first_layer_scale=SCALES) | st.builds(
    ConvArchitecture, kernel=st.integers(1, 32), hidden=HIDDEN, outputs=OUTPUTS, first_layer_scale=SCALES
)
CONFIGS = st.builds(
    Config,
    name=TEXT.filter(bool),
    title=TEXT,
    seed=st.integers(0, 2**32 - 1),
    data=st.none() | st.builds(DataConfig, name=TEXT, n=st.none() | st.integers(2, 100)),
    source=st.none() | st.builds(SourceConfig, folder=st.none() | TEXT, sample_shape=st.none() | st.just((1, 28, 28))),
    model=MODELS,
    attack=ATTACKS,
    baselines=st.dictionaries(FOLDERS, ATTACKS, max_size=2),
    match=st.builds(MatchConfig, quantile=st.floats(0.01, 0.99), scaling=st.sampled_from(["stretch", "clamp"])),
)


@given(CONFIGS)
def test_every_configuration_survives_a_round_trip_through_toml(config: Config) -> None:
    assert parse_config(to_toml(config), "test") == config


def test_set_reaches_nested_keys_lists_and_sections_that_were_left_out() -> None:
    config = parse_config(
        "[attack]\nsteps = 10\n",
        "test",
        [
            "attack.trials.0.lr_x=0.125",
            "model.hidden=[3, 4]",
            "model.hidden.1=9",
            "data.name=own.npz",
            "baselines.other.method=activation",
            "attack.search.trials=3",
            "title = a plain sentence = fine",
        ],
    )
    assert config.attack.steps == 10
    assert config.attack.trials[0].lr_x == 0.125
    assert config.model.hidden == (3, 9)
    assert config.data is not None
    assert config.data.name == "own.npz"
    assert config.baselines["other"].method == "activation"
    assert config.attack.search is not None
    assert config.attack.search.trials == 3
    assert config.title == "a plain sentence = fine"


@pytest.mark.parametrize("swapped", [False, True])
def test_another_kind_of_network_brings_its_own_values_along(swapped: bool) -> None:
    overrides = ["model.kind=conv", "model.kernel=5"]
    config = parse_config("[model]\nhidden = [7, 7]\n", "test", overrides[::-1] if swapped else overrides)
    assert config.model == ConvArchitecture(kernel=5)
    assert parse_config(to_toml(config), "test") == config
    assert parse_config(to_toml(config), "test", ["model.kind=conv"]) == config
    assert parse_config(to_toml(config), "test", ["model.kind=mlp"]).model == MLPArchitecture()
    assert parse_config("[model]\nhidden = [7, 7]\n", "test").model == MLPArchitecture(hidden=(7, 7))


def test_the_last_set_wins() -> None:
    assert parse_config("seed = 1", "test", ["seed=2", "seed=3"]).seed == 3


SCALARS = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
KEYS = st.lists(st.text(string.ascii_letters + "_", min_size=1, max_size=5), min_size=1, max_size=4)


@given(KEYS, VALUES)
def test_set_puts_any_toml_value_at_any_path(keys: list[str], value: object) -> None:
    raw: dict[str, object] = {"untouched": 1}
    written = tomli_w.dumps({"value": value}).partition("=")[2]
    apply_override(raw, f"{'.'.join(['root', *keys])}={written}")
    found: object = raw["root"]
    for key in keys:
        assert isinstance(found, dict)
        assert list(found) == [key]
        found = found[key]
    assert found == value
    assert raw["untouched"] == 1


@given(st.text(max_size=40))
def test_no_text_after_set_does_worse_than_an_error_in_words(text: str) -> None:
    with suppress(RecollectError):
        assert isinstance(parse_config("", "test", [text]), Config)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_value_never_brings_other_keys_along(text: str) -> None:
    raw: dict[str, object] = {}
    apply_override(raw, f"title={text}\nseed = 5")
    assert list(raw) == ["title"]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("attack.stepz=5", "unknown key 'attack.stepz'; did you mean 'steps'?"),
        ("atack.steps=5", "unknown key 'atack'; did you mean 'attack'?"),
        ("attack.trials.0.lr=5", "unknown key 'attack.trials.0.lr'; did you mean 'lr_x'?"),
        ("baselines.mine.metod=kkt", "unknown key 'baselines.mine.metod'; did you mean 'method'?"),
        ("match.zzz=1", "unknown key 'match.zzz'; valid keys there: distance"),
        ("attack.steps=many", "attack.steps: input should be a valid integer"),
        ("attack.steps=0", "attack.steps: input should be greater than or equal to 1 (got 0)"),
        ("attack.steps=1.5", "attack.steps"),
        ("attack.method=magic", "'weights' or 'generator' (got 'magic')"),
        ("attack.momentum=1", "attack.momentum: input should be less than 1"),
        ("attack.momentum=nan", "attack.momentum"),
        ("attack.trials=[]", "attack.trials"),
        ("attack.box=[1, -1]", "attack.box: give two finite numbers, the smaller one first"),
        ("attack.box=[nan, 1]", "attack.box: give two finite numbers, the smaller one first"),
        ("attack.box_weight=inf", "attack.box_weight"),
        ("attack.layer_weights=[1, -1]", "attack.layer_weights.1: input should be greater than or equal to 0"),
        ("attack.layer_weights=[1, nan]", "attack.layer_weights.1"),
        ("match.ssim_window=4", "match.ssim_window: a window has a middle; choose an odd number such as 3"),
        ("match.radius=inf", "match.radius"),
        ("model.kind=classifier", "has batch norm, whose running statistics only training.kind = 'ordinary' keeps"),
        ("match.vote_ratio=inf", "match.vote_ratio"),
        ('baselines={"../up"={method="weights"}}', "the name '../up' is that of a folder as well"),
        ('baselines={"a/b"={method="weights"}}', "the name 'a/b' is that of a folder as well"),
        ("attack.trials.0.lr_x=-1", "attack.trials.0.lr_x: input should be greater than 0"),
        ("attack.trials.0.lr_x=inf", "attack.trials.0.lr_x"),
        ("attack.trials.1.lr_x=1", "'1' must be a position from 0 to 0"),
        ("attack.trials.first.lr_x=1", "'first' must be a position"),
        ("attack.trials.²=1", "'²' must be a position"),
        ("attack.steps.more=1", "'more' is inside a value"),
        ("attack.steps.even.more=1", "'even' is inside a value"),
        ("attack.search.trials=0", "attack.search.trials"),
        ("attack.search.lr_x=[0.1, 1.0]", "attack.search.trials: field required"),
        *[
            (
                f"attack.search={{trials = 2, {name} = {given}}}",
                f"attack.search: {name} = {given} is no range; give two positive numbers, smaller first.",
            )
            for name, given in [
                ("lr_x", "[2.0, 1.0]"),
                ("lr_x", "[]"),
                ("lr_x", "0.3"),
                ("lr_duals", "[0.3]"),
                ("lr_duals", "[0.1, 0.2, 0.3]"),
                ("init_scale", "'large'"),
                ("init_scale", "[0.1, 'large']"),
                ("dual_min", "[0.1, inf]"),
                ("smoothing", "[nan, 1.0]"),
                ("smoothing", "[0.0, 1.0]"),
            ]
        ],
        ("attack.search={trials = 2, lr_x = [true, 2]}", "lr_x = [True, 2] is no range"),
        ("attack.search=5", "attack.search: input should be"),
        ("attack=5", "attack: input should be"),
        ("model.hidden=[]", "model.hidden"),
        ("model.hidden=[16, 0]", "model.hidden.1: input should be greater than 0 (got 0)"),
        ("model.hiden=[3]", "unknown key 'model.hiden'; did you mean 'hidden'?"),
        ("model.kernel=3", "unknown key 'model.kernel'; valid keys there: kind, hidden, outputs, bias"),
        ("model.kind=cnn", "model: there is no such kind; choose 'mlp', 'conv', 'group_conv', 'deep_set' or 'class"),
        ("model.kind=5", "model: there is no such kind"),
        ("model=5", "model: input should be"),
        ("model={kind = 'conv', kernal = 5}", "unknown key 'model.kernal'; did you mean 'kernel'?"),
        ("model={kind = 'conv', kernel = 0}", "model.kernel: input should be greater than 0 (got 0)"),
        ("model={kind = 'conv', bias = 'all'}", "model.bias: input should be 'first' or 'none'"),
        ("training.loss=l3", "training.loss: input should be 'logistic', 'cross_entropy', 'l2', 'l2.5' or 'huber'"),
        ("training.dtype=float16", "training.dtype: input should be 'float32', 'float64' or 'tf32'"),
        ("data.classes=1", "data.classes: input should be greater than or equal to 2"),
        ("data.classes=3", "classes = 3 needs task = 'classes'; set it, or leave classes out"),
        ("data={name = 'circle', task = 'classes'}", "the circle has labels of +-1, not classes"),
        ("seed=-1", "seed"),
        ("seed=4294967296", "seed: input should be less than 4294967296"),
        ("checkpoint_seconds=-1", "checkpoint_seconds"),
        ("data.n=1", "data.n: input should be greater than or equal to 2"),
        ("attack.steps", "--set needs path.to.key=value, got 'attack.steps'"),
        ("=5", "--set needs path.to.key=value"),
        ("attack..steps=5", "--set needs path.to.key=value"),
        ("", "--set needs path.to.key=value, got ''"),
    ],
)
def test_a_bad_override_is_explained(override: str, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        parse_config("", "test", [override])
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "--set" in str(caught.value)


def test_a_mistake_in_the_file_names_the_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[attack]\nstep = 5\n")
    with pytest.raises(RecollectError, match=r"mine\.toml: unknown key 'attack\.step'; did you mean 'steps'\?"):
        read_config(path)
    path.write_text("[attack\n")
    with pytest.raises(RecollectError, match=r"mine\.toml' is not valid TOML"):
        read_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RecollectError, match="not UTF-8"):
        read_config(path)
    with pytest.raises(RecollectError, match="No such file"):
        read_config(tmp_path / "missing.toml")


def test_replaced_sections_are_checked_too() -> None:
    config = updated(Config(), {"data": {"name": "own.npz", "n": 4}}, "options")
    assert config == Config(data=DataConfig(name="own.npz", n=4))
    with pytest.raises(RecollectError, match=r"options: data\.n"):
        updated(Config(), {"data": {"n": 0}}, "options")


RANGES = st.tuples(POSITIVE, POSITIVE).map(lambda pair: (min(pair), max(pair)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), RANGES, RANGES, RANGES)
def test_draws_are_reproducible_and_inside_their_ranges(seed, trials, lr_x, dual_min, smoothing) -> None:
    search = SearchConfig(trials=trials, lr_x=lr_x, dual_min=dual_min, smoothing=smoothing)
    drawn = search.draw(seed)
    assert drawn == search.draw(seed)
    assert len(drawn) == trials
    for name in TrialSettings.model_fields:
        low, high = getattr(search, name)
        values = [getattr(settings, name) for settings in drawn]
        assert all(low * (1 - 1e-12) <= value <= high * (1 + 1e-12) for value in values)


def test_learning_rates_are_drawn_log_uniformly_and_the_floor_uniformly() -> None:
    drawn = SearchConfig(trials=4000, lr_x=(1e-4, 1.0), dual_min=(0.2, 0.8)).draw(0)
    assert statistics.median(settings.lr_x for settings in drawn) == pytest.approx(1e-2, rel=0.3)
    assert statistics.median(settings.dual_min for settings in drawn) == pytest.approx(0.5, rel=0.05)
    other = SearchConfig(trials=4000, lr_x=(1e-4, 1.0), dual_min=(0.2, 0.8)).draw(1)
    correlation = statistics.correlation(
        [math.log(settings.lr_x) for settings in drawn], [math.log(settings.lr_x) for settings in other]
    )
    assert abs(correlation) < 0.1


def test_ranges_suit_the_optimiser_where_none_are_given() -> None:
    def ranges(**given: object) -> SearchConfig | None:
        return AttackConfig.model_validate({"search": {"trials": 2}} | given).search

    usual, by_adam = ranges(optimiser="momentum"), ranges(optimiser="adam")
    assert usual == SearchConfig(trials=2)
    assert ranges() == by_adam
    assert by_adam is not None
    assert by_adam.lr_x == (3e-3, 3e-2)
    for own in ({"trials": 2, "lr_x": [0.1, 0.2]}, SearchConfig(trials=2, lr_x=(0.1, 0.2))):
        assert ranges(optimiser="adam", search=own) == by_adam.model_copy(update={"lr_x": (0.1, 0.2)})


def test_a_run_folder_gets_the_drawn_settings_in_full() -> None:
    config = Config(seed=3, attack=AttackConfig(optimiser="momentum", search=SearchConfig(trials=5)))
    resolved = with_drawn_trials(config)
    assert resolved.attack.search is None
    assert resolved.attack.trials == SearchConfig(trials=5).draw(3)
    assert with_drawn_trials(resolved) == resolved


def test_settings_of_a_trial_that_are_left_out_suit_the_optimiser() -> None:
    assert AttackConfig(optimiser="momentum").trials == (TrialSettings(),)
    (by_adam,) = AttackConfig(optimiser="adam").trials
    assert AttackConfig().trials == (by_adam,)
    for name, (low, high) in SUITED["adam"][1].items():
        assert low <= getattr(by_adam, name) <= high
    for own in (TrialSettings(lr_x=0.5), {"lr_x": 0.5}):
        (filled,) = AttackConfig.model_validate({"trials": [own]}).trials
        assert filled == by_adam.model_copy(update={"lr_x": 0.5})
    whole = TrialSettings(lr_x=0.5, lr_duals=0.5, init_scale=0.5, dual_min=0.5, smoothing=5.0)
    assert AttackConfig(trials=(whole,)).trials == (whole,)
