from mmengine.config import read_base

with read_base():
    from ..sides import models
    from .datasets.quiz_ppl import quiz_ppl_datasets
    from .datasets.sums_gen import sums_datasets

models = models[:2]
datasets = sums_datasets + quiz_ppl_datasets
