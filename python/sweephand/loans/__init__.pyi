"""Where the names of loans lie."""

from .desk import Desk as Desk
from .desk import Loan as Loan
from .desk import LoanError as LoanError
from .desk import RemoteDesk as RemoteDesk
