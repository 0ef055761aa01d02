"""Where each name that other rooms use is defined."""

from .formula import Formula as Formula
from .schedule import Follows as Follows
from .schedule import FormulaSchedule as FormulaSchedule
from .schedule import Schedule as Schedule
from .schedule import StepSchedule as StepSchedule
from .schedule import mean_gradient_rate as mean_gradient_rate
from .schedule import minibatch_momentum as minibatch_momentum
from .spec import Spec as Spec
from .spec import minibatch_size_schedule as minibatch_size_schedule
from .spec import schedule_of as schedule_of
