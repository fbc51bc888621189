"""What OpenCompass' dense retrievers pick, for `benchmarks/retriever_picks.py`. Runs in an environment that has it installed.

Reads the path of vectors and a list of settings, and prints one JSON object: settings -> the picks for each test row.
Its DPP retriever stops with a TypeError as it is (a list is indexed with an array); an array is given to it instead.
"""

import json
import os
import sys

out = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)
os.environ.update(HF_HUB_OFFLINE='1', TQDM_DISABLE='1')

import faiss  # noqa: E402
import numpy as np  # noqa: E402
from opencompass.openicl.icl_retriever import icl_dpp_retriever as dpp  # noqa: E402
from opencompass.openicl.icl_retriever import icl_topk_retriever as topk  # noqa: E402
from opencompass.openicl.icl_retriever import icl_votek_retriever as votek  # noqa: E402

KINDS = {'Topk': topk.TopkRetriever, 'DPP': dpp.DPPRetriever, 'Votek': votek.VotekRetriever}
greedy = dpp.fast_map_dpp
dpp.fast_map_dpp = lambda *given: np.array(greedy(*given))


def picks(kind, settings, train, test):
    """The picks of a retriever that is given vectors instead of a model."""
    made = KINDS[kind].__new__(KINDS[kind])
    vars(made).update(settings, is_main_process=False, dataloader=None, embed_list=train, test_ds=test)
    made.index = faiss.IndexIDMap(faiss.IndexFlatIP(train.shape[1]))
    made.index.add_with_ids(train, np.arange(len(train)))
    made.forward = lambda *_args, **_kwargs: [{'embed': row, 'metadata': {'id': i}} for i, row in enumerate(test)]
    return made.retrieve()


if __name__ == '__main__':
    vectors = np.load(sys.argv[1])
    found = {
        name: picks(kind, settings, vectors['train'], vectors['test'])
        for name, (kind, settings) in json.loads(sys.argv[2]).items()
    }
    print(json.dumps(found), file=out)
