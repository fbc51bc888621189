from rolecall.sources.config.files import Config as Config
from rolecall.sources.config.finder import read_base as read_base
from rolecall.sources.config.printing import format_config as format_config
