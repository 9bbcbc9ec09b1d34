"""Runs narrowcast and other converters over a folder of models and measures what each makes of them.

Every converter gets the same: the model, and the samples but the held-out ones (the last quarter, at
least one; a single sample serves as both), inputs and outputs to stay in fp32. Each conversion is a
process of its own. What comes out is measured for all alike, by code that is not narrowcast's:

  loads    ONNX Runtime makes a session of it at every optimisation level and runs a sample
  finite   no output is NaN or infinite where the source's is not
  error    the largest relative L2 error of a float output on a held-out sample, against the source.
           ONNX Runtime's CPU computes fp16 nodes in fp32 and leaves out roundings between them (three
           times 60000 stays finite), so the narrow types are emulated: all values are carried in fp32
           and those declared fp16 go through fp16 and back where they are made
  narrow   nodes that give fp16, of all that give fp16 or fp32; Casts, constants and what only
           reads shapes not counted
  Casts    those that the source does not have
  seconds  wall time of the conversion, imports of Python not counted; memory is the process' peak

The verdict per model is `good` if it loads, is finite and the error is at most 0.01, the claim of
narrowcast's policy fp16. What `unchanged` means: no node is narrow that is not in the source.
"""

import argparse
import contextlib
import glob
import importlib.util
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIMIT = 0.01
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16}
LEVELS = (0, 1, 2, 99)


# ---- the converters ----


def by_autocast(model, samples, out):
    from modelopt.onnx.autocast import convert_to_mixed_precision

    yield
    data = calibration_of(samples)
    result = convert_to_mixed_precision(model, keep_io_types=True, calibration_data=data)
    onnx.save(result, out)


def by_common(model, samples, out):
    from onnxconverter_common import float16

    yield
    onnx.save(float16.convert_float_to_float16(onnx.load(model), keep_io_types=True), out)


def by_common_search(model, samples, out):
    from onnxconverter_common import auto_mixed_precision

    yield
    files = sorted(glob.glob(calibration_of(samples) + "/*.npz"))
    result = auto_mixed_precision.auto_convert_mixed_precision(
        onnx.load(model), dict(np.load(files[0])), validate_fn=within_limit, keep_io_types=True
    )
    onnx.save(result, out)


def by_runtime(model, samples, out):
    from onnxruntime.transformers import float16

    yield
    onnx.save(float16.convert_float_to_float16(onnx.load(model), keep_io_types=True), out)


CONVERTERS = {
    "narrowcast": (None, None),
    "AutoCast": (by_autocast, "modelopt"),
    "common": (by_common, "onnxconverter_common"),
    "common, search": (by_common_search, "onnxconverter_common"),
    "onnxruntime": (by_runtime, "onnxruntime"),
}


def calibration_of(samples):
    return samples + ".calibration"


def within_limit(expected, actual):
    return all(relative_l2(a, e) <= LIMIT for a, e in zip(actual, expected) if is_float(e))


def convert(name, model, samples, out):
    """In a child: converts, and prints the seconds that it took after the imports."""
    job = CONVERTERS[name][0](model, samples, out)
    next(job)
    began = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        next(job, None)
    print(time.monotonic() - began)


# ---- measuring ----


def is_float(array):
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


def relative_l2(actual, expected):
    if actual.shape != expected.shape:
        return math.inf
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    norm = np.linalg.norm(e[np.isfinite(e)])
    with np.errstate(all="ignore"):
        difference = np.linalg.norm(np.where(same, 0, a - e))
    if math.isnan(difference):
        return math.inf
    return difference / norm if norm > 0 else (0.0 if difference == 0 else math.inf)


def session(model, level=0):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel(level)
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] * attribute.HasField("g") + list(attribute.graphs):
                yield from graphs(body)


def without_functions(path):
    import onnx.inliner

    model = onnx.load(path)
    return onnx.inliner.inline_local_functions(model) if model.functions else model


RUNTIME_TYPES = {"tensor(float)": TensorProto.FLOAT, "tensor(float16)": TensorProto.FLOAT16}


def types_of(model):
    """Element types, by id of graph and name: of the main graph what ONNX Runtime says, of bodies
    what ONNX infers."""
    inferred = model
    with contextlib.suppress(Exception):
        inferred = onnx.shape_inference.infer_shapes(model)
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    del asked.graph.value_info[:]
    given = {o.name for o in asked.graph.output}
    for node in asked.graph.node:
        for name in node.output:
            if name and name not in given:
                given.add(name)
                asked.graph.output.add().name = name
    types = []
    for k, (body, known) in enumerate(zip(graphs(model.graph), graphs(inferred.graph))):
        by_name = {i.name: i.data_type for i in body.initializer}
        for info in [*known.input, *known.output, *known.value_info]:
            by_name[info.name] = info.type.tensor_type.elem_type
        if k == 0:
            for output in session(asked.SerializeToString()).get_outputs():
                by_name[output.name] = RUNTIME_TYPES.get(output.type, 0)
        types.append(by_name)
    return types


def widen_tensor(tensor):
    if tensor.data_type == TensorProto.FLOAT16:
        values = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def widen_node(node):
    """Gives fp32 where it gave fp16. True if a Cast to fp16 stands in the source."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            widen_tensor(attribute.t)
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT16:
            attribute.i = TensorProto.FLOAT


def emulated(model):
    """The model with all fp16 values in fp32, rounded to fp16 where they are made."""
    types = types_of(model)
    # Bodies first: the nodes that hold them are copied.
    for body, by_name in reversed(list(zip(graphs(model.graph), types))):
        nodes = []
        for node in body.node:
            widen_node(node)
            nodes.append(node)
            for k, name in enumerate(node.output):
                if name and by_name.get(name) == TensorProto.FLOAT16:
                    node.output[k] = name + "/wide"
                    nodes.append(helper.make_node("Cast", [name + "/wide"], [name + "/half"], to=TensorProto.FLOAT16))
                    nodes.append(helper.make_node("Cast", [name + "/half"], [name], to=TensorProto.FLOAT))
        nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del body.node[:]
        body.node.extend(nodes)
        del body.value_info[:]
        for tensor in body.initializer:
            widen_tensor(tensor)
        for info in [*body.input, *body.output]:
            if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
                info.type.tensor_type.elem_type = TensorProto.FLOAT
    return model


def run_emulated(path, samples):
    run = session(emulated(without_functions(path)).SerializeToString())
    wide = {i.name for i in run.get_inputs() if i.type == "tensor(float)"}
    feeds = [{k: v.astype(np.float32) if k in wide else v for k, v in s.items()} for s in samples]
    return [run.run(None, feed) for feed in feeds]


def count(path):
    model = without_functions(path)
    narrow = floats = casts = 0
    uncounted = {"Cast", "Constant", "Shape", "Size"}
    for body, by_name in zip(graphs(model.graph), types_of(model)):
        for node in body.node:
            casts += node.op_type == "Cast"
            kinds = {by_name.get(name) for name in node.output if name} & FLOATS
            if kinds and node.op_type not in uncounted:
                floats += 1
                narrow += kinds == {TensorProto.FLOAT16}
    return {"narrow": narrow, "floats": floats, "casts": casts}


def loads_everywhere(path, sample):
    for level in LEVELS:
        run = session(path, level)
        half = {i.name for i in run.get_inputs() if i.type == "tensor(float16)"}
        run.run(None, {k: v.astype(np.float16) if k in half else v for k, v in sample.items()})


def bytes_of(path):
    return sum(os.path.getsize(f) for f in glob.glob(os.path.dirname(path) + "/*"))


def measure(source, path, samples):
    """In a child: what is to be said of the result at `path`, as JSON."""
    held_out = [dict(np.load(f)) for f in held_out_of(samples)]
    result = {"bytes": bytes_of(path), "loads": True}
    try:
        loads_everywhere(path, held_out[0])
    except Exception as error:
        result.update(loads=False, why=first_line(error))
    try:
        result.update(count(path))
        worst, finite = 0.0, True
        for expected, actual in zip(run_emulated(source, held_out), run_emulated(path, held_out)):
            for e, a in zip(expected, actual):
                if is_float(e):
                    worst = max(worst, relative_l2(a, e))
                    finite = finite and bool(np.isfinite(a).all() or not np.isfinite(e).all())
        result.update(error=worst, finite=finite)
    except Exception as error:
        result.setdefault("why", first_line(error))
    print(json.dumps(result))


def first_line(error):
    return " ".join(str(error).split())[:160] or type(error).__name__


# ---- samples: the same for all ----


def of_test_data(folder, model):
    names = [i.name for i in session(model).get_inputs()]
    sample = {}
    for k, name in enumerate(names):
        with open(f"{folder}/input_{k}.pb", "rb") as file:
            sample[name] = numpy_helper.to_array(TensorProto.FromString(file.read()))
    return sample


def made_up(model, size, generator):
    sample = {}
    for value in session(model).get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else (1 if k == 0 else size) for k, d in enumerate(value.shape)]
        kind = value.type[7:-1]
        if kind in ("float", "float16", "double"):
            types = {"float": np.float32, "float16": np.float16, "double": np.float64}
            sample[value.name] = generator.standard_normal(shape).astype(types[kind])
        elif kind == "bool":
            sample[value.name] = generator.integers(0, 2, shape).astype(bool)
        else:
            sample[value.name] = generator.integers(0, 2, shape).astype(kind)
    return sample


def samples_of(model):
    folders = sorted(glob.glob(os.path.dirname(model) + "/test_data_set_*"))
    if folders:
        return [of_test_data(folder, model) for folder in folders]
    for size in (8, 1, 4, 64, 512, 3):
        try:
            made = [made_up(model, size, np.random.default_rng(seed)) for seed in range(4)]
            session(model).run(None, made[0])
            return made
        except Exception:
            continue
    return None


def prepare(model, samples):
    """In a child: writes the samples to `samples`/, those for calibration to another folder."""
    made = samples_of(model)
    if made is None:
        sys.exit("no samples of our making run")
    out = max(1, math.ceil(len(made) / 4)) if len(made) > 1 else 0
    for k, sample in enumerate(made):
        for folder in [samples] + [calibration_of(samples)] * (k < len(made) - out):
            os.makedirs(folder, exist_ok=True)
            np.savez(f"{folder}/{k}.npz", **sample)


def held_out_of(samples):
    files = sorted(glob.glob(samples + "/*.npz"))
    return files[-max(1, math.ceil(len(files) / 4)) :]


# ---- the run ----


def child(arguments, timeout):
    """Runs this file again. Its output and last line of errors, or None and why; seconds; MiB."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, __file__, *arguments], stdout=out, stderr=err, start_new_session=True
        )
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(timeout)
        _, status, usage = os.wait4(process.pid, 0)
        signal.alarm(0)
        process.returncode = status
        seconds, memory = time.monotonic() - began, usage.ru_maxrss / 1024
        for file in (out, err):
            file.seek(0)
        text, errors = out.read(), err.read().strip().splitlines()
    if status == 0:
        return text, None, seconds, memory
    why = "timeout" if seconds >= timeout else f"signal {status & 127}" if status & 127 else "exit"
    return None, errors[-1][:200] if why == "exit" and errors else why, seconds, memory


def narrowcast_child(model, samples, out, timeout):
    """As child(), without Python's own time and memory."""
    began = time.monotonic()
    process = subprocess.Popen(
        ["narrowcast", "convert", model, "--data", samples, "-o", out, "--quiet", "--timeout", str(timeout)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    text, errors = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    seconds, memory = time.monotonic() - began, usage.ru_maxrss / 1024
    if status == 0:
        return text, None, seconds, memory
    lines = [x for x in text.splitlines() if "FAILS" in x or " NOT " in x] or errors.splitlines()
    return None, " ".join(lines[0].split()) if lines else "signal", seconds, memory


def try_converter(name, model, samples, place, timeout):
    out = f"{place}/{name.replace(', ', '-')}/model.onnx"
    os.makedirs(os.path.dirname(out), exist_ok=True)
    if name == "narrowcast":
        text, why, seconds, memory = narrowcast_child(model, samples, out, timeout)
    else:
        text, why, seconds, memory = child(["--convert", name, model, samples, out], timeout)
        seconds = float(text.split()[-1]) if text else seconds
    result = {"converter": name, "file": os.path.exists(out), "seconds": seconds, "memory": memory}
    if why:
        result["why"] = why
    if result["file"]:
        text, why, _, _ = child(["--measure", model, out, samples], timeout)
        result.update(json.loads(text) if text else {"loads": False, "why": why})
    return result


def verdict(result, source):
    if not result["file"]:
        return "refused" if result["why"].startswith("FAILS") else "no file"
    if not result.get("loads"):
        return "not loaded"
    if not result.get("finite", True):
        return "not finite"
    if result.get("error") is None:
        return "not judged"
    if result["error"] > LIMIT:
        return "inexact"
    return "good" if result["narrow"] > source.get("narrow", 0) else "unchanged"


def table(rows):
    header, *body = rows
    lines = ["| " + " | ".join(map(str, header)) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in body])


def cell(result):
    if result["verdict"] in ("no file", "refused", "not loaded"):
        return result["verdict"]
    error = "-" if result.get("error") is None else f"{result['error']:.1e}"
    return f"{result['verdict']}, {result['narrow']}/{result['floats']}, {result['casts']}, {error}"


def totals(results, names):
    kinds = ["good", "unchanged", "inexact", "not finite", "not loaded", "no file", "refused", "not judged"]
    rows = [["converter", *kinds, "narrow nodes in good", "median s", "sum s", "median MiB", "most MiB"]]
    for name in names:
        own = [r for r in results if r["converter"] == name]
        good = [r for r in own if r["verdict"] == "good"]
        seconds, memory = [r["seconds"] for r in own], [r["memory"] for r in own]
        rows.append(
            [name, *(sum(r["verdict"] == kind for r in own) for kind in kinds)]
            + [f"{sum(r['narrow'] for r in good)} of {sum(r['floats'] for r in good)}"]
            + [f"{statistics.median(seconds):.2f}", f"{sum(seconds):.0f}"]
            + [f"{statistics.median(memory):.0f}", f"{max(memory):.0f}"]
        )
    return table(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", help="file for the results, one a line in JSON; what is in it is not done again")
    parser.add_argument("--only", action="append", help="a converter; may be repeated")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for each conversion")
    parser.add_argument("models", nargs="*", help="names of folders; default: all")
    options = parser.parse_args()
    folder = os.environ["NARROWCAST_MODELS"]
    models = options.models or sorted(os.path.basename(os.path.dirname(f)) for f in glob.glob(folder + "/*/model.onnx"))
    names = [n for n, (_, module) in CONVERTERS.items() if not module or importlib.util.find_spec(module)]
    names = [n for n in names if not options.only or n in options.only]
    results = []
    if options.o and os.path.exists(options.o):
        with open(options.o) as file:
            results = [json.loads(line) for line in file]
    done = {(r["model"], r["converter"]) for r in results}
    for model in models:
        missing = [n for n in names if (model, n) not in done]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as place:
            source, samples = f"{folder}/{model}/model.onnx", place + "/samples"
            text, why, _, _ = child(["--prepare", source, samples], options.timeout)
            if text is None:
                print(f"{model}: left out: {why}", file=sys.stderr)
                continue
            text, why, _, _ = child(["--measure", source, source, samples], options.timeout)
            before = json.loads(text) if text else {}
            for name in missing:
                result = try_converter(name, source, samples, place, options.timeout)
                result.update(model=model, before=before)
                if "casts" in result:
                    result["casts"] -= before.get("casts", 0)
                result["verdict"] = verdict(result, before)
                results.append(result)
                print(model, name, cell(result), result.get("why", ""), sep=": ", file=sys.stderr)
                if options.o:
                    with open(options.o, "a") as file:
                        file.write(json.dumps(result) + "\n")
    names = [n for n in names if any(r["converter"] == n for r in results)]
    rows = [["model", *(f"{n}: narrow/float, Casts, error" for n in names)]]
    for model in models:
        by_name = {r["converter"]: r for r in results if r["model"] == model}
        if by_name:
            rows.append([model, *(cell(by_name[n]) if n in by_name else "" for n in names)])
    print(table(rows), totals([r for r in results if r["model"] in models], names), sep="\n\n")


if __name__ == "__main__":
    task = {"--convert": convert, "--measure": measure, "--prepare": prepare}.get(sys.argv[1] if sys.argv[1:] else "")
    task(*sys.argv[2:]) if task else main()
