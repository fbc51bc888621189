from rolecall.experiment.inferencers.inferencer import GenInferencer as GenInferencer
from rolecall.experiment.inferencers.inferencer import MultiTurnGenInferencer as MultiTurnGenInferencer
from rolecall.experiment.inferencers.inferencer import SCInferencer as SCInferencer
from rolecall.experiment.inferencers.likelihood import CLPInferencer as CLPInferencer
from rolecall.experiment.inferencers.likelihood import LLInferencer as LLInferencer
from rolecall.experiment.inferencers.losses import PPLInferencer as PPLInferencer
from rolecall.experiment.inferencers.losses import PPLOnlyInferencer as PPLOnlyInferencer
