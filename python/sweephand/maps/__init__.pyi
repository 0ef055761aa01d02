"""Where each name that other rooms use is defined."""

from .counts import check_carried as check_carried
from .counts import with_counts as with_counts
from .counts import with_loss_masks as with_loss_masks
from .functions import KnownMap as KnownMap
from .functions import Lengths as Lengths
from .functions import function_digest as function_digest
from .functions import split_digest as split_digest
from .functions import with_digest as with_digest
from .mapped import check_name as check_name
from .mapped import map_corpus as map_corpus
from .measure import filtered as filtered
from .sequence_classes import SequenceClasses as SequenceClasses
from .sequence_classes import classes_of as classes_of
from .sequence_map import SequenceMap as SequenceMap
from .sequence_map import SizeOf as SizeOf
from .sequence_map import make_filter as make_filter
from .sequence_map import make_map as make_map
from .workers import MapWorkers as MapWorkers
from .workers import OpenContext as OpenContext
