from __future__ import annotations
from . import base
from . import index
from . import order
from . import compose
from . import read
from . import formats
from . import engine
from . import train
from . import testing
__all__: list[str] = ['base', 'compose', 'engine', 'formats', 'index', 'order', 'read', 'testing', 'train']
