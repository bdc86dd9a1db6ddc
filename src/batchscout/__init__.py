"""batchscout: which batch size, with which learning rate, reaches the target score soonest on this machine?"""

__version__ = "0.1.0"
