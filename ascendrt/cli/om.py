"""`ascendrt om convert|info|run|bundle`: thin calls of the converter and the model functions."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendrt.cli.parsing import (
    CommandError,
    Parser,
    WrongUsage,
    cannot_write,
    printable,
    require_file,
    suggestion,
)
from ascendrt.cli.progress import waiting

if TYPE_CHECKING:
    import numpy as np

    from ascendrt.model import Model, TensorSpec


_WRONG_USAGE = 2


def configure(parser: Parser) -> None:
    """Declare the actions and their options."""
    parser.add_json()
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    # The core reads these words: they are the command line of the vendor's compiler.
    convert = actions.add_parser(
        "convert", help="make an OM file from an ONNX file", add_help=False, prefix_chars="\0"
    )
    convert.add_argument("words", nargs="*", metavar="NET.onnx -o NET.om [OPTION=VALUE ...]")
    convert.usage = "ascendrt om convert NET.onnx -o NET.om [OPTION=VALUE ...]"
    convert.set_defaults(command=convert_command)
    info = actions.add_parser("info", help="show inputs, outputs and sizes of an OM file")
    info.add_argument("om", type=Path, metavar="NET.om")
    info.add_json("print one JSON object, with every operator")
    info.add_argument("--graph", type=Path, metavar="OUT.svg", help="draw the graph")
    info.set_defaults(command=info_command)
    run = actions.add_parser("run", help="run an OM file once on arrays from .npy files")
    run.add_argument("om", type=Path, metavar="NET.om")
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE.npy",
        help="one per input, in order, or by name",
    )
    run.add_argument("--out", type=Path, required=True, metavar="DIR")
    run.add_argument("--device", type=int, default=0, metavar="N")
    run.add_json()
    run.add_argument(
        "--source",
        type=Path,
        metavar="NET.onnx",
        help="the ONNX file that a compiled model was made from: it supplies the arithmetic",
    )
    run.set_defaults(command=run_command)
    bundle = actions.add_parser("bundle", help="put several OM files into one bundle")
    bundle.add_argument("files", nargs="+", type=Path, metavar="NET.om")
    bundle.add_argument("-o", "--output", type=Path, required=True, metavar="BUNDLE.om")
    bundle.add_json()
    bundle.set_defaults(command=bundle_command)


def convert_command(options: argparse.Namespace) -> int:
    """Convert as the words say; nothing is written on failure."""
    from ascendrt import _ctl

    lines: list[tuple[bool, str]] = []
    words = [word for word in options.words if word != "--json"]
    options.json = options.json or len(words) < len(options.words)
    with waiting(f"converting {words[0]}" if words else "converting"):
        code = _ctl.compile_model(words, lambda is_error, line: lines.append((is_error, line)))
    if options.json and code == 0:
        print(json.dumps({"notes": [line for _, line in lines]}, indent=1))
        return 0
    for is_error, line in lines[: len(lines) - bool(code)]:
        shown = printable(line, keep="\n")
        print(f"ascendrt: {shown}" if is_error else shown, file=sys.stderr if is_error else None)
    if code == _WRONG_USAGE:
        raise WrongUsage(lines[-1][1])
    if code:
        raise CommandError(lines[-1][1])
    return 0


def info_command(options: argparse.Namespace) -> int:
    """Describe a file without loading it."""
    facts = describe(options.om)
    if options.graph is not None:
        if "models" in facts:
            raise CommandError("--graph draws one model; this file is a bundle of several")
        _write_picture(options.graph, _rows(facts["graphs"]))
    if options.json:
        print(json.dumps(facts, indent=1))
        return 0
    if options.graph is not None:
        print(f"wrote {options.graph}")
    print(f"{options.om}: {facts['file_bytes']} bytes")
    models = _rows(facts.get("models"))
    if not models:
        _print_model(facts)
        return 0
    print(f"bundle of {len(models)} models, variables {facts['variable_bytes']} bytes")
    for index, model in enumerate(models):
        print(f"model {index}: {model['file_bytes']} bytes at {model['offset']}")
        _print_model(model)
    return 0


def _print_model(facts: dict[str, object]) -> None:
    if facts["no_sizes"]:
        print(f"no sizes: {printable(str(facts['no_sizes']))}")
    else:
        print(f"work memory {facts['work_bytes']} bytes, weights {facts['weight_bytes']} bytes")
    plan = facts["plan"]
    if isinstance(plan, dict):
        print(
            f"memory plan: {plan['planned_bytes']} bytes; alive at once are at most "
            f"{plan['bound_bytes']}, all results together take {plan['activation_bytes']}"
        )
    if facts["source"]:
        print(f"computed as {printable(str(facts['source']))} says")
    gears = facts["gears"]
    if isinstance(gears, dict) and gears["values"]:
        values = ", ".join("x".join(map(str, value)) for value in gears["values"])
        print(f"gears ({gears['kind']}): {values}")
    for key, title in (("missing", "cannot run here:"), ("inferred", "inferred, not in the file:")):
        lines = facts[key]
        if isinstance(lines, list) and lines:
            print(title, *map(printable, lines), sep="\n  ")
    for side in ("inputs", "outputs"):
        for index, spec in enumerate(_rows(facts[side])):
            shape = ",".join(str(size) for size in spec["shape"])
            print(
                f"{side[:-1]} {index}: {printable(spec['name'])} {spec['dtype']} [{shape}] "
                f"{spec['format']} "
                f"{spec['size_bytes']} bytes"
            )


def describe(path: Path) -> dict[str, object]:
    """Return inputs, outputs, memory needs, graphs and size of an OM file.

    Of a bundle: size, `variable_bytes` and `models`, each told as a file of its own would be.
    """
    from ascendrt import _ctl
    from ascendrt.device import init

    require_file(path)
    init()
    graph = _ctl.describe_om(path)
    size = path.stat().st_size
    if "models" not in graph:
        return {"file": str(path), "file_bytes": size, **_describe_model(path), **graph}
    content = path.read_bytes()
    models = []
    for member in graph["models"]:
        start, length = member["offset"], member["bytes"]
        facts = _describe_model(content[start : start + length])
        models.append({"offset": start, "file_bytes": length, **facts, **member["model"]})
    facts = {"file": str(path), "file_bytes": size, "variable_bytes": graph["variable_bytes"]}
    return {**facts, "models": models}


def _describe_model(source: Path | bytes) -> dict[str, object]:
    """Return what the vendor's own calls tell of a model in a file or in memory."""
    from ascendrt.errors import ModelError
    from ascendrt.model import Description, required_memory

    work = weights = 0
    no_sizes = ""
    try:
        work, weights = required_memory(source)
    except ModelError as error:  # a file may be readable and hold nothing to run
        no_sizes = str(error.text)
    with Description() as description:
        if isinstance(source, bytes):
            description.of_memory(source)
        else:
            description.of_file(source)
        inputs, outputs = description.specs("Input"), description.specs("Output")
        gears = description.gears()
    return {
        "work_bytes": work,
        "weight_bytes": weights,
        "no_sizes": no_sizes,
        "inputs": [asdict(spec) for spec in inputs],
        "outputs": [asdict(spec) for spec in outputs],
        "gears": {"kind": gears.kind, "values": gears.values},
    }


def bundle_command(options: argparse.Namespace) -> int:
    """Write the bundle; nothing is written on failure."""
    from ascendrt import _ctl

    for path in options.files:
        require_file(path)
    _ctl.make_bundle(options.files, options.output)
    size = options.output.stat().st_size
    if options.json:
        facts = {"file": str(options.output), "file_bytes": size, "models": len(options.files)}
        print(json.dumps(facts, indent=1))
    else:
        print(f"wrote {options.output}: {len(options.files)} models, {size} bytes")
    return 0


def _write_picture(target: Path, graphs: list[dict[str, Any]]) -> None:
    """Draw the first graph, which is the model; bodies of control flow are in the JSON form."""
    from ascendrt.cli.om_graph import draw

    if target.suffix != ".svg":
        raise WrongUsage(f"--graph {target}: pictures are written as .svg")
    try:
        target.write_text(draw(graphs[0]), encoding="utf-8")
    except OSError as error:
        raise cannot_write(target, error, "--graph") from error


def run_command(options: argparse.Namespace) -> int:
    """Run once; one .npy file per output in --out, named by index and output name."""
    import numpy as np

    from ascendrt.device import Device
    from ascendrt.model import Model

    require_file(options.om)
    if options.source is not None:
        require_file(options.source)
        os.environ["ASCENDRT_OM_SOURCE"] = str(options.source)  # read when the model is loaded
    if options.out.exists() and not options.out.is_dir():
        raise CommandError(f"--out {options.out} is a file; give a folder")
    with Device(options.device), Model(options.om) as model:
        arrays = [_read_array(path) for path in input_files(options.input, model)]
        results = model(*arrays)
        options.out.mkdir(parents=True, exist_ok=True)
        written = []
        for index, (spec, result) in enumerate(zip(model.outputs, results, strict=True)):
            target = options.out / output_name(index, spec)
            np.save(target, result)
            shape = list(result.shape)
            written.append({"file": str(target), "dtype": str(result.dtype), "shape": shape})
            if not options.json:
                print(f"wrote {target} {result.dtype} {shape}")
    if options.json:
        print(json.dumps({"outputs": written}, indent=1))
    return 0


def input_files(words: list[str], model: Model) -> list[Path]:
    """Match --input words with the inputs of the model, in its order.

    Raises: WrongUsage that lists the model's inputs.
    """
    names = [spec.name for spec in model.inputs]
    wanted = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape)}" for spec in model.inputs)
    named = {name: word[len(name) + 1 :] for word in words for name in names
             if word.startswith(f"{name}=")}  # fmt: skip
    if len(words) != len(names):
        raise WrongUsage(
            f"the model has {len(names)} input(s): {wanted}; give --input once for each"
        )
    own = [word for word in words if not any(word.startswith(f"{name}=") for name in names)]
    for word in own:
        name, is_named, _ = word.partition("=")
        if is_named and not Path(word).exists():
            meant = suggestion(name, names)
            raise WrongUsage(f"the model has no input {name!r}{meant}; the inputs are {wanted}")
    if len(named) != len(names) and named:
        raise WrongUsage(f"name every input once, or none; the inputs are {wanted}")
    return [Path(named[name]) for name in names] if named else [Path(word) for word in words]


def output_name(index: int, spec: TensorSpec) -> str:
    """Return a file name for an output: its index and its name without awkward characters."""
    return f"{index}_{re.sub(r'[^A-Za-z0-9._-]+', '_', spec.name) or 'output'}.npy"


def _read_array(path: Path) -> np.ndarray[Any, Any]:
    import numpy as np

    require_file(path)
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CommandError(
            f"{path} is no .npy file of plain numbers; write it with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        raise CommandError(f"{path} holds several arrays (.npz); give one .npy file per input")
    return array


def _rows(value: object) -> list[dict[str, Any]]:
    return value if isinstance(value, list) else []
