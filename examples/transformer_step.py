"""Times the phases of a transformer's training step on resampled trajectories.

Examples:

    python examples/transformer_step.py --device cuda
    python examples/transformer_step.py --small                      # a small shape, for a CPU

A step resamples recordings of 500 rows at irregular times to 250 evenly spaced rows with
rc.resample_trajectories, runs an encoder of 4 layers on them, forward and backward, and updates its
weights. It is timed with three precisions of matrix products, and once with the usual torch code in
place of RoboCache. On a GPU, CUDA events measure the times, which include waits for the CPU; on a
CPU, its clock does.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import robocache as rc
from program import Clock, Parser, count, name_of

PARTS = ("data", "forward", "backward", "optimizer")


@dataclass(frozen=True)
class Shape:
    """The shape of the batch and of the encoder."""

    batch: int = 32
    source_rows: int = 500
    target_rows: int = 250
    channels: int = 256
    layers: int = 4
    heads: int = 8
    feedforward: int = 1024

    def __str__(self) -> str:
        return (
            f"{self.batch} x {self.source_rows} -> {self.target_rows} x {self.channels}, "
            f"{self.layers} layers, {self.heads} heads, {self.feedforward} wide"
        )


SMALL = Shape(4, 50, 25, 32, 2, 4, 64)

Resample = Callable[[Tensor, Tensor, Tensor], Tensor]


class Encoder(nn.Module):
    """Predicts the next row for each row [B,T,D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            shape.channels, shape.heads, shape.feedforward, dropout=0.0, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)
        self.head = nn.Linear(shape.channels, shape.channels)

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.head(self.layers(rows))
        return out


def make_recordings(shape: Shape, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Values [B,S,D], their times [B,S], targets [B,T]: 5 s, rows up to 0.3 of a period off."""
    random = torch.Generator().manual_seed(0)
    period = 5.0 / shape.source_rows
    off = 0.3 * period * (2 * torch.rand(shape.batch, shape.source_rows, generator=random) - 1)
    times = torch.arange(shape.source_rows) * period + off
    targets = torch.linspace(0.1, 4.8, shape.target_rows).expand(shape.batch, -1).contiguous()
    values = torch.randn(shape.batch, shape.source_rows, shape.channels, generator=random)
    return values.to(device), times.to(device), targets.to(device)


def usual_torch_code(values: Tensor, source_times: Tensor, target_times: Tensor) -> Tensor:
    """The usual code for linear interpolation: [B,S,D], [B,S], [B,T] -> [B,T,D]."""
    after = torch.searchsorted(source_times, target_times, right=True)
    after = after.clamp_(1, source_times.shape[1] - 1)
    before = after - 1
    start = source_times.gather(1, before)
    weight = (target_times - start) / (source_times.gather(1, after) - start)
    before, after = (i.unsqueeze(2).expand(-1, -1, values.shape[2]) for i in (before, after))
    mixed = torch.lerp(values.gather(1, before), values.gather(1, after), weight.unsqueeze(2))
    return mixed


@contextlib.contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """Sets float32 throughout; "tf32": matrix products in TF32; "bfloat16": autocast."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=name == "bfloat16"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def measure(
    shape: Shape, device: torch.device, name: str, steps: int, resample: Resample
) -> tuple[dict[str, float], list[float]]:
    """Median seconds of each phase of a step, and the losses of all steps."""
    torch.manual_seed(0)
    values, times, targets = make_recordings(shape, device)
    encoder = Encoder(shape).to(device)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4, fused=True)
    clock, losses = Clock(device), []
    for _ in range(steps):
        clock.mark()
        rows = resample(values, times, targets)
        clock.mark()
        with precision(name, device):
            loss = nn.functional.mse_loss(encoder(rows[:, :-1]), rows[:, 1:])
        clock.mark()
        with precision("tf32" if name == "tf32" else "float32", device):
            torch.autograd.backward(loss)
        clock.mark()
        optimizer.step()
        optimizer.zero_grad()
        clock.mark()
        losses.append(loss.detach())
    seconds = clock.read(len(PARTS) + 1)[steps // 4 :]  # after warm-up
    medians = [statistics.median(column) for column in zip(*seconds, strict=True)]
    return dict(zip(PARTS, medians, strict=True)), torch.stack(losses).tolist()


def report(shape: Shape, device: torch.device, steps: int) -> None:
    console = Console(highlight=False, width=140)
    console.print(
        f"{shape}, on {name_of(device)}; median of {steps - steps // 4} steps, ms (share)\n"
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("precision")
    for column in (*PARTS, "step"):
        table.add_column(column, justify="right")
    rows: list[tuple[str, str, Resample]] = [
        ("float32", "float32", rc.resample_trajectories),
        ("tf32", "tf32", rc.resample_trajectories),
        ("bfloat16", "bfloat16", rc.resample_trajectories),
        ("bfloat16, usual torch code", "bfloat16", usual_torch_code),
    ]
    for label, kind, resample in rows:
        if kind == "tf32" and device.type == "cpu":
            continue  # CPUs have none
        parts, _ = measure(shape, device, kind, steps, resample)
        whole = sum(parts.values())
        cells = [f"{1e3 * s:.3f} ({100 * s / whole:.1f} %)" for s in parts.values()]
        table.add_row(label, *cells, f"{1e3 * whole:.3f}")
    console.print(table)


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a small shape, to try it")
    parser.add_argument("--steps", type=count, help="per row (default: 200, on a CPU 8)")
    options = parser.parse_args()
    steps = options.steps or (200 if options.device.type == "cuda" else 8)
    report(SMALL if options.small else Shape(), options.device, steps)


if __name__ == "__main__":
    main()
