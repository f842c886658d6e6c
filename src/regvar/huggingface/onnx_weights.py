"""The weights in an ONNX file, under the names they had in the network that was exported.

An exporter keeps the names of parameters that the graph uses as they are. What it computed from
them beforehand, such as a transposed matrix, is called `onnx::MatMul_1966`; whose it is tells the
node that uses it, `/encoder/layer.0/mlp/fc1/MatMul`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regvar.errors import ModelError

_ANONYMOUS = "onnx::"


def read(path: Path) -> dict[str, Tensor]:
    """The weights by name: `scope.weight` for the matrix of a linear layer, [outputs, inputs].

    Any other anonymous tensor is called by the scope and the operation of the node that uses it,
    such as `embeddings.Concat`.
    """
    graph, to_array = _opened(path)
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for operand in node.input:
            users.setdefault(operand, []).append(node)
    found: dict[str, Tensor] = {}
    for entry in graph.initializer:
        tensor = torch.from_numpy(to_array(entry).copy())
        name = entry.name
        if name.startswith(_ANONYMOUS):
            name, tensor = _named(name, tensor, users.get(name, []))
        if name in found:
            raise ModelError(
                f"weights in {path.name} must have a name each, but two are {name!r}. "
                "Export the network again."
            )
        found[name] = tensor
    return found


def _named(name: str, tensor: Tensor, users: list[Any]) -> tuple[str, Tensor]:
    """What an anonymous tensor was before the export."""
    if len(users) != 1:
        raise ModelError(
            f"{name} of an ONNX file must be used by one node, which says what it is, but it is "
            f"used by {len(users)}. Export the network again."
        )
    node = users[0]
    scope = ".".join(node.name.strip("/").split("/")[:-1])
    if node.op_type != "MatMul":
        return f"{scope}.{node.op_type}", tensor
    if node.input[1] != name:
        raise ModelError(
            f"{name} of an ONNX file must be the right factor of {node.name}, as in x Wᵀ, but it "
            "is the left one. Export the network again."
        )
    return f"{scope}.weight", tensor.T.contiguous()


def _opened(path: Path) -> tuple[Any, Any]:
    """The graph, and what turns its weights into arrays."""
    try:
        from onnx import load, numpy_helper
    except ImportError as error:
        raise ModelError(
            f"{path.name} must be read by the package onnx, but there is no {error.name!r}. "
            "pip install 'regvar[weights]'"
        ) from error
    return load(str(path)).graph, numpy_helper.to_array
