"""palate: does this reward model know what this particular person wants, and will that matter?"""

__version__ = "0.1.0"
