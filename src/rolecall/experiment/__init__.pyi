from rolecall.experiment.experiment import Experiment as Experiment
from rolecall.experiment.experiment import preview as preview
from rolecall.experiment.lint.finding import Finding as Finding
from rolecall.experiment.lint.linter import lint_config as lint_config
from rolecall.experiment.opening.loading import load_config as load_config
from rolecall.experiment.opening.rows_config import Task as Task
from rolecall.experiment.pairs.pair import Preview as Preview
