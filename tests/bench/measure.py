"""What the scripts here share: models with their samples, and runs of narrowcast with JSON results."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.join(os.environ.get("BUILD", ROOT / "build"), "narrowcast")
SECONDS = 300  # for one run, at most


def models(names):
    """(name, file, options for its samples) of the folder's models, or of those that are named."""
    folder = os.environ.get("NARROWCAST_MODELS")
    if not folder:
        sys.exit("bench: set NARROWCAST_MODELS to a folder of models")
    for path in sorted(pathlib.Path(folder).glob("*/model.onnx")):
        if names and path.parent.name not in names:
            continue
        samples = any(path.parent.glob("test_data_set_*"))
        yield path.parent.name, str(path), ["--data", str(path.parent)] if samples else []


def run(*arguments):
    """Exit code and standard output; a run that takes too long has the code of a time-out, 124."""
    try:
        done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=SECONDS, check=False)
        return done.returncode, done.stdout.decode()
    except subprocess.TimeoutExpired:
        return 124, ""


def result(*arguments):
    """The JSON result of a run, or None if it ended without one."""
    _, text = run(*arguments, "--json")
    try:
        return json.loads(text)
    except ValueError:
        return None


def policies():
    return [line.split()[0] for line in run("policy", "list")[1].splitlines()]


def worst_error(verdict):
    """Largest relative L2 error of an output, or None without a measured one."""
    errors = [float(output["relative_l2"]) for output in verdict.get("outputs", [])
              if output.get("relative_l2") is not None]
    return max(errors) if errors else None


def number(x, form="%.2g"):
    return "-" if x is None else form % x
