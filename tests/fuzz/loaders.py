"""Every way in which a file from elsewhere gets into the program: where it is put, and how it is opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from PIL import features
from tests.fuzz import seeds

from recollect.config import SourceConfig, parse_config, read_run_config, to_toml
from recollect.core import RecollectError
from recollect.data import load
from recollect.networks import NetworkFacts, load_network, load_source, load_weights, read_weights, save_network
from recollect.runs import RunFolder
from recollect.zoo import MLPArchitecture, build_network

CONFIG = """[data]\nname = "sample"\nn = 4\n[model]\nhidden = [5]\n[attack]\ncandidates = 4\nsteps = 5\n"""
STATUS = {"format": 1, "version": "0.1.0", "name": "demo", "stages": {"train": "done", "attack": "running"}}
TRACE = {"step": 10, "seconds": 0.5, "alive": 1, "terms": {"stationary": [1.5]}}


@dataclass(frozen=True)
class Loader:
    """``prepare`` fills a folder with what the file needs around it, once."""

    file: str
    seeds: Callable[[], list[bytes] | tuple[bytes, ...]]
    open: Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda folder: None


def _weights(path: Path) -> None:
    state = read_weights(path)
    net = seeds.network()
    load_weights(net, state, str(path))


def _program(path: Path) -> None:
    load_source(SourceConfig(weights=str(path)))


def _data(path: Path) -> None:
    load(str(path))


def _picture(path: Path) -> None:
    load(str(path.parent.parent))


def _model(path: Path) -> None:
    load_network(path.parent)


def _model_folder(folder: Path) -> None:
    architecture = MLPArchitecture(hidden=(3,))
    facts = NetworkFacts(architecture=architecture, sample_shape=(1, 2, 2), training={"loss": 0.5})
    save_network(RunFolder(folder), build_network(architecture, (1, 2, 2), seed=0), facts)


def _model_seed() -> list[bytes]:
    facts = NetworkFacts(architecture=MLPArchitecture(hidden=(3,)), sample_shape=(1, 2, 2), training={"loss": 0.5})
    return [facts.model_dump_json().encode()]


def _config_seed() -> list[bytes]:
    return [to_toml(parse_config(CONFIG, "seed")).encode()]


def _status(path: Path) -> None:
    for stage in RunFolder.open(path.parent).stages:
        RunFolder(path.parent).set_stage(stage, "done")


def _candidates(path: Path) -> None:
    RunFolder(path.parent).read_tensors(path.name, ["candidates", "labels"])


def _candidates_seed() -> list[bytes]:
    return [seeds.save({"candidates": torch.rand(1, 3, 1, 2, 2), "labels": torch.tensor([0, 1, 1])})]


def _trace(path: Path) -> None:
    RunFolder(path.parent).keep_lines(path.name, "step", 20)


def _trace_seed() -> list[bytes]:
    return ["".join(json.dumps(TRACE | {"step": step}) + "\n" for step in (10, 20, 30)).encode()]


PICTURES = [kind for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF") if kind != "WEBP" or features.check("webp")]

LOADERS: dict[str, Loader] = {
    "weights, torch.save": Loader("w.pt", seeds.torch_weights, _weights),
    "weights, torch.save before 1.6": Loader("w.pth", seeds.legacy_weights, _weights),
    "weights, safetensors": Loader("w.safetensors", seeds.safe_weights, _weights),
    "torch.export program": Loader("w.pt2", seeds.programs, _program),
    "data, npz": Loader("d.npz", seeds.archives, _data),
    "data, torch.save": Loader("d.pt", seeds.tensor_data, _data),
    "data, safetensors": Loader("d.safetensors", seeds.safe_data, _data),
    **{
        f"picture, {kind}": Loader(f"class/p.{kind.lower()}", partial(seeds.pictures, kind), _picture)
        for kind in PICTURES
    },
    "model.json": Loader("model.json", _model_seed, _model, _model_folder),
    "config.toml": Loader("config.toml", _config_seed, read_run_config),
    "status.json": Loader("status.json", lambda: [json.dumps(STATUS).encode()], _status),
    "candidates.safetensors": Loader("candidates.safetensors", _candidates_seed, _candidates),
    "trace.jsonl": Loader("trace.jsonl", _trace_seed, _trace),
}


def attempt(loader: Loader, folder: Path, content: bytes) -> str | None:
    """None when the file was taken, else the sentence it was refused with. Anything else that is raised goes on."""
    path = folder / loader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    try:
        loader.open(path)
    except RecollectError as error:
        return str(error)
    return None
