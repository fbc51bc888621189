"""Whether the dense retrievers pick what OpenCompass' pick, from the same vectors.

    python benchmarks/retriever_picks.py --reference-python PATH [--rows 400] [--queries 60]

Vectors come in clusters, as those of sentences do. PATH is the Python of an environment that has OpenCompass.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from retrievers import Columns
from rolecall.sources.retrievers import DPPRetriever, TopkRetriever, VotekRetriever

KINDS: dict[str, Any] = {'Topk': TopkRetriever, 'DPP': DPPRetriever, 'Votek': VotekRetriever}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f'Topk, {shots} examples': ('Topk', {'ice_num': shots}) for shots in (1, 8)},
    **{
        f'Votek, k {k}, {shots} examples': ('Votek', {'ice_num': shots, 'votek_k': k})
        for k in (3, 5, 10)
        for shots in (4, 8)
    },
    **{
        f'DPP, {near} candidates, {shots} examples, scale {scale}': (
            'DPP',
            {'ice_num': shots, 'candidate_num': near, 'scale_factor': scale},
        )
        for near in (8, 30)
        for shots in (3, 6)
        for scale in (0.1, 0.5)
    },
}
REFERENCE = Path(__file__).with_name('reference') / 'opencompass_retrievers.py'


def clustered(rows: int, queries: int, dimensions: int = 48) -> dict[str, Any]:
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(12, dimensions))

    def drawn(count: int) -> Any:
        near = centres[chance.integers(0, len(centres), count)]
        return (near + 0.7 * chance.normal(size=near.shape)).astype(np.float32)

    return {'train': drawn(rows), 'test': drawn(queries)}


def ours(kind: str, settings: dict[str, Any], vectors: dict[str, Any]) -> list[list[int]]:
    rows = {split: [{'question': f'{split} {i}'} for i in range(len(vectors[split]))] for split in ('train', 'test')}
    known = {f'{split} {i}': row for split, found in vectors.items() for i, row in enumerate(found)}
    retriever = KINDS[kind](**settings, encoder=lambda texts: np.stack([known[text] for text in texts]))
    return [list(picked.ids) for picked in retriever.retrieve(rows['train'], rows['test'], reader=Columns())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--reference-python', required=True)
    parser.add_argument('--rows', type=int, default=400)
    parser.add_argument('--queries', type=int, default=60)
    given = parser.parse_args()
    vectors = clustered(given.rows, given.queries)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'vectors.npz')
        np.savez(path, **vectors)
        command = [given.reference_python, str(REFERENCE), str(path), json.dumps(SETTINGS)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    theirs = json.loads(done.stdout)
    for name, (kind, settings) in SETTINGS.items():
        same = sum(one == other for one, other in zip(ours(kind, settings, vectors), theirs[name], strict=True))
        print(f'{name:45} same picks in {same} of {given.queries} rows')


if __name__ == '__main__':
    main()
