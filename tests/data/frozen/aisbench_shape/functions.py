from mmengine.config import read_base

with read_base():
    from ..sides import models
    from .eval import datasets

models = models[2:]
