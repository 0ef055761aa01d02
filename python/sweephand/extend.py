"""The face that formats, commands, pages, activities and learners of other packages build on.

Extensions import the public names of `sweephand`, these, and their own files. They
are kept as public names are: docs/extending.md.
"""

from sweephand.base.public_names import attach_names

__getattr__, __dir__, __all__ = attach_names(__name__, __file__)
