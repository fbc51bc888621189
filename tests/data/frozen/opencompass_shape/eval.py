from mmengine.config import read_base
from opencompass.partitioners import NaivePartitioner
from opencompass.runners import LocalRunner
from opencompass.tasks import OpenICLInferTask

with read_base():
    from .datasets.quiz_ppl import quiz_ppl_datasets
    from .datasets.sums_gen import sums_datasets
    from .models import models

datasets = [*quiz_ppl_datasets, *sums_datasets]
work_dir = 'outputs/frozen'
infer = dict(
    partitioner=dict(type=NaivePartitioner),
    runner=dict(type=LocalRunner, max_num_workers=4, task=dict(type=OpenICLInferTask)),
)
