"""The file of each event."""

from .event import Ban as Ban
from .event import Event as Event
from .event import MapVersion as MapVersion
from .event import Skip as Skip
from .event import Weights as Weights
from .event_file import EventFile as EventFile
from .event_file import load as load
from .event_file import save as save
