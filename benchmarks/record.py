"""One result, one JSON file: figures with the versions, seed, settings and times behind them."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import regvar

RECORDS = Path(__file__).resolve().parent.parent / "records"


def write(name: str, settings: dict[str, Any], results: Any, seconds: float) -> Path:
    """Write `records/<name>.json`."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    record = {
        "name": name,
        "settings": settings,
        "config_hash": digest,
        "commit": commit,
        "versions": {
            "regvar": regvar.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
        "seconds": round(seconds, 1),
        "results": results,
    }
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"wrote {path}")
    return path
