from rolecall.models.model_names import resolve_model as resolve_model
from rolecall.models.protocol import Capabilities as Capabilities
from rolecall.models.protocol import Model as Model
from rolecall.models.protocol import ModelError as ModelError
from rolecall.models.protocol import Reply as Reply
from rolecall.models.protocol import Sampling as Sampling
from rolecall.models.protocol import Scored as Scored
from rolecall.models.protocol import Usage as Usage
