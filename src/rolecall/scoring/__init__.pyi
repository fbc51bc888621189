from rolecall.scoring.answers import Scorable as Scorable
from rolecall.scoring.evaluate import build_scorer as build_scorer
from rolecall.scoring.scorecard import Scorecard as Scorecard
from rolecall.scoring.scorecard import Verdict as Verdict
